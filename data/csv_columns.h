// What a job makes of the columns of a CSV file: a number, a category's index, a hashed bin, a
// hashed cross of several, or the string itself for a model that takes strings. Specs are read from
// the job, then bound to the columns of the file, then constant: many threads convert.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/json_fields.h"
#include "data/data_source.h"

namespace paracord {

// A column of the file as the job names it: by name, or by number from 0.
struct CsvColumnName {
  std::string name;
  std::optional<size_t> number;  // set: there is no name
};

struct CsvSpec {
  enum class Kind { kNumeric, kCategorical, kHashed, kCrossed, kString };
  Kind kind = Kind::kNumeric;
  std::string path;   // of the key in the job, for errors
  std::string group;  // the model's input or output, "" for the only one
  std::vector<CsvColumnName> columns;
  std::vector<size_t> fields;     // of a record, once bound
  size_t column = 0, offset = 0;  // of a batch, and in its row: set by CsvGroups
  bool by_pattern = false;        // it is one of the columns that a name with a `*` matched
  std::optional<std::string> default_text;
  // kNumeric: (value - mean) / std.
  double mean = 0, std = 1;
  // kCategorical: indices of the known texts; `oov` indices come before them, for others.
  absl::flat_hash_map<std::string, uint32_t> vocabulary;
  uint32_t words = 0, oov = 0;
  bool one_hot = false;
  std::string vocabulary_file;
  uint64_t vocabulary_fingerprint = 0;  // of that file's words
  // kHashed, kCrossed.
  uint64_t bins = 0;

  size_t width() const { return one_hot ? words + oov : 1; }
};

// The spec or list of specs under `key`; nothing where it is missing. `group_key` is what the
// objects call their input or output. Specs of `oov_default` indices for unknown texts.
std::vector<CsvSpec> ReadCsvSpecs(JsonFields& fields, const std::string& key,
                                  const std::string& group_key, uint32_t oov_default,
                                  Problems& problems);

// Reads vocabularies, finds the columns by `names` (of the header or the job) or number, and
// replaces names with a `*` by the columns they match; "*" alone leaves out the columns that others
// of the specs name. Errors name the key, or the file.
absl::Status BindCsvSpecs(Files& files, const std::vector<std::string>& names, size_t fields,
                          const std::string& path, std::vector<CsvSpec>& specs);

// Features that a pattern took in and that are the label or the weight, too, are left out again.
void LeaveOut(const std::vector<CsvSpec>& others, std::vector<CsvSpec>& features);

// One column of a batch for each group, in order of their first spec. A group of one number has
// shape () if `scalar`, otherwise (numbers). Every spec is told its place.
std::vector<Column> CsvGroups(std::vector<CsvSpec>& specs, bool scalar);

// INVALID_ARGUMENT naming a spec of strings among numbers, or the other way round.
absl::Status CheckStrings(const std::vector<CsvSpec>& specs);

// Which texts stand for a missing value.
using MissingTexts = std::vector<std::string>;

// The text of a field of a record, by its place among the spec's; the default where it is missing.
absl::StatusOr<std::string_view> CsvText(const CsvSpec& spec, size_t place,
                                         std::span<const std::string_view> fields,
                                         const MissingTexts& missing);

// Writes spec.width() numbers; a large whole number is listed in `exact`, too, unless that is null.
// INVALID_ARGUMENT names the column, not the place.
absl::Status ConvertCsv(const CsvSpec& spec, std::span<const std::string_view> fields,
                        const MissingTexts& missing, float* out, std::vector<ExactInteger>* exact);

}  // namespace paracord
