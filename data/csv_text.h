// The syntax of CSV (RFC 4180): fields parted by a delimiter, records by LF or CRLF, fields in
// quotes that may hold both, and a doubled quote for one. Dialects know other quotes, none, or a
// character in front of one that is to be taken as it is. A byte-order mark is skipped. Lines with
// nothing in them are no records. Pure but for the cursor's reads.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/record_index.h"

namespace paracord {

struct CsvDialect {
  char delimiter = ',';
  bool trim = false;  // spaces and tabs around fields, also before a quote
  char quote = '"';   // 0: a field holds neither delimiters nor ends of lines, and quotes are text
  char escape = 0;    // in front of a character that is text; 0: there is none
};

// The fields of one record: views into the parsed text or into `owned`.
struct CsvFields {
  std::vector<std::string_view> values;
  std::deque<std::string> owned;  // those with quotes or escapes inside
};

// How many ends of lines stand within fields of a record of several fields, where the lines between
// them look like records of as many fields: a sign that the file knows no quotes.
size_t LinesWithinFields(const CsvFields& fields, char delimiter);

// Parses the record at the start of `text` and returns its length with the end of its line; 0 if
// the text ends before the record does. With `at_end` nothing follows the text. INVALID_ARGUMENT
// says what is wrong, not where.
absl::StatusOr<size_t> ParseCsvRecord(std::string_view text, bool at_end, CsvDialect dialect,
                                      CsvFields& fields);

// Records with a fixed number of fields.
class CsvCutter : public RecordCutter {
 public:
  explicit CsvCutter(CsvDialect dialect, size_t fields = 0) : dialect_(dialect), count_(fields) {}

  absl::StatusOr<bool> Skip(FileCursor& cursor) const override;
  // The next record, which stays in the cursor's buffer until its next use; false at the end.
  absl::StatusOr<bool> Next(FileCursor& cursor, CsvFields& fields) const;
  void ExpectFields(size_t count) { count_ = count; }  // 0: any number

 private:
  CsvDialect dialect_;
  size_t count_;
};

}  // namespace paracord
