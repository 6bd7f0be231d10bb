// What the first records of a CSV file look like, for a command that guesses a job: its delimiter,
// and of each column whether it has numbers, whole numbers or words. Blocking, in main's thread.
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
  std::set<std::string> missing;     // texts that stand for a value that is not there
  std::vector<double> numbers;       // those that are finite numbers
  size_t values = 0;                 // that are not missing
  bool whole = true;                 // all numbers are whole
  bool list = false;                 // some field has several values between "|"
  size_t longest = 0;                // the most values of a list
  bool list_whole = true;            // and all of them are whole numbers
  double smallest = 0, largest = 0;  // of the whole numbers, those in lists too
  std::set<std::string> words;       // the texts, if there are few of them

  bool lacks() const { return lacking > 0; }
  // Whether every field has a whole number that no other has, under a name such as "id", "row_id"
  // or "userId": what tells examples apart, and says nothing of them.
  bool NumbersRows() const;
  bool is_number() const { return values > 0 && numbers.size() == values; }
  double Median() const;
  double Mean() const;
  double Deviation() const;
};

struct CsvLook {
  std::string delimiter;
  std::vector<ColumnLook> columns;  // in the order of the file
};

// An error names the file and says what to do about one that is no CSV with a header.
absl::StatusOr<CsvLook> LookAtCsv(Files& files, const std::string& path);

}  // namespace paracord
