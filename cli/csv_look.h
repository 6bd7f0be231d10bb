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
  size_t lacking = 0;             // number of fields that are empty or one of `missing`
  std::set<std::string> missing;  // texts found that mark a missing value, such as "NA"
  std::vector<double> numbers;    // the values that are finite numbers
  size_t values = 0;              // number of fields with a value
  bool whole = true;              // all values are whole numbers, and none is a list
  bool ascends = true;            // each value is a whole number, larger by 1 than the one before
  double last = 0;                // the last value; 0 if it is no whole number
  bool list = false;              // some field has several values, separated by "|"
  size_t longest = 0;             // the most values in one field
  bool list_whole = true;         // each separated value is empty or a whole number
  double smallest = 0, largest = 0;  // extremes of 0 and all whole numbers, in lists too
  std::set<std::string> words;       // the different values as texts, at most 1,001

  bool lacks() const { return lacking > 0; }
  // Whether the column numbers the records: it has no name, as pandas' to_csv writes its index, or
  // its whole numbers ascend by 1 and none is missing.
  bool CountsRows() const;
  // Whether the column identifies examples and carries no information: it numbers the records, or
  // every field has a different whole number and its name is "id", "row_id", "userId", "index" or
  // the like.
  bool NumbersRows() const;
  bool is_number() const { return values > 0 && numbers.size() == values; }
  // Whether the column has words, and few enough different ones for one-hot vectors.
  bool HasFewWords() const;
  // Whether the values are numbers from 0 to 1, or at most two texts.
  bool HasTwoClasses() const;
  double Median() const;
  double Mean() const;
  double Deviation() const;
};

// Rounds `number` to a multiple of the unit of the fourth significant digit of `scale`: a mean, for
// instance, as far as its deviation matters. Returns 0 if `scale` is 0 or a number is not finite.
double RoundedBy(double number, double scale);

struct CsvLook {
  std::string delimiter;
  std::vector<ColumnLook> columns;  // in the order of the file
};

// Errors name the file; if its first line does not name columns, the error says what to write.
absl::StatusOr<CsvLook> LookAtCsv(Files& files, const std::string& path);

}  // namespace paracord
