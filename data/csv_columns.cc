#include "data/csv_columns.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/fingerprint64.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "data/data_options.h"
#include "data/element.h"

namespace paracord {
namespace {

std::string NameOf(const CsvColumnName& column) {
  return column.number ? absl::StrCat(*column.number) : absl::StrCat("\"", column.name, "\"");
}

absl::Status Wrong(const CsvColumnName& column, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("column ", NameOf(column), ": ", what));
}

// An Out says where a value goes.
struct Out {
  float* value;
  size_t element;                    // index in the record
  std::vector<ExactInteger>* exact;  // null: large whole numbers are not listed
};

// Lists a large whole number, unless the spec changes values by mean, deviation or logarithm.
void KeepLarge(const CsvSpec& spec, std::string_view text, double number, const Out& out) {
  if (out.exact == nullptr || spec.mean != 0 || spec.std != 1 || spec.log) return;
  if (std::abs(number) < static_cast<double>(kExactBelow)) return;
  int64_t whole = 0;
  uint64_t beyond = 0;
  if (absl::SimpleAtoi({text.data(), text.size()}, &whole)) {
    KeepExact(out.element, whole, *out.exact);
  } else if (absl::SimpleAtoi({text.data(), text.size()}, &beyond)) {
    KeepInteger(ElementType::kU64, out.element, static_cast<int64_t>(beyond), *out.exact);
  } else if (IsExactInteger(number)) {  // "20000001.0"
    KeepExact(out.element, static_cast<int64_t>(number), *out.exact);
  }
}

// Writes the index of a category or bin.
void PutIndex(uint64_t index, const Out& out) {
  *out.value = static_cast<float>(index);
  if (out.exact != nullptr) KeepExact(out.element, static_cast<int64_t>(index), *out.exact);
}

// Whether a text commonly stands for a missing value.
bool IsMissingText(const std::string& lower) {
  constexpr std::string_view kTexts[] = {"nan", "na", "n/a", "null", "none", "nil", "?", "-"};
  return std::ranges::find(kTexts, lower) != std::end(kTexts);
}

// The kinds of columns that accept a text which is no number.
std::string WhatTakes(std::string_view text) {
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  if (IsMissingText(lower)) {
    return absl::StrCat(
        "; if it stands for a value that is missing, name it in the data's "
        "\"missing\", and give the column a \"default\"");
  }
  return IsCsvWord(text) ? "; \"kind\": \"categorical\" takes words" : "";
}

absl::Status ConvertNumber(const CsvSpec& spec, std::string_view text, const Out& out) {
  const std::string_view whole = text;
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double number = 0;
  const char* const end = text.data() + text.size();
  const absl::from_chars_result result = absl::from_chars(text.data(), end, number);
  const double taken = spec.log ? std::copysign(std::log1p(std::abs(number)), number) : number;
  const auto value = static_cast<float>((taken - spec.mean) / spec.std);
  const bool read = result.ec == std::errc() ||  // or it is so near to zero that it is rounded
                    (result.ec == std::errc::result_out_of_range && std::abs(number) < 1);
  const bool decimal = text.find_first_of("xX") == std::string_view::npos;
  if (text.empty() || !read || !decimal || result.ptr != end || !std::isfinite(value)) {
    return Wrong(spec.columns[0],
                 absl::StrCat(Quoted(whole), " is not a finite number", WhatTakes(text)));
  }
  *out.value = value;
  KeepLarge(spec, text, number, out);
  return absl::OkStatus();
}

absl::Status ConvertCategory(const CsvSpec& spec, std::string_view text, const Out& out) {
  const auto known = spec.vocabulary.find(absl::string_view(text.data(), text.size()));
  uint32_t index = 0;
  if (known != spec.vocabulary.end()) {
    index = known->second;
  } else if (spec.oov == 0) {
    return Wrong(spec.columns[0], absl::StrCat(Quoted(text), " is not in the vocabulary"));
  } else {
    index = spec.first() + static_cast<uint32_t>(Fingerprint64(text) % spec.oov);
  }
  if (!spec.one_hot) {
    PutIndex(index, out);
  } else {
    std::fill_n(out.value, spec.width(), 0.f);
    out.value[index] = 1;
  }
  return absl::OkStatus();
}

// Reads a 64-bit integer in canonical spelling: without plus, spaces or leading zeros. A number
// beyond int64 returns the unsigned bits. "7.0" is 7: pandas writes whole numbers this way in a
// column with missing values.
std::optional<int64_t> DecimalId(std::string_view text) {
  if (const size_t point = text.find_last_not_of('0');
      point < text.size() - 1 && text[point] == '.') {
    text = text.substr(0, point);
  }
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  const bool zero = text == "0";
  if (digits.empty() || digits[0] < (zero ? '0' : '1') || digits[0] > '9') return std::nullopt;
  int64_t number = 0;
  if (absl::SimpleAtoi({text.data(), text.size()}, &number)) return number;
  uint64_t beyond = 0;
  const bool fits = text[0] != '-' && absl::SimpleAtoi({text.data(), text.size()}, &beyond);
  return fits ? std::optional(static_cast<int64_t>(beyond)) : std::nullopt;
}

void ConvertId(const CsvSpec& spec, std::string_view text, const Out& out) {
  const std::optional<int64_t> decimal = spec.hash ? std::nullopt : DecimalId(text);
  const int64_t id = decimal.value_or(static_cast<int64_t>(Fingerprint64(text)));
  const bool is_signed = text.starts_with('-') && decimal.has_value();
  const ElementType type = is_signed ? ElementType::kI64 : ElementType::kU64;
  *out.value = IntegerToFloat(type, id);
  if (out.exact != nullptr) KeepInteger(type, out.element, id, *out.exact);
}

// Converts the text of a single value.
absl::Status ConvertOne(const CsvSpec& spec, std::string_view text, const Out& out) {
  switch (spec.kind) {
    case CsvSpec::Kind::kNumeric:
      return ConvertNumber(spec, text, out);
    case CsvSpec::Kind::kCategorical:
      return ConvertCategory(spec, text, out);
    case CsvSpec::Kind::kHashed:
      PutIndex(spec.first() + Fingerprint64(text) % (spec.bins - spec.first()), out);
      return absl::OkStatus();
    case CsvSpec::Kind::kId:
      ConvertId(spec, text, out);
      return absl::OkStatus();
    case CsvSpec::Kind::kPresent:
      *out.value = 1;
      return absl::OkStatus();
    case CsvSpec::Kind::kCrossed:
    case CsvSpec::Kind::kString:
      break;
  }
  return absl::InternalError("neither a cross nor a string is one number");
}

absl::Status ConvertList(const CsvSpec& spec, std::span<const std::string_view> fields,
                         const MissingTexts& missing, float* out,
                         std::vector<ExactInteger>* exact) {
  ASSIGN_OR_RETURN(const std::vector<std::string_view> values, CsvList(spec, fields, missing));
  for (size_t i = 0; i < values.size(); ++i) {
    RETURN_IF_ERROR(ConvertOne(spec, values[i], {out + i, spec.offset + i, exact}));
  }
  const auto pad = static_cast<float>(spec.kind == CsvSpec::Kind::kPresent ? 0 : spec.list->pad);
  std::fill(out + values.size(), out + spec.width(), pad);
  return absl::OkStatus();
}

// Returns the text, or the default if missing.
absl::StatusOr<std::string_view> OrDefault(const CsvSpec& spec, size_t place, std::string_view text,
                                           const MissingTexts& missing) {
  if (std::find(missing.begin(), missing.end(), text) == missing.end()) {
    if (spec.kind == CsvSpec::Kind::kNumeric || Utf8Prefix(text) == text.size()) return text;
    return Wrong(spec.columns[place],
                 absl::StrCat(Quoted(text), " is not UTF-8; save the file as UTF-8"));
  }
  if (spec.default_text) return std::string_view(*spec.default_text);
  if (spec.kind == CsvSpec::Kind::kPresent) return text;  // the list's own spec reports errors
  return Wrong(spec.columns[place], "the value is missing, and there is no `default`");
}

}  // namespace

bool IsCsvWord(std::string_view text) {
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  return !lower.empty() && absl::ascii_isalpha(static_cast<unsigned char>(lower[0])) &&
         lower != "inf" && lower != "infinity" && !IsMissingText(lower);
}

std::vector<Column> CsvGroups(std::vector<CsvSpec>& specs, bool scalar) {
  std::vector<Column> columns;
  for (CsvSpec& spec : specs) {
    const auto at = std::find_if(columns.begin(), columns.end(),
                                 [&](const Column& column) { return column.name == spec.group; });
    spec.column = static_cast<size_t>(at - columns.begin());
    if (at == columns.end()) {
      columns.push_back({spec.group, {0}, {}, spec.kind == CsvSpec::Kind::kString});
    }
    uint64_t& numbers = columns[spec.column].shape[0];
    spec.offset = static_cast<size_t>(numbers);
    numbers += spec.width();
  }
  for (Column& column : columns) {
    if (scalar && column.shape[0] == 1) column.shape.clear();
  }
  return columns;
}

absl::Status CheckStrings(const std::vector<CsvSpec>& specs) {
  for (const CsvSpec& spec : specs) {
    for (const CsvSpec& other : specs) {
      if (spec.group != other.group || spec.kind != CsvSpec::Kind::kString ||
          other.kind == CsvSpec::Kind::kString) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat(spec.path, ": is a string, but ", other.path,
                       " of the same input is a number; give them different inputs"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> CsvText(const CsvSpec& spec, size_t place,
                                         std::span<const std::string_view> fields,
                                         const MissingTexts& missing) {
  return OrDefault(spec, place, fields[spec.fields[place]], missing);
}

absl::StatusOr<std::vector<std::string_view>> CsvList(const CsvSpec& spec,
                                                      std::span<const std::string_view> fields,
                                                      const MissingTexts& missing) {
  using Cut = CsvSpec::List::Cut;
  std::string_view text = fields[spec.fields[0]];
  if (std::find(missing.begin(), missing.end(), text) != missing.end()) text = "";
  const auto count =
      static_cast<size_t>(std::ranges::count(text, spec.list->separator)) + (text.empty() ? 0 : 1);
  const size_t length = spec.list->length;
  if (count > length && spec.list->cut == Cut::kNone) {
    return Wrong(spec.columns[0],
                 absl::StrCat("has ", count, " values, more than ", length,
                              "; give a larger `length`, or `truncate` \"pre\" or \"post\" to ",
                              "leave out the first or the last of a list"));
  }
  const size_t dropped = count > length && spec.list->cut == Cut::kStart ? count - length : 0;
  std::vector<std::string_view> values;
  for (size_t i = 0; i < count && values.size() < length; ++i) {
    const size_t end = std::min(text.find(spec.list->separator), text.size());
    if (i >= dropped) {
      ASSIGN_OR_RETURN(const std::string_view value,
                       OrDefault(spec, 0, text.substr(0, end), missing));
      values.push_back(value);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return values;
}

absl::Status ConvertCsvTexts(const CsvSpec& spec, std::span<const std::string_view> fields,
                             const MissingTexts& missing, std::string* out) {
  if (!spec.list.has_value()) {
    ASSIGN_OR_RETURN(const std::string_view text, CsvText(spec, 0, fields, missing));
    *out = text;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string_view> values, CsvList(spec, fields, missing));
  std::ranges::copy(values, out);
  std::fill(out + values.size(), out + spec.width(), spec.list->pad_text);
  return absl::OkStatus();
}

absl::Status ConvertCsv(const CsvSpec& spec, std::span<const std::string_view> fields,
                        const MissingTexts& missing, float* out, std::vector<ExactInteger>* exact) {
  if (spec.list.has_value()) return ConvertList(spec, fields, missing, out, exact);
  const Out to{out, spec.offset, exact};
  if (spec.kind != CsvSpec::Kind::kCrossed) {
    ASSIGN_OR_RETURN(const std::string_view text, CsvText(spec, 0, fields, missing));
    return ConvertOne(spec, text, to);
  }
  CrossFingerprint cross;
  for (size_t i = 0; i < spec.fields.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string_view text, CsvText(spec, i, fields, missing));
    cross.Add(Fingerprint64(text));
  }
  PutIndex(cross.value() % spec.bins, to);
  return absl::OkStatus();
}

}  // namespace paracord
