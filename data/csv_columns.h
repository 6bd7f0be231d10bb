// The features, labels and weights made from the columns of a CSV file: a number, a category's
// index, a hashed bin, a hashed cross of several columns, an id of 64 bits, or the string itself
// for a model that takes strings. A spec describes a feature, label or weight. Specs are read from
// the job and then bound to the file's columns. Afterwards they are constant, and many threads
// convert.
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

// A column of the file, by name or by number from 0.
struct CsvColumnName {
  std::string name;
  std::optional<size_t> number;  // if set, there is no name
};

struct CsvSpec {
  enum class Kind { kNumeric, kCategorical, kHashed, kCrossed, kString, kId, kPresent };
  Kind kind = Kind::kNumeric;
  std::string path;   // the spec's key in the job, for errors
  std::string group;  // the model's input or output, "" for the only one
  std::vector<CsvColumnName> columns;
  std::vector<size_t> fields;  // the columns' numbers in the file, set by BindCsvSpecs
  // Indices of the spec's Column in a batch and of its first value in an example, by CsvGroups.
  size_t column = 0, offset = 0;
  bool by_pattern = false;  // made from a name with a `*`
  std::optional<std::string> default_text;
  // A kNumeric column's value is (value - mean) / std. With `log`, sign(value) log(1 + |value|)
  // replaces the value first, which suits counts of a wide range.
  double mean = 0, std = 1;
  bool log = false;
  // A kCategorical column's value is the index of a known text. Unknown texts get `oov` indices in
  // front of those for known texts. With `mask`, the indices in a list begin at 1, because 0 is
  // padding.
  absl::flat_hash_map<std::string, uint32_t> vocabulary;
  uint32_t words = 0, oov = 0;
  bool one_hot = false, mask = false;
  bool oov_said = false;  // the job itself sets `oov`
  std::string vocabulary_file;
  uint64_t vocabulary_fingerprint = 0;  // fingerprint of the file's words
  // If true, a kId column hashes every text, including numbers.
  bool hash = false;
  // The number of bins of kHashed and kCrossed. With `mask`, bin 0 is padding alone.
  uint64_t bins = 0;
  // Set if a field holds a list of values. A list shorter than `length` is padded at its end; `cut`
  // says which end of a longer list is cut off (kNone: it is refused). A kPresent spec has 1 for
  // each present value, and 0 for padding.
  struct List {
    enum class Cut { kNone, kEnd, kStart };
    char separator = 0;
    size_t length = 1;
    double pad = 0;
    std::string pad_text;
    Cut cut = Cut::kNone;
    std::string present;  // the input that the kPresent spec fills; "": none
  };
  std::optional<List> list;

  // The first index of words or bins: 1 if `mask` leaves 0 to padding.
  uint32_t first() const { return mask ? 1 : 0; }
  size_t width() const { return list ? list->length : one_hot ? words + oov : 1; }
};

// Reads the spec or the list of specs under `key`; none if the key is missing. A spec names its
// input or output under `group_key`. A vocabulary gets `oov_default` indices for unknown texts
// unless the spec sets a number.
std::vector<CsvSpec> ReadCsvSpecs(JsonFields& fields, const std::string& key,
                                  const std::string& group_key, uint32_t oov_default,
                                  Problems& problems);

// Reads the vocabularies, finds each spec's columns by number or by `names` (of the header or the
// job), and replaces a spec with a `*` in its name by a spec for each matching column; "*" alone
// leaves out columns named by other specs. The file at `path` has `fields` columns. Errors name the
// key or file.
absl::Status BindCsvSpecs(Files& files, const std::vector<std::string>& names, size_t fields,
                          const std::string& path, std::vector<CsvSpec>& specs);

// Returns a warning if the padding of a list of words or bins is the index of a word or bin, too,
// and no `present` input tells them apart; "" otherwise. The spec must be bound.
std::string PaddingDoubt(const CsvSpec& spec);

// Returns the number of the column called `name`; `name` may be a number if columns have no names.
// INVALID_ARGUMENT names the column and the nearest existing column in the file at `path`.
absl::StatusOr<size_t> FindCsvColumn(const std::vector<std::string>& names, size_t fields,
                                     const std::string& path, const std::string& name);

// Removes the specs of columns that the file lacks.
void LeaveOutAbsent(const std::vector<std::string>& names, size_t fields,
                    std::vector<CsvSpec>& specs);

// Removes the features made from a name with a `*` whose column is one of the columns of `others`.
void LeaveOut(const std::vector<CsvSpec>& others, std::vector<CsvSpec>& features);

// Returns a batch column for each group, in the order of the groups' first specs, and sets `column`
// and `offset` of the specs. A group of one number has shape () if `scalar`; other groups are
// vectors.
std::vector<Column> CsvGroups(std::vector<CsvSpec>& specs, bool scalar);

// Returns INVALID_ARGUMENT if a group has both specs of strings and specs of numbers.
absl::Status CheckStrings(const std::vector<CsvSpec>& specs);

// The texts that stand for a missing value.
using MissingTexts = std::vector<std::string>;

// Returns the text of the spec's `place`-th column in a record, or the default if it is missing.
// INVALID_ARGUMENT: it is missing without a default, or not UTF-8.
absl::StatusOr<std::string_view> CsvText(const CsvSpec& spec, size_t place,
                                         std::span<const std::string_view> fields,
                                         const MissingTexts& missing);

// Returns the values of a list in a record, without those cut off. An empty or missing field is an
// empty list.
absl::StatusOr<std::vector<std::string_view>> CsvList(const CsvSpec& spec,
                                                      std::span<const std::string_view> fields,
                                                      const MissingTexts& missing);

// Writes the spec.width() strings of a kString spec to `out`.
absl::Status ConvertCsvTexts(const CsvSpec& spec, std::span<const std::string_view> fields,
                             const MissingTexts& missing, std::string* out);

// Whether a text begins with a letter, and is neither a number ("inf") nor a missing value ("NA").
bool IsCsvWord(std::string_view text);

// Writes spec.width() numbers to `out`. Lists large whole numbers in `exact`, too, unless it is
// null. INVALID_ARGUMENT names the column, but neither file nor row.
absl::Status ConvertCsv(const CsvSpec& spec, std::span<const std::string_view> fields,
                        const MissingTexts& missing, float* out, std::vector<ExactInteger>* exact);

}  // namespace paracord
