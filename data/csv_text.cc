#include "data/csv_text.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr size_t kCsvPeekBytes = 512;
constexpr size_t kCsvRecordBytesMax = 16 << 20;

constexpr std::string_view kNull = "\\N";  // databases' marker of a missing value, not an escaped N

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

// Parses a record in a single pass.
class Parser {
 public:
  Parser(std::string_view text, bool at_end, const CsvDialect& dialect, CsvFields& fields)
      : text_(text), at_end_(at_end), dialect_(dialect), fields_(fields) {}

  absl::StatusOr<size_t> Parse() {
    fields_.values.clear();
    fields_.owned.clear();
    while (true) {
      if (dialect_.trim) SkipBlanks();
      if (dialect_.quote != 0 && at_ < text_.size() && text_[at_] == dialect_.quote) {
        RETURN_IF_ERROR(ReadQuoted());
      } else {
        ReadPlain();
      }
      if (at_ == text_.size()) return at_end_ ? at_ : 0;
      if (text_[at_] == '\n') return at_ + 1;
      at_ += dialect_.delimiter.size();
    }
  }

 private:
  // Whether a delimiter begins at at_, which is before the end of the text.
  bool AtDelimiter() const {
    return text_[at_] == first_ &&
           (dialect_.delimiter.size() == 1 || text_.substr(at_).starts_with(dialect_.delimiter));
  }
  void SkipBlanks() {
    while (at_ < text_.size() && IsBlank(text_[at_]) && !AtDelimiter()) ++at_;
  }

  // Reads a field without quotes, up to a delimiter, the end of the line or of the text.
  void ReadPlain() {
    const size_t begin = at_;
    bool escaped = false;
    while (at_ < text_.size() && text_[at_] != '\n' && !AtDelimiter()) {
      if (dialect_.escape != 0 && text_[at_] == dialect_.escape && at_ + 1 < text_.size()) {
        escaped = true;
        ++at_;
      }
      ++at_;
    }
    std::string_view field = text_.substr(begin, at_ - begin);
    const bool ends_line = at_ == text_.size() ? at_end_ : text_[at_] == '\n';
    if (ends_line && field.ends_with('\r')) field.remove_suffix(1);
    if (dialect_.trim) field = Trimmed(field);
    if (escaped && field != kNull) field = Unescaped(field, /*quoted=*/false);
    fields_.values.push_back(field);
  }

  absl::Status ReadQuoted() {
    const size_t begin = ++at_;
    bool special = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (dialect_.escape != 0 && c == dialect_.escape && c != dialect_.quote) {
        special = true;
        at_ += 2;
        continue;
      }
      ++at_;
      if (c != dialect_.quote) continue;
      if (at_ == text_.size() || text_[at_] != dialect_.quote) {
        const std::string_view field = text_.substr(begin, at_ - 1 - begin);
        fields_.values.push_back(special ? Unescaped(field, /*quoted=*/true) : field);
        return AfterQuote();
      }
      special = true;
      ++at_;
    }
    at_ = text_.size();
    if (at_end_) return absl::InvalidArgumentError("a quote is not closed");
    return absl::OkStatus();
  }

  // Returns the field without escape characters.
  std::string_view Unescaped(std::string_view field, bool quoted) {
    std::string& text = fields_.owned.emplace_back();
    for (size_t i = 0; i < field.size(); ++i) {
      const bool escape = dialect_.escape != 0 && field[i] == dialect_.escape;
      const bool doubled = quoted && field[i] == dialect_.quote;
      if ((escape || doubled) && i + 1 < field.size()) ++i;
      text.push_back(field[i]);
    }
    return text;
  }

  absl::Status AfterQuote() {
    if (dialect_.trim) SkipBlanks();
    if (at_ == text_.size() || text_[at_] == '\n' || AtDelimiter()) return absl::OkStatus();
    if (!at_end_ && dialect_.delimiter.starts_with(text_.substr(at_))) {  // the rest is to come
      at_ = text_.size();
      return absl::OkStatus();
    }
    if (text_[at_] == '\r') {
      if (at_ + 1 == text_.size()) {
        ++at_;
        return absl::OkStatus();
      }
      if (text_[at_ + 1] == '\n') {
        ++at_;
        return absl::OkStatus();
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat("field ", fields_.values.size(), ": something follows the closing quote"));
  }

  const std::string_view text_;
  const bool at_end_;
  const CsvDialect& dialect_;
  const char first_ = dialect_.delimiter[0];
  CsvFields& fields_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<size_t> ParseCsvRecord(std::string_view text, bool at_end, const CsvDialect& dialect,
                                      CsvFields& fields) {
  return Parser(text, at_end, dialect, fields).Parse();
}

size_t LinesWithinFields(const CsvFields& fields, std::string_view delimiter) {
  const size_t wanted = fields.values.size();
  size_t found = 0;
  for (size_t i = 0; i < wanted; ++i) {
    const std::string_view field = fields.values[i];
    if (field.find('\n') == std::string_view::npos) continue;
    // The field's first line also has the previous fields, its last line the following fields.
    size_t columns = i, lines = 0;
    bool records = true;
    for (size_t at = 0; at < field.size(); ++at) {
      if (field.substr(at).starts_with(delimiter)) {
        ++columns;
        at += delimiter.size() - 1;
      }
      if (field[at] != '\n') continue;
      records = records && columns + 1 == wanted;
      columns = 0;
      ++lines;
    }
    if (records && columns + wanted - i == wanted) found += lines;
  }
  return found;
}

std::string LikelyDelimiter(std::string_view header) {
  constexpr std::string_view kDelimiters = ",;\t|";
  std::array<size_t, kDelimiters.size()> counts = {};
  bool quoted = false;
  for (const char letter : header) {
    if (letter == '"') quoted = !quoted;
    const size_t at = kDelimiters.find(letter);
    if (!quoted && at != std::string_view::npos) ++counts[at];
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  if (*most == 0) return "";
  return std::string(1, kDelimiters[static_cast<size_t>(most - counts.begin())]);
}

absl::StatusOr<bool> CsvCutter::NextOfAny(FileCursor& cursor, CsvFields& fields) const {
  for (size_t want = kCsvPeekBytes;;) {
    if (want > kCsvRecordBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the record is longer than ", kCsvRecordBytesMax, " bytes; is a quote not closed?"));
    }
    ASSIGN_OR_RETURN(const std::string_view text, cursor.Peek(want));
    const bool at_end = text.size() < want;
    if (text.empty()) return false;
    const size_t blank = text[0] == '\n' ? 1 : text.starts_with("\r\n") ? 2 : 0;
    if (blank > 0) {
      cursor.Skip(blank);
      continue;
    }
    ASSIGN_OR_RETURN(const size_t length, ParseCsvRecord(text, at_end, dialect_, fields));
    if (length == 0) {
      want = std::max(want, text.size()) * 2;
      continue;
    }
    cursor.Skip(length);
    return true;
  }
}

absl::StatusOr<bool> CsvCutter::Next(FileCursor& cursor, CsvFields& fields) const {
  ASSIGN_OR_RETURN(const bool more, NextOfAny(cursor, fields));
  if (more && count_ != 0 && fields.values.size() != count_) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", fields.values.size(), " fields instead of ", count_));
  }
  return more;
}

absl::StatusOr<bool> CsvCutter::Skip(FileCursor& cursor) const {
  CsvFields fields;
  if (!forgives_) return Next(cursor, fields);
  const absl::StatusOr<bool> more = NextOfAny(cursor, fields);
  if (more.ok() || more.status().code() != absl::StatusCode::kInvalidArgument) return more;
  while (true) {
    ASSIGN_OR_RETURN(const std::string_view text, cursor.Peek(kCsvPeekBytes));
    const size_t end = text.find('\n');
    cursor.Skip(std::min(end, text.size() - 1) + 1);
    if (end != std::string_view::npos || text.size() < kCsvPeekBytes) return true;
  }
}

}  // namespace paracord
