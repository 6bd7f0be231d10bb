#include "data/csv_columns.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/charconv.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/fingerprint64.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "data/data_options.h"

namespace paracord {
namespace {

std::string NameOf(const CsvColumnName& column) {
  return column.number ? absl::StrCat(*column.number) : absl::StrCat("\"", column.name, "\"");
}

absl::Status Wrong(const CsvColumnName& column, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("column ", NameOf(column), ": ", what));
}

// Lists a large whole number, unless the spec changes it by a mean and a deviation.
void KeepLarge(const CsvSpec& spec, std::string_view text, double number,
               std::vector<ExactInteger>* exact) {
  if (exact == nullptr || spec.mean != 0 || spec.std != 1) return;
  if (std::abs(number) < static_cast<double>(kExactBelow)) return;
  int64_t whole = 0;
  if (absl::SimpleAtoi({text.data(), text.size()}, &whole)) {
    KeepExact(spec.offset, whole, *exact);
  } else if (IsExactInteger(number)) {  // "20000001.0"
    KeepExact(spec.offset, static_cast<int64_t>(number), *exact);
  }
}

// Writes the index of a category or bin.
void PutIndex(const CsvSpec& spec, uint64_t index, float& out, std::vector<ExactInteger>* exact) {
  out = static_cast<float>(index);
  if (exact != nullptr) KeepExact(spec.offset, static_cast<int64_t>(index), *exact);
}

absl::Status ConvertNumber(const CsvSpec& spec, std::string_view text, float& out,
                           std::vector<ExactInteger>* exact) {
  const std::string_view whole = text;
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double number = 0;
  const char* const end = text.data() + text.size();
  const absl::from_chars_result result = absl::from_chars(text.data(), end, number);
  const auto value = static_cast<float>((number - spec.mean) / spec.std);
  const bool read = result.ec == std::errc() ||  // or it is so near to zero that it is rounded
                    (result.ec == std::errc::result_out_of_range && std::abs(number) < 1);
  const bool decimal = text.find_first_of("xX") == std::string_view::npos;
  if (text.empty() || !read || !decimal || result.ptr != end || !std::isfinite(value)) {
    return Wrong(spec.columns[0], absl::StrCat(Quoted(whole), " is not a finite number"));
  }
  out = value;
  KeepLarge(spec, text, number, exact);
  return absl::OkStatus();
}

absl::Status ConvertCategory(const CsvSpec& spec, std::string_view text, float* out,
                             std::vector<ExactInteger>* exact) {
  const auto known = spec.vocabulary.find(absl::string_view(text.data(), text.size()));
  uint32_t index = 0;
  if (known != spec.vocabulary.end()) {
    index = known->second;
  } else if (spec.oov == 0) {
    return Wrong(spec.columns[0], absl::StrCat(Quoted(text), " is not in the vocabulary"));
  } else {
    index = static_cast<uint32_t>(Fingerprint64(text) % spec.oov);
  }
  if (!spec.one_hot) {
    PutIndex(spec, index, *out, exact);
  } else {
    std::fill_n(out, spec.width(), 0.f);
    out[index] = 1;
  }
  return absl::OkStatus();
}

}  // namespace

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
  const std::string_view text = fields[spec.fields[place]];
  if (std::find(missing.begin(), missing.end(), text) == missing.end()) {
    if (spec.kind == CsvSpec::Kind::kNumeric || Utf8Prefix(text) == text.size()) return text;
    return Wrong(spec.columns[place],
                 absl::StrCat(Quoted(text), " is not UTF-8; save the file as UTF-8"));
  }
  if (spec.default_text) return std::string_view(*spec.default_text);
  return Wrong(spec.columns[place], "the value is missing, and there is no `default`");
}

absl::Status ConvertCsv(const CsvSpec& spec, std::span<const std::string_view> fields,
                        const MissingTexts& missing, float* out, std::vector<ExactInteger>* exact) {
  uint64_t cross = kCrossKey;
  for (size_t i = 0; i < spec.fields.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string_view text, CsvText(spec, i, fields, missing));
    switch (spec.kind) {
      case CsvSpec::Kind::kNumeric:
        return ConvertNumber(spec, text, *out, exact);
      case CsvSpec::Kind::kCategorical:
        return ConvertCategory(spec, text, out, exact);
      case CsvSpec::Kind::kHashed:
        PutIndex(spec, Fingerprint64(text) % spec.bins, *out, exact);
        return absl::OkStatus();
      case CsvSpec::Kind::kCrossed:
        cross = FingerprintCat64(cross, Fingerprint64(text));
        break;
      case CsvSpec::Kind::kString:
        return absl::InternalError("a string is no number");
    }
  }
  PutIndex(spec, cross % spec.bins, *out, exact);
  return absl::OkStatus();
}

}  // namespace paracord
