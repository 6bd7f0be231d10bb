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
  size_t lacking = 0;                // fields without a value: empty, or one of `missing`
  std::set<std::string> missing;     // texts that mark a missing value
  std::vector<double> numbers;       // the finite numbers
  size_t values = 0;                 // not missing
  bool whole = true;                 // all numbers are whole
  bool ascends = true;               // each field is the whole number behind that of the last one
  double last = 0;                   // the last field, if a whole number
  bool list = false;                 // some field has several values between "|"
  size_t longest = 0;                // the most values of a list
  bool list_whole = true;            // all values of lists are whole
  double smallest = 0, largest = 0;  // whole numbers, in lists too
  std::set<std::string> words;       // the texts, if there are few of them

  bool lacks() const { return lacking > 0; }
  // Whether the column counts the records, as pandas' to_csv does in a column without a name.
  bool CountsRows() const;
  // Whether the column identifies examples and carries no information: it counts the records, or
  // every field has a different whole number and its name is "id", "row_id", "userId", "index" or
  // the like.
  bool NumbersRows() const;
  bool is_number() const { return values > 0 && numbers.size() == values; }
  // Whether vectors with one 1 for each word could stand for the column.
  bool HasFewWords() const;
  // Whether the values are numbers from 0 to 1, or at most two texts.
  bool HasTwoClasses() const;
  double Median() const;
  double Mean() const;
  double Deviation() const;
};

// Rounds a number to what is a fourth digit of `scale`: a mean to digits of its deviation.
double RoundedBy(double number, double scale);

struct CsvLook {
  std::string delimiter;
  std::vector<ColumnLook> columns;  // in the order of the file
};

// Errors name the file; for a file that is no CSV with a header they say what to do.
absl::StatusOr<CsvLook> LookAtCsv(Files& files, const std::string& path);

}  // namespace paracord
