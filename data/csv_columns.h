// The features, labels and weights that a job makes of the columns of a CSV file: a number, a
// category's index, a hashed bin, a hashed cross of several columns, an id of 64 bits, or the
// string itself for a model that takes strings. Specs are read from the job and then bound to the
// columns of the file. After that they are constant, and many threads convert.
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

// A column of the file, which the job gives by name or by number from 0.
struct CsvColumnName {
  std::string name;
  std::optional<size_t> number;  // set: there is no name
};

struct CsvSpec {
  enum class Kind { kNumeric, kCategorical, kHashed, kCrossed, kString, kId, kPresent };
  Kind kind = Kind::kNumeric;
  std::string path;   // of the key in the job, for errors
  std::string group;  // the model's input or output, "" for the only one
  std::vector<CsvColumnName> columns;
  std::vector<size_t> fields;     // of a record, once bound
  size_t column = 0, offset = 0;  // of a batch, and in its row: set by CsvGroups
  bool by_pattern = false;        // it is one of the columns that a name with a `*` matched
  std::optional<std::string> default_text;
  // A kNumeric column's value is (value - mean) / std. With `log`, the value is first replaced by
  // sign(value) log(1 + |value|), as counts of a wide range are used.
  double mean = 0, std = 1;
  bool log = false;
  // A kCategorical column's value is the index of a known text, or one of the first `oov` indices,
  // which stand for all other texts.
  absl::flat_hash_map<std::string, uint32_t> vocabulary;
  uint32_t words = 0, oov = 0;
  bool one_hot = false;
  std::string vocabulary_file;
  uint64_t vocabulary_fingerprint = 0;  // of that file's words
  // If true, a kId column takes the fingerprint of every text, those of numbers included.
  bool hash = false;
  // The number of bins of kHashed and kCrossed.
  uint64_t bins = 0;
  // Set for a field that is a list of values. A list that is shorter than `length` is filled up
  // behind, and of a longer one some are left out, or it is an error. A kPresent spec gives 1 for
  // each value of the list, and 0 for what was filled up.
  struct List {
    enum class Cut { kNone, kEnd, kStart };
    char separator = 0;
    size_t length = 1;
    double pad = 0;
    std::string pad_text;
    Cut cut = Cut::kNone;
    std::string present;  // the input of a kPresent spec for the same list; "": none
  };
  std::optional<List> list;

  size_t width() const { return list ? list->length : one_hot ? words + oov : 1; }
};

// Reads the spec or list of specs under `key`; none if it is missing. `group_key` is the key by
// which a spec names its input or output. A vocabulary gets `oov_default` indices for unknown texts
// where the spec does not say how many.
std::vector<CsvSpec> ReadCsvSpecs(JsonFields& fields, const std::string& key,
                                  const std::string& group_key, uint32_t oov_default,
                                  Problems& problems);

// Reads the vocabularies, finds the columns by number or by `names` (of the header or the job), and
// replaces a spec whose name has a `*` by one for each column that matches; "*" alone leaves out
// the columns that other specs name. Errors name the key, or the file.
absl::Status BindCsvSpecs(Files& files, const std::vector<std::string>& names, size_t fields,
                          const std::string& path, std::vector<CsvSpec>& specs);

// Returns the place of the column that `name` names, or numbers where it is a number and the
// columns have no names. INVALID_ARGUMENT names it and the nearest that there is in the file at
// `path`.
absl::StatusOr<size_t> FindCsvColumn(const std::vector<std::string>& names, size_t fields,
                                     const std::string& path, const std::string& name);

// Removes the specs of columns that the file lacks.
void LeaveOutAbsent(const std::vector<std::string>& names, size_t fields,
                    std::vector<CsvSpec>& specs);

// Removes from `features` those that a pattern took in although they are the label or the weight.
void LeaveOut(const std::vector<CsvSpec>& others, std::vector<CsvSpec>& features);

// Returns one column of a batch for each group, in order of their first specs, and sets every
// spec's place in it. A group of one number has shape () if `scalar`, otherwise (numbers).
std::vector<Column> CsvGroups(std::vector<CsvSpec>& specs, bool scalar);

// Returns INVALID_ARGUMENT naming a spec of strings in a group of numbers, or the reverse.
absl::Status CheckStrings(const std::vector<CsvSpec>& specs);

// The texts that stand for a missing value.
using MissingTexts = std::vector<std::string>;

// Returns the text of the spec's `place`-th column in a record, or the default if it is missing.
absl::StatusOr<std::string_view> CsvText(const CsvSpec& spec, size_t place,
                                         std::span<const std::string_view> fields,
                                         const MissingTexts& missing);

// Returns the values of a list that the batch has, at most its length. An empty field, or a missing
// one, is a list without values.
absl::StatusOr<std::vector<std::string_view>> CsvList(const CsvSpec& spec,
                                                      std::span<const std::string_view> fields,
                                                      const MissingTexts& missing);

// Writes the spec.width() strings of a kString spec.
absl::Status ConvertCsvTexts(const CsvSpec& spec, std::span<const std::string_view> fields,
                             const MissingTexts& missing, std::string* out);

// Whether a text that is no number is a word of people, rather than what stands for a number or for
// a value that is missing.
bool IsCsvWord(std::string_view text);

// Writes spec.width() numbers. Unless `exact` is null, large whole numbers are listed there, too.
// INVALID_ARGUMENT names the column, but neither file nor row.
absl::Status ConvertCsv(const CsvSpec& spec, std::span<const std::string_view> fields,
                        const MissingTexts& missing, float* out, std::vector<ExactInteger>* exact);

}  // namespace paracord
