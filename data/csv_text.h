// The syntax of CSV (RFC 4180): a delimiter separates fields, and LF or CRLF separates records. A
// quoted field may contain delimiters and ends of lines, and two quotes in it stand for one. A
// dialect may have another quote, no quote, or an escape character that makes the next character
// literal. CsvCutter skips empty lines. Only the cursor does I/O.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "data/record_index.h"

namespace paracord {

struct CsvDialect {
  std::string delimiter = ",";  // never empty; may have several characters
  bool trim = false;            // whether spaces and tabs around fields are removed
  char quote = '"';             // 0: no field is quoted, and quotes are text
  char escape = 0;              // makes the next character literal; 0: there is none
};

// The fields of a record. `values` are views into the parsed text or into `owned`.
struct CsvFields {
  std::vector<std::string_view> values;
  std::deque<std::string> owned;  // the fields in which quotes or escapes were replaced
};

// Counts the ends of lines inside the fields of a record. Counts those of a field only if the lines
// that they separate have as many fields as the record: a sign that the file uses no quotes.
size_t LinesWithinFields(const CsvFields& fields, std::string_view delimiter);

// Parses the record at the start of `text`, and returns its length including the end of its line.
// Returns 0 if `text` ends inside the record. With `at_end`, `text` ends where the file ends, and a
// record that reaches that end is complete. INVALID_ARGUMENT says what is wrong, but not where.
absl::StatusOr<size_t> ParseCsvRecord(std::string_view text, bool at_end, const CsvDialect& dialect,
                                      CsvFields& fields);

// Returns what probably is the delimiter of a header: the one of comma, semicolon, tab and bar that
// is most frequent outside of quotes; "" if none occurs.
std::string LikelyDelimiter(std::string_view header);

// Cuts a file into records, each with the expected number of fields.
class CsvCutter : public RecordCutter {
 public:
  explicit CsvCutter(CsvDialect dialect, size_t fields = 0)
      : dialect_(std::move(dialect)), count_(fields) {}

  // Moves over a record. After Forgive, Skip accepts any number of fields, and where a record is
  // malformed, moves to the end of the line on which the record begins.
  absl::StatusOr<bool> Skip(FileCursor& cursor) const override;
  // Reads the next record. `fields` is valid until the cursor is used. Returns false at the end of
  // the file.
  absl::StatusOr<bool> Next(FileCursor& cursor, CsvFields& fields) const;
  void ExpectFields(size_t count) { count_ = count; }  // 0: any number
  void Forgive() { forgives_ = true; }

 private:
  // Reads the next record with any number of fields.
  absl::StatusOr<bool> NextOfAny(FileCursor& cursor, CsvFields& fields) const;

  CsvDialect dialect_;
  size_t count_;
  bool forgives_ = false;
};

}  // namespace paracord
