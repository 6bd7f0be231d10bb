// The syntax of CSV (RFC 4180): a delimiter separates fields, and LF or CRLF separates records. A
// field in quotes may hold both, and two quotes in it stand for one. A dialect may have another
// quote, none, or an escape character before one that is text. A byte-order mark and empty lines
// are skipped. Pure but for the cursor's reads.
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
  std::string delimiter = ",";  // never empty; several characters together are one delimiter
  bool trim = false;            // spaces and tabs around fields, also before a quote
  char quote = '"';  // 0: a field holds neither delimiters nor ends of lines, and quotes are text
  char escape = 0;   // in front of a character that is text; 0: there is none
};

// The fields of one record: views into the parsed text or into `owned`.
struct CsvFields {
  std::vector<std::string_view> values;
  std::deque<std::string> owned;  // those with quotes or escapes inside
};

// Counts the ends of lines within the fields of a record where the lines look like records of as
// many fields themselves: a sign that the file knows no quotes.
size_t LinesWithinFields(const CsvFields& fields, std::string_view delimiter);

// Parses the record at the start of `text` and returns its length including the end of its line.
// Returns 0 if the text ends before the record does; `at_end` says that nothing follows the text.
// INVALID_ARGUMENT says what is wrong, but not where.
absl::StatusOr<size_t> ParseCsvRecord(std::string_view text, bool at_end, const CsvDialect& dialect,
                                      CsvFields& fields);

// Returns the character that separates the names in a header: of comma, semicolon, tab and bar the
// one that occurs most often outside of quotes. Empty if none occurs.
std::string LikelyDelimiter(std::string_view header);

// Cuts a file into records with a fixed number of fields.
class CsvCutter : public RecordCutter {
 public:
  explicit CsvCutter(CsvDialect dialect, size_t fields = 0)
      : dialect_(std::move(dialect)), count_(fields) {}

  // Of a cutter that forgives, a record that Next refuses ends where its line does.
  absl::StatusOr<bool> Skip(FileCursor& cursor) const override;
  // Reads the next record, which stays in the cursor's buffer until the cursor's next use. Returns
  // false at the end.
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
