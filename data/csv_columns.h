// The features, labels and weights made from the columns of a CSV file: a number, a category's
// index, a hashed bin, a hashed cross of several columns, an id of 64 bits, or the string itself
// for a model that takes strings. Specs are read from the job and then bound to the file's columns.
// Afterwards they are constant, and many threads convert.
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
  std::optional<size_t> number;  // set: there is no name
};

struct CsvSpec {
  enum class Kind { kNumeric, kCategorical, kHashed, kCrossed, kString, kId, kPresent };
  Kind kind = Kind::kNumeric;
  std::string path;   // the key in the job, for errors
  std::string group;  // the model's input or output, "" for the only one
  std::vector<CsvColumnName> columns;
  std::vector<size_t> fields;     // fields of a record, once bound
  size_t column = 0, offset = 0;  // place in a batch and in its row, set by CsvGroups
  bool by_pattern = false;        // matched by a name with a `*`
  std::optional<std::string> default_text;
  // A kNumeric column's value is (value - mean) / std. With `log`, the value is first replaced by
  // sign(value) log(1 + |value|), as counts of a wide range are used.
  double mean = 0, std = 1;
  bool log = false;
  // A kCategorical column's value is the index of a known text, or one of `oov` indices in front of
  // those for all other texts. With `mask`, the indices of a list begin at 1, because 0 is padding.
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
  // Set for a field with a list of values. A list shorter than `length` is padded at the end; a
  // longer list is cut or refused. A kPresent spec has 1 for each present value, and 0 for padding.
  struct List {
    enum class Cut { kNone, kEnd, kStart };
    char separator = 0;
    size_t length = 1;
    double pad = 0;
    std::string pad_text;
    Cut cut = Cut::kNone;
    std::string present;  // the kPresent spec's input for the list; "": none
  };
  std::optional<List> list;

  // The index of the first unknown word or bin.
  uint32_t first() const { return mask ? 1 : 0; }
  size_t width() const { return list ? list->length : one_hot ? words + oov : 1; }
};

// Reads the spec or list of specs under `key`; none if missing. A spec names its input or output
// under `group_key`. A vocabulary gets `oov_default` indices for unknown texts unless the spec sets
// a number.
std::vector<CsvSpec> ReadCsvSpecs(JsonFields& fields, const std::string& key,
                                  const std::string& group_key, uint32_t oov_default,
                                  Problems& problems);

// Reads the vocabularies, finds the columns by number or by `names` (of the header or the job), and
// replaces a spec with a `*` in its name by a spec for each matching column; "*" alone leaves out
// columns named by other specs. Errors name the key, or the file.
absl::Status BindCsvSpecs(Files& files, const std::vector<std::string>& names, size_t fields,
                          const std::string& path, std::vector<CsvSpec>& specs);

// Returns a sentence if the padding of a list of words or bins is the index of a text as well, and
// no `present` input tells them apart; "" otherwise. The spec has its vocabulary.
std::string PaddingDoubt(const CsvSpec& spec);

// Returns the index of the column called `name`; a number counts if columns have no names.
// INVALID_ARGUMENT names the column and the nearest existing column in the file at `path`.
absl::StatusOr<size_t> FindCsvColumn(const std::vector<std::string>& names, size_t fields,
                                     const std::string& path, const std::string& name);

// Removes the specs of columns missing in the file.
void LeaveOutAbsent(const std::vector<std::string>& names, size_t fields,
                    std::vector<CsvSpec>& specs);

// Removes the label and the weight from pattern-matched `features`.
void LeaveOut(const std::vector<CsvSpec>& others, std::vector<CsvSpec>& features);

// Returns a batch column for each group, in order of first specs, and sets each spec's place. A
// group of one number has shape () if `scalar`, otherwise (numbers).
std::vector<Column> CsvGroups(std::vector<CsvSpec>& specs, bool scalar);

// Returns INVALID_ARGUMENT naming a spec of strings in a group of numbers, or the reverse.
absl::Status CheckStrings(const std::vector<CsvSpec>& specs);

// The texts that stand for a missing value.
using MissingTexts = std::vector<std::string>;

// Returns the text of the spec's `place`-th column in a record, or the default if missing.
absl::StatusOr<std::string_view> CsvText(const CsvSpec& spec, size_t place,
                                         std::span<const std::string_view> fields,
                                         const MissingTexts& missing);

// Returns a list's values for the batch, at most its length. An empty or missing field is an empty
// list.
absl::StatusOr<std::vector<std::string_view>> CsvList(const CsvSpec& spec,
                                                      std::span<const std::string_view> fields,
                                                      const MissingTexts& missing);

// Writes the spec.width() strings of a kString spec.
absl::Status ConvertCsvTexts(const CsvSpec& spec, std::span<const std::string_view> fields,
                             const MissingTexts& missing, std::string* out);

// Whether a text begins with a letter, and is neither a number ("inf") nor a missing value ("NA").
bool IsCsvWord(std::string_view text);

// Writes spec.width() numbers. Unless `exact` is null, large whole numbers are listed there, too.
// INVALID_ARGUMENT names the column, but neither file nor row.
absl::Status ConvertCsv(const CsvSpec& spec, std::span<const std::string_view> fields,
                        const MissingTexts& missing, float* out, std::vector<ExactInteger>* exact);

}  // namespace paracord
