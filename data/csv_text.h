// The syntax of CSV (RFC 4180): a delimiter separates fields, and LF or CRLF separates records. A
// quoted field may hold delimiters and ends of lines, and two quotes inside stand for one. A
// dialect may have another quote, none, or an escape character before a literal character.
// CsvCutter skips empty lines. Does no I/O except by the cursor.
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
  std::string delimiter = ",";  // never empty; several characters form a single delimiter
  bool trim = false;            // removes spaces and tabs around fields, also before a quote
  char quote = '"';             // 0: no field is quoted, and quotes are text
  char escape = 0;              // precedes a literal character; 0: there is none
};

// The fields of a record: views into the parsed text or into `owned`.
struct CsvFields {
  std::vector<std::string_view> values;
  std::deque<std::string> owned;  // texts of fields with inner quotes or escapes
};

// Counts the ends of lines inside the fields of a record, if the lines between them look like
// records with as many fields: a sign that the file uses no quotes.
size_t LinesWithinFields(const CsvFields& fields, std::string_view delimiter);

// Parses the record at the start of `text` and returns its length, with the end of the line.
// Returns 0 if `text` ends inside the record. With `at_end`, the file ends with `text`, and so does
// the record. INVALID_ARGUMENT says what is wrong, but not where.
absl::StatusOr<size_t> ParseCsvRecord(std::string_view text, bool at_end, const CsvDialect& dialect,
                                      CsvFields& fields);

// Returns the delimiter of a header: the most frequent of comma, semicolon, tab and bar outside of
// quotes. Empty if none of them occurs.
std::string LikelyDelimiter(std::string_view header);

// Cuts a file into records, all with the same number of fields.
class CsvCutter : public RecordCutter {
 public:
  explicit CsvCutter(CsvDialect dialect, size_t fields = 0)
      : dialect_(std::move(dialect)), count_(fields) {}

  // After Forgive, Skip does not refuse a malformed record, but moves to the end of its line.
  absl::StatusOr<bool> Skip(FileCursor& cursor) const override;
  // Reads the next record. `fields` points into the cursor's buffer, valid until the cursor's next
  // use. Returns false at the end of the file.
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
