#include "data/csv_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr size_t kPeekBytes = 512;
constexpr size_t kRecordBytesMax = 16 << 20;

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

// One pass over a record.
class Parser {
 public:
  Parser(std::string_view text, bool at_end, CsvDialect dialect, CsvFields& fields)
      : text_(text), at_end_(at_end), dialect_(dialect), fields_(fields) {}

  absl::StatusOr<size_t> Parse() {
    fields_.values.clear();
    fields_.owned.clear();
    while (true) {
      if (dialect_.trim) SkipBlanks();
      if (at_ < text_.size() && text_[at_] == '"') {
        RETURN_IF_ERROR(ReadQuoted());
      } else {
        ReadPlain();
      }
      if (at_ == text_.size()) return at_end_ ? at_ : 0;
      if (text_[at_++] == '\n') return at_;
    }
  }

 private:
  void SkipBlanks() {
    while (at_ < text_.size() && IsBlank(text_[at_]) && text_[at_] != dialect_.delimiter) ++at_;
  }

  // Up to a delimiter, the end of the line or of the text.
  void ReadPlain() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != dialect_.delimiter && text_[at_] != '\n') ++at_;
    std::string_view field = text_.substr(begin, at_ - begin);
    const bool ends_line = at_ == text_.size() ? at_end_ : text_[at_] == '\n';
    if (ends_line && field.ends_with('\r')) field.remove_suffix(1);
    fields_.values.push_back(dialect_.trim ? Trimmed(field) : field);
  }

  absl::Status ReadQuoted() {
    size_t begin = ++at_;
    std::string* owned = nullptr;
    while (true) {
      const size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) {
        at_ = text_.size();
        if (at_end_) return absl::InvalidArgumentError("a quote is not closed");
        return absl::OkStatus();
      }
      at_ = quote + 1;
      if (at_ == text_.size() || text_[at_] != '"') break;
      ++at_;
      if (owned == nullptr) owned = &fields_.owned.emplace_back();
      owned->append(text_.substr(begin, at_ - 1 - begin));
      begin = at_;
    }
    const std::string_view rest = text_.substr(begin, at_ - 1 - begin);
    if (owned != nullptr) owned->append(rest);
    fields_.values.push_back(owned != nullptr ? std::string_view(*owned) : rest);
    return AfterQuote();
  }

  absl::Status AfterQuote() {
    if (dialect_.trim) SkipBlanks();
    if (at_ == text_.size() || text_[at_] == dialect_.delimiter || text_[at_] == '\n') {
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
  const CsvDialect dialect_;
  CsvFields& fields_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<size_t> ParseCsvRecord(std::string_view text, bool at_end, CsvDialect dialect,
                                      CsvFields& fields) {
  return Parser(text, at_end, dialect, fields).Parse();
}

absl::StatusOr<bool> CsvCutter::Next(FileCursor& cursor, CsvFields& fields) const {
  for (size_t want = kPeekBytes;;) {
    if (want > kRecordBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("the record is longer than ", kRecordBytesMax,
                                                     " bytes; is a quote not closed?"));
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
    if (count_ != 0 && fields.values.size() != count_) {
      return absl::InvalidArgumentError(
          absl::StrCat("has ", fields.values.size(), " fields instead of ", count_));
    }
    return true;
  }
}

absl::StatusOr<bool> CsvCutter::Skip(FileCursor& cursor) const {
  CsvFields fields;
  return Next(cursor, fields);
}

}  // namespace paracord
