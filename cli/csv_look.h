// Describes the first records of a CSV file for a command that guesses a job: the delimiter, and
// for each column whether it holds numbers, whole numbers or words. Blocking, in main's thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

inline constexpr size_t kRecordsLookedAt = 1000;

struct ColumnLook {
  std::string name;
  size_t lacking = 0;             // number of fields that are empty or in `missing`
  std::set<std::string> missing;  // the texts found that mark a missing value, such as "NA"
  std::vector<double> numbers;    // the values that are finite numbers, in order
  size_t values = 0;              // number of fields with a value
  bool whole = true;              // all values are single whole numbers
  // All values are whole numbers, and each but the first is larger by 1 than the value before.
  bool ascends = true;
  double last = 0;     // the last value; 0 if it is no whole number
  bool list = false;   // some field has several values, separated by "|"
  size_t longest = 0;  // the most values in one field
  // In all fields, each value between separators is empty or a whole number.
  bool list_whole = true;
  // The smallest and the largest of 0 and all whole numbers, also those in lists.
  double smallest = 0, largest = 0;
  // The different values as texts; no more are added once there are 1,001.
  std::set<std::string> words;

  bool lacks() const { return lacking > 0; }
  // Whether the column only numbers the records: it has no name, as the index that pandas' to_csv
  // writes, or at least 10 values, none of them missing, that are whole numbers and ascend by 1.
  bool CountsRows() const;
  // Whether the column identifies examples and carries no information: it numbers the records, or
  // every field has a different whole number and the column's name is "id", "row_id", "userId",
  // "index" or the like.
  bool NumbersRows() const;
  bool is_number() const { return values > 0 && numbers.size() == values; }
  // Whether the column has words, and few enough different ones for one-hot vectors: from 2 to 50.
  bool HasFewWords() const;
  // Whether all values are numbers from 0 to 1, or there are at most two different texts.
  bool HasTwoClasses() const;
  double Median() const;
  double Mean() const;
  double Deviation() const;
};

// Rounds `number` to a multiple of the unit of the fourth significant digit of `scale`: a mean, for
// instance, by its deviation. Returns 0 if `scale` is 0 or an argument is not finite.
double RoundedBy(double number, double scale);

struct CsvLook {
  std::string delimiter;
  std::vector<ColumnLook> columns;  // in the order of the file
};

// Looks at the first kRecordsLookedAt records. Errors name the file; if its first line does not
// name columns, the error says to write a line of names.
absl::StatusOr<CsvLook> LookAtCsv(Files& files, const std::string& path);

}  // namespace paracord
