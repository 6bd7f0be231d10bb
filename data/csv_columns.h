// How columns of a CSV file become features, labels and weights: a number, the index of a category,
// a hashed bin, a hashed cross of several columns, an id of 64 bits, or the string itself for a
// model that takes strings. Each feature, label or weight has a spec, which is read from the job
// and then bound to the columns of the file. Afterwards the spec is constant, and any thread may
// convert records by it.
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

// A column of the file, by its name or by its number, counted from 0.
struct CsvColumnName {
  std::string name;
  std::optional<size_t> number;  // if set, `name` is empty
};

struct CsvSpec {
  enum class Kind { kNumeric, kCategorical, kHashed, kCrossed, kString, kId, kPresent };
  Kind kind = Kind::kNumeric;
  std::string path;   // the spec's key in the job, for errors
  std::string group;  // the name of the model's input or output; "" for the only one
  std::vector<CsvColumnName> columns;
  std::vector<size_t> fields;  // the columns' numbers in the file, set by BindCsvSpecs
  // CsvGroups sets `column`, the index in a batch of the Column that gets the spec's values, and
  // `offset`, the index of the spec's first value in an example of this Column.
  size_t column = 0, offset = 0;
  bool by_pattern = false;  // whether made from a spec with a `*` in its name
  std::optional<std::string> default_text;
  // The value of a kNumeric spec is (x - mean) / std. x is the number in the file or, with `log`,
  // sign(number) log(1 + |number|), which suits counts of a wide range.
  double mean = 0, std = 1;
  bool log = false;
  // The value of a kCategorical spec is the index of a known text. The first `oov` indices are for
  // unknown texts. With `mask`, indices begin at 1, because 0 is padding.
  absl::flat_hash_map<std::string, uint32_t> vocabulary;
  uint32_t words = 0, oov = 0;
  bool one_hot = false, mask = false;
  bool oov_said = false;  // whether the job sets `oov`
  std::string vocabulary_file;
  uint64_t vocabulary_fingerprint = 0;
  // If true, a kId spec hashes every text, even a number.
  bool hash = false;
  // The number of bins of a kHashed or kCrossed spec. With `mask`, only padding has bin 0.
  uint64_t bins = 0;
  // Set if a field holds a list of values. A list with fewer values than `length` is padded at its
  // end. `cut` says at which end a list with more values is cut off; with kNone such a list is
  // refused. The values of a kPresent spec are 1 for each value of the list, and 0 for padding.
  struct List {
    enum class Cut { kNone, kEnd, kStart };
    char separator = 0;
    size_t length = 1;
    double pad = 0;
    std::string pad_text;
    Cut cut = Cut::kNone;
    // The input that gets the values of the kPresent spec; "": there is none.
    std::string present;
  };
  std::optional<List> list;

  // The first index of words or bins: 1 with `mask`, otherwise 0.
  uint32_t first() const { return mask ? 1 : 0; }
  size_t width() const { return list ? list->length : one_hot ? words + oov : 1; }
};

// Reads the spec, or the list of specs, under `key`; none if the key is missing. A spec has the
// name of its input or output under `group_key`. A kCategorical spec has `oov_default` indices for
// unknown texts unless it sets `oov`.
std::vector<CsvSpec> ReadCsvSpecs(JsonFields& fields, const std::string& key,
                                  const std::string& group_key, uint32_t oov_default,
                                  Problems& problems);

// Reads the files of vocabularies, finds the columns of each spec by number or in `names` (from the
// header or the job), and replaces a spec with a `*` in its name by a spec for each matching
// column. The name "*" alone does not match columns that other specs name. The file at `path` has
// `fields` columns. Errors name the key or a file.
absl::Status BindCsvSpecs(Files& files, const std::vector<std::string>& names, size_t fields,
                          const std::string& path, std::vector<CsvSpec>& specs);

// Returns a warning if a list of words or bins is padded with a number that is also the index of a
// word or bin, and if no input has the kPresent values of the list; otherwise "".
std::string PaddingDoubt(const CsvSpec& spec);

// Returns the number of the column `name`. If columns have no names, `name` may be a number.
// INVALID_ARGUMENT names the column and the file at `path`.
absl::StatusOr<size_t> FindCsvColumn(const std::vector<std::string>& names, size_t fields,
                                     const std::string& path, const std::string& name);

// Removes the specs that need a column that the file lacks.
void LeaveOutAbsent(const std::vector<std::string>& names, size_t fields,
                    std::vector<CsvSpec>& specs);

// Removes each feature that is `by_pattern` and whose column `others` have, too.
void LeaveOut(const std::vector<CsvSpec>& others, std::vector<CsvSpec>& features);

// Returns a batch Column for each input or output, in the order of the first specs that have it,
// and sets `column` and `offset` of the specs. A Column is a vector, but with `scalar` a Column of
// one number has the shape ().
std::vector<Column> CsvGroups(std::vector<CsvSpec>& specs, bool scalar);

// Returns INVALID_ARGUMENT if an input has both specs of strings and specs of numbers.
absl::Status CheckStrings(const std::vector<CsvSpec>& specs);

// The texts that stand for a missing value.
using MissingTexts = std::vector<std::string>;

// Returns the text of the spec's `place`-th column in a record. If the text is one of `missing`,
// returns the default. INVALID_ARGUMENT: there is no default, or the text is not UTF-8.
absl::StatusOr<std::string_view> CsvText(const CsvSpec& spec, size_t place,
                                         std::span<const std::string_view> fields,
                                         const MissingTexts& missing);

// Returns the values of a list in a record, without the values that are cut off. A field that is
// empty or one of `missing` is an empty list.
absl::StatusOr<std::vector<std::string_view>> CsvList(const CsvSpec& spec,
                                                      std::span<const std::string_view> fields,
                                                      const MissingTexts& missing);

// Writes the spec.width() strings of a kString spec to `out`.
absl::Status ConvertCsvTexts(const CsvSpec& spec, std::span<const std::string_view> fields,
                             const MissingTexts& missing, std::string* out);

// Whether a text begins with a letter, and is neither a number ("inf") nor a missing value ("NA").
bool IsCsvWord(std::string_view text);

// Writes spec.width() numbers to `out`. Also lists large whole numbers in `exact`, unless `exact`
// is null. INVALID_ARGUMENT names the column, but neither file nor row.
absl::Status ConvertCsv(const CsvSpec& spec, std::span<const std::string_view> fields,
                        const MissingTexts& missing, float* out, std::vector<ExactInteger>* exact);

}  // namespace paracord
