#include "cli/csv_look.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/file_kind.h"
#include "common/status_macros.h"
#include "data/csv_text.h"
#include "data/data_file.h"

namespace paracord {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kWordsKept = 1000;
constexpr size_t kFewWords = 50;
constexpr size_t kCountedMin = 10;  // fewer records may ascend by chance

bool IsMissing(const std::string& text) {
  static const std::set<std::string> kTexts = {"?",   "NA",   "N/A",  "na",   "n/a",  "nan", "NaN",
                                               "NAN", "null", "NULL", "None", "none", "-"};
  return text.empty() || kTexts.contains(text);
}

// Reads a whole number of 64 bits, including "7.0": pandas writes so in columns with missing
// values.
std::optional<double> WholeNumber(std::string_view text) {
  if (const size_t point = text.find('.');
      point != 0 && point != std::string_view::npos &&
      text.find_first_not_of('0', point + 1) == std::string_view::npos) {
    text = text.substr(0, point);
  }
  int64_t number = 0;
  uint64_t large = 0;
  const absl::string_view digits(text.data(), text.size());
  if (absl::SimpleAtoi(digits, &number)) return static_cast<double>(number);
  if (absl::SimpleAtoi(digits, &large)) return static_cast<double>(large);
  return std::nullopt;
}

// Whether a name is one of those that columns which identify examples commonly have: "id", "person
// id", "userId", "key", or the "Unnamed: 0" that pandas gives to a column without a name.
bool IsIdName(const std::string& name) {
  constexpr std::string_view kNames[] = {"id", "uid", "key", "index"};
  const std::string lower = absl::AsciiStrToLower(name);
  return std::ranges::find(kNames, lower) != std::end(kNames) || absl::EndsWith(name, "Id") ||
         absl::EndsWith(lower, "_id") || absl::EndsWith(lower, " id") ||
         absl::EndsWith(lower, "-id") || absl::StartsWith(lower, "unnamed: ");
}

void LookAtField(const std::string& text, ColumnLook& column) {
  if (IsMissing(text)) {
    ++column.lacking;
    if (!text.empty()) column.missing.insert(text);
    return;
  }
  ++column.values;
  const std::vector<std::string> parts = absl::StrSplit(text, '|');
  column.list = column.list || parts.size() > 1;
  column.longest = std::max(column.longest, parts.size());
  for (const std::string& part : parts) {
    const std::optional<double> whole = WholeNumber(part);
    column.list_whole = column.list_whole && (part.empty() || whole.has_value());
    column.smallest = std::min(column.smallest, whole.value_or(0));
    column.largest = std::max(column.largest, whole.value_or(0));
  }
  double number = 0;
  if (absl::SimpleAtod(text, &number) && std::isfinite(number)) column.numbers.push_back(number);
  const std::optional<double> whole_text = WholeNumber(text);
  column.whole = column.whole && whole_text.has_value();
  column.ascends =
      column.ascends && column.whole && (column.values == 1 || *whole_text == column.last + 1);
  column.last = whole_text.value_or(0);
  if (column.words.size() <= kWordsKept) column.words.insert(text);
}

}  // namespace

bool ColumnLook::CountsRows() const {
  return name.empty() || (whole && ascends && !list && !lacks() && values >= kCountedMin);
}

bool ColumnLook::NumbersRows() const {
  return CountsRows() ||
         (IsIdName(name) && whole && !list && !lacks() && values > 1 && words.size() == values);
}

bool ColumnLook::HasFewWords() const {
  return !is_number() && !list && words.size() > 1 && words.size() <= kFewWords &&
         2 * words.size() <= values;
}

double RoundedBy(double number, double scale) {
  if (!std::isfinite(number) || !std::isfinite(scale) || scale == 0) return 0;
  const double unit = std::pow(10, std::floor(std::log10(std::fabs(scale))) - 3);
  return std::stod(absl::StrFormat("%.12g", std::round(number / unit) * unit));
}

bool ColumnLook::HasTwoClasses() const {
  if (!is_number()) return words.size() <= 2;
  return std::ranges::all_of(numbers, [](double number) { return number >= 0 && number <= 1; });
}

double ColumnLook::Median() const {
  if (numbers.empty()) return 0;
  std::vector<double> sorted = numbers;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

double ColumnLook::Mean() const {
  if (numbers.empty()) return 0;
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

double ColumnLook::Deviation() const {
  const double mean = Mean();
  double sum = 0;
  for (const double number : numbers) sum += (number - mean) * (number - mean);
  return numbers.empty() ? 0 : std::sqrt(sum / static_cast<double>(numbers.size()));
}

absl::StatusOr<CsvLook> LookAtCsv(Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, OpenDataFile(files, path));
  const auto at = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
  };
  const absl::StatusOr<uint64_t> begin = TextBegin(*file);
  if (!begin.ok()) return at(begin.status());
  FileCursor cursor(*file, *begin, file->size(), kChunkBytes);
  ASSIGN_OR_RETURN(const std::string_view beginning, cursor.Peek(kFileKindBytes));
  const std::string kind = FileKind(beginning.substr(0, kFileKindBytes));
  if (!kind.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is no CSV; it is ", kind));
  }
  CsvLook look;
  look.delimiter = LikelyDelimiter(beginning.substr(0, beginning.find('\n')));
  if (look.delimiter.empty()) look.delimiter = ",";
  CsvDialect dialect;
  dialect.delimiter = look.delimiter;
  const CsvCutter cutter(dialect);
  CsvFields fields;
  const absl::StatusOr<bool> header = cutter.Next(cursor, fields);
  if (!header.ok()) return at(header.status());
  for (const std::string_view name : fields.values) {
    ColumnLook& column = look.columns.emplace_back();
    column.name = std::string(name);
    const bool index = name.empty() && look.columns.size() == 1 && fields.values.size() > 1;
    if ((name.empty() && !index) || WholeNumber(column.name).has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": its first line does not name columns (\"", std::string(name),
                       "\"): write a line of names above"));
    }
  }
  for (size_t record = 0; record < kRecordsLookedAt; ++record) {
    const absl::StatusOr<bool> more = cutter.Next(cursor, fields);
    if (!more.ok()) return at(more.status());
    if (!*more) break;
    for (size_t i = 0; i < std::min(fields.values.size(), look.columns.size()); ++i) {
      std::string text(fields.values[i]);
      absl::StripAsciiWhitespace(&text);
      LookAtField(text, look.columns[i]);
    }
  }
  return look;
}

}  // namespace paracord
