#include "data/csv_source.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/file_kind.h"
#include "common/json_text.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "config/json_fields.h"
#include "data/csv_columns.h"
#include "data/csv_text.h"
#include "data/data_options.h"
#include "data/row_source.h"
#include "data/skipping_source.h"

namespace paracord {
namespace {

constexpr uint64_t kSkipLinesMax = 1000;
constexpr size_t kDelimiterBytesMax = 8;
constexpr size_t kHeaderBytes = 64 << 10;
constexpr uint64_t kCountedMax = 1000;  // records examined for warnings
constexpr size_t kExamplesMax = 3;      // unknown words that a warning shows

struct CsvOptions {
  std::vector<std::string> files;
  bool header = true;
  std::vector<std::string> columns;  // columns' names without a header
  CsvDialect dialect;
  uint64_t skip_lines = 0;  // at the start of each file
  MissingTexts missing = {""};
  std::vector<CsvSpec> features, labels, weights;
  bool inputs_alone = false;  // see DataSpec
};

// Reads a character, or none (null or "").
void ReadMark(JsonFields& fields, const std::string& key, char& mark) {
  const nlohmann::json* value = fields.FindValue(key);
  std::string text;
  if (value != nullptr && value->is_string()) text = value->get<std::string>();
  if (value == nullptr && fields.Find(key) == nullptr) return;
  const bool none = value == nullptr || value->is_null() || text.empty();
  if ((value != nullptr && !value->is_null() && !value->is_string()) || text.size() > 1 ||
      text == "\n" || text == "\r") {
    return fields.Problem(key, "must be one character, or null for none");
  }
  mark = none ? '\0' : text[0];
}

void ReadDialect(JsonFields& fields, CsvDialect& dialect) {
  ReadMark(fields, "quote", dialect.quote);
  ReadMark(fields, "escape", dialect.escape);
  std::string text = dialect.delimiter;
  fields.String("delimiter", text);
  const auto has = [&](char mark) { return mark != 0 && text.find(mark) != std::string::npos; };
  if (text.empty() || text.size() > kDelimiterBytesMax || has(dialect.quote) || has('\n') ||
      has('\r')) {
    return fields.Problem("delimiter", absl::StrCat("must be 1 to ", kDelimiterBytesMax,
                                                    " characters, and no quote or end of line"));
  }
  dialect.delimiter = text;
  if (has(dialect.escape)) fields.Problem("escape", "is the delimiter, too");
  fields.Bool("trim", dialect.trim);
}

absl::StatusOr<CsvOptions> ReadCsvOptions(const DataSpec& spec) {
  Problems problems;
  JsonFields fields(spec.options, "data (csv)", problems);
  CsvOptions options;
  options.files = ReadPaths(fields, "files");
  fields.Bool("header", options.header);
  options.columns = ReadStrings(fields, "columns");
  if (options.header && !options.columns.empty()) {
    fields.Problem("columns", "the header names them; say \"header\": false where there is none");
  }
  ReadDialect(fields, options.dialect);
  fields.Integer("skip_lines", 0, kSkipLinesMax, options.skip_lines);
  for (const std::string& text : ReadStrings(fields, "missing")) options.missing.push_back(text);
  options.features = ReadCsvSpecs(fields, "features", "input", /*oov_default=*/1, problems);
  options.labels = ReadCsvSpecs(fields, "label", "output", /*oov_default=*/0, problems);
  options.weights = ReadCsvSpecs(fields, "weight", "output", /*oov_default=*/0, problems);
  for (const std::string key : {"features", "label"}) {
    if (key == "label" && spec.inputs_alone) continue;
    if (fields.FindValue(key) == nullptr) fields.Problem(key, "is missing");
  }
  options.inputs_alone = spec.inputs_alone;
  fields.Find(kBadRecordsKey);
  fields.ReportUnknown();
  const absl::Status strings = CheckStrings(options.features);
  if (!strings.ok()) problems.Add("", std::string(strings.message()));
  RETURN_IF_ERROR(problems.ToStatus());
  return options;
}

absl::Status SkipLines(FileCursor& cursor, uint64_t lines) {
  for (uint64_t line = 0; line < lines;) {
    ASSIGN_OR_RETURN(const std::string_view text, cursor.Peek(kHeaderBytes));
    if (text.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("has only ", line, " lines to skip"));
    }
    const size_t end = text.find('\n');
    const bool ends = end != std::string_view::npos;
    cursor.Skip(ends ? end + 1 : text.size());
    if (ends) ++line;
  }
  return absl::OkStatus();
}

class CsvSource : public RowSource {
 public:
  explicit CsvSource(CsvOptions options)
      : options_(std::move(options)), cutter_(options_.dialect) {}

  absl::Status Open(Files& files, const DataSpec& spec) {
    ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(files, options_.files));
    Forgive(spec);
    if (bad_records() > 0) cutter_.Forgive();
    index_.Recall(files, spec, paths);
    for (const std::string& path : paths) RETURN_IF_ERROR(AddFile(files, path, spec));
    RETURN_IF_ERROR(index_.Keep());
    if (options_.header && fields_ == 0) {
      return absl::InvalidArgumentError(paths[0] + ": has no header");
    }
    if (records() == 0) return absl::InvalidArgumentError(paths[0] + ": has no records");
    schema_.inputs = CsvGroups(options_.features, /*scalar=*/false);
    schema_.targets = CsvGroups(options_.labels, /*scalar=*/true);
    schema_.weights = CsvGroups(options_.weights, /*scalar=*/true);
    return WithWords(CheckFirst());
  }

  uint64_t records() const override { return index_.records(); }
  std::string fingerprint() const override {
    uint64_t hash = index_.fingerprint();
    for (const auto* specs : {&options_.features, &options_.labels, &options_.weights}) {
      for (const CsvSpec& spec : *specs) {
        if (!spec.vocabulary_file.empty()) hash = Mix64(hash, spec.vocabulary_fingerprint);
      }
    }
    return absl::StrFormat("csv:%d:%016x", records(), hash);
  }
  std::string Where(uint64_t record) const override { return index_.Where(record); }

  absl::StatusOr<std::vector<std::string>> Fields(
      std::span<const uint64_t> records, std::span<const std::string> names) const override {
    std::vector<size_t> places;
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(places.emplace_back(),
                       FindCsvColumn(options_.columns, fields_, first_path_, name));
    }
    std::vector<std::string> texts;
    texts.reserve(records.size() * names.size());
    for (const uint64_t record : records) {
      ASSIGN_OR_RETURN(FileCursor cursor, index_.Seek(record, cutter_));
      CsvFields fields;
      RETURN_IF_ERROR(Cut(record, cursor, fields));
      for (const size_t place : places) texts.emplace_back(fields.values[place]);
    }
    return texts;
  }

  std::vector<std::string> Warnings() const override {
    std::vector<std::string> warnings = RowSource::Warnings();
    Count count;
    count.known.resize(options_.features.size());
    for (uint64_t record = 0; record < std::min(records(), kCountedMax); ++record) {
      if (!CountOne(record, count)) break;
    }
    for (const CsvSpec& spec : options_.features) {
      std::string doubt = PaddingDoubt(spec);
      // Columns of one pattern have the path, and so the sentence, of each other.
      if (!doubt.empty() && (warnings.empty() || warnings.back() != doubt)) {
        warnings.push_back(std::move(doubt));
      }
    }
    for (size_t i = 0; i < count.known.size(); ++i) {
      const Known& known = count.known[i];
      std::string doubt = VocabularyDoubt(options_.features[i], known);
      if (!doubt.empty()) warnings.push_back(std::move(doubt));
    }
    if (count.within > 0) {
      warnings.push_back(absl::StrCat(
          "quoted fields of the first records hold ", count.within, " ends of lines, first in ",
          count.where, ", with what looks like records between them; where a quote is text, ",
          "say \"quote\": null"));
    }
    return warnings;
  }

 protected:
  absl::Status ReadRow(uint64_t record, const Row& row) const override {
    ASSIGN_OR_RETURN(FileCursor cursor, index_.Seek(record, cutter_));
    CsvFields fields;
    RETURN_IF_ERROR(Cut(record, cursor, fields));
    RETURN_IF_ERROR(Convert(record, options_.features, fields, row.inputs, &row));
    RETURN_IF_ERROR(Convert(record, options_.labels, fields, row.targets, nullptr));
    return Convert(record, options_.weights, fields, row.weights, nullptr);
  }

 private:
  struct Known {
    uint64_t values = 0, unknown = 0;
    std::set<std::string> examples;  // unknown words
  };
  struct Count {
    std::vector<Known> known;  // indexed by feature
    size_t within = 0;         // see LinesWithinFields
    std::string where;
  };

  // Returns a warning if a vocabulary knows none of the first values, or lacks more than one of a
  // hundred where the job does not say by `oov` that words may be unknown; "" otherwise.
  static std::string VocabularyDoubt(const CsvSpec& spec, const Known& known) {
    const bool all = known.unknown == known.values;
    if (known.unknown == 0) return "";
    if (!all && (spec.oov_said || known.unknown * 100 <= known.values)) return "";
    std::vector<std::string> examples;
    for (const std::string& word : known.examples) examples.push_back(Quoted(word));
    const std::string words = absl::StrJoin(examples, ", ");
    if (all) {
      return absl::StrCat(spec.path, ": the vocabulary knows none of the first ", known.values,
                          " values, as ", words, "; all are one unknown word to the model");
    }
    return absl::StrCat(spec.path, ": the vocabulary lacks ", known.unknown, " of the first ",
                        known.values, " values, as ", words,
                        "; all of them are one unknown word to the model; where that is meant, "
                        "say \"oov\": 1");
  }

  // Adds the words found in a numeric column to an error about the first records.
  absl::Status WithWords(const absl::Status& status) const {
    if (status.ok()) return status;
    for (const std::vector<CsvSpec>* specs : {&options_.features, &options_.labels}) {
      for (const CsvSpec& spec : *specs) {
        const std::string words = spec.kind == CsvSpec::Kind::kNumeric ? WordsOf(spec) : "";
        if (!words.empty()) {
          return absl::Status(status.code(), absl::StrCat(std::string(status.message()), words));
        }
      }
    }
    return status;
  }

  // Returns a `vocabulary` of the first records of a column whose first field is a word, as JSON;
  // empty if the column has no words, or many, or long ones.
  std::string WordsOf(const CsvSpec& spec) const {
    constexpr size_t kWordsMax = 20, kWordBytesMax = 100;
    std::set<std::string> words;
    for (uint64_t record = 0; record < std::min(records(), kCountedMax); ++record) {
      absl::StatusOr<FileCursor> cursor = index_.Seek(record, cutter_);
      CsvFields fields;
      if (!cursor.ok() || !Cut(record, *cursor, fields).ok()) break;
      const std::string_view text = fields.values[spec.fields[0]];
      if (record == 0 && !IsCsvWord(text)) return "";
      if (!text.empty()) words.insert(std::string(text));
      if (words.size() > kWordsMax || text.size() > kWordBytesMax) return "";
    }
    std::vector<std::string> listed;
    for (const std::string& word : words) listed.push_back(TextOf(nlohmann::json(word)));
    return absl::StrCat("; the first records have \"vocabulary\": [", absl::StrJoin(listed, ", "),
                        "]");
  }

  absl::Status Cut(uint64_t record, FileCursor& cursor, CsvFields& fields) const {
    const absl::StatusOr<bool> more = cutter_.Next(cursor, fields);
    if (!more.ok()) return At(Where(record), more.status());
    return *more ? absl::OkStatus() : absl::DataLossError(Where(record) + ": the file has changed");
  }

  // Returns false if the record cannot be read.
  bool CountOne(uint64_t record, Count& count) const {
    absl::StatusOr<FileCursor> cursor = index_.Seek(record, cutter_);
    if (!cursor.ok()) return false;
    CsvFields fields;
    const absl::StatusOr<bool> more = cutter_.Next(*cursor, fields);
    if (!more.ok() || !*more) return false;
    const size_t within = LinesWithinFields(fields, options_.dialect.delimiter);
    if (within > 0 && count.within == 0) count.where = Where(record);
    count.within += within;
    for (size_t i = 0; i < options_.features.size(); ++i) {
      const CsvSpec& spec = options_.features[i];
      if (spec.kind != CsvSpec::Kind::kCategorical) continue;
      for (const std::string_view text : TextsOf(spec, fields)) {
        if (text == spec.default_text) continue;  // the job chose it
        Known& known = count.known[i];
        ++known.values;
        if (spec.vocabulary.contains(absl::string_view(text.data(), text.size()))) continue;
        ++known.unknown;
        if (known.examples.size() < kExamplesMax) known.examples.emplace(text);
      }
    }
    return true;
  }

  // The words of a field; none if unreadable.
  std::vector<std::string_view> TextsOf(const CsvSpec& spec, const CsvFields& fields) const {
    if (spec.list.has_value()) {
      auto list = CsvList(spec, fields.values, options_.missing);
      return list.ok() ? *std::move(list) : std::vector<std::string_view>();
    }
    const auto text = CsvText(spec, 0, fields.values, options_.missing);
    return text.ok() ? std::vector{*text} : std::vector<std::string_view>();
  }

  absl::Status AddFile(Files& files, const std::string& path, const DataSpec& spec) {
    ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, OpenDataFile(files, path, UnpackingOf(spec)));
    const absl::StatusOr<uint64_t> start = TextBegin(*file);
    if (!start.ok()) return At(path, start.status());
    FileCursor cursor(*file, *start, file->size(), kHeaderBytes);
    if (*start == file->size()) {
      NoteFile(path, 0);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::string_view beginning, cursor.Peek(kFileKindBytes));
    if (IsHtmlPage(beginning)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is no CSV", FileKindHint(beginning)));
    }
    const absl::Status skipped = SkipLines(cursor, options_.skip_lines);
    if (!skipped.ok()) return At(path, skipped);
    uint64_t begin = cursor.position();
    CsvFields first;
    // A temporary cutter accepts any number of fields; cutter_ keeps its own number, because an
    // empty file does not determine one.
    const absl::StatusOr<bool> found = CsvCutter(options_.dialect).Next(cursor, first);
    if (!found.ok()) {
      return At(path + (options_.header ? " header" : " row 0"), found.status());
    }
    if (!*found) {  // an empty file, as written by idle workers of other systems
      NoteFile(path, 0);
      return absl::OkStatus();
    }
    for (const std::string_view name : first.values) {
      if (cursor.position() == file->size() && name.find('\r') != std::string_view::npos) {
        return absl::InvalidArgumentError(
            path + ": its lines end with CR alone; convert them to LF or CR LF");
      }
      if (options_.header && Utf8Prefix(name) != name.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, " header: ", Quoted(name), " is not UTF-8"));
      }
    }
    if (options_.header) begin = cursor.position();
    RETURN_IF_ERROR(BindOrCompare(files, path, first.values));
    cutter_.ExpectFields(fields_);
    const uint64_t before = records();
    RETURN_IF_ERROR(index_.Add(path, std::move(file), begin, cutter_));
    NoteFile(path, records() - before);
    return absl::OkStatus();
  }

  // Takes the columns from the first file, and checks all other files against them.
  absl::Status BindOrCompare(Files& files, const std::string& path,
                             const std::vector<std::string_view>& first) {
    if (fields_ != 0) {
      if (first.size() == fields_ &&
          (!options_.header || std::equal(first.begin(), first.end(), options_.columns.begin()))) {
        return absl::OkStatus();
      }
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": its columns are not those of ", first_path_));
    }
    const std::string likely = options_.header ? LikelyDelimiter(first[0]) : "";
    if (first.size() == 1 && !likely.empty() && likely != options_.dialect.delimiter) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": has a single column with the delimiter ", Quoted(options_.dialect.delimiter),
          "; its first line looks as if it were \"delimiter\": ", Quoted(likely)));
    }
    first_path_ = path;
    fields_ = first.size();
    if (options_.header) options_.columns.assign(first.begin(), first.end());
    if (!options_.columns.empty() && options_.columns.size() != fields_) {
      return absl::InvalidArgumentError(absl::StrCat("data (csv).columns: names ",
                                                     options_.columns.size(), " columns, but ",
                                                     path, " has ", fields_));
    }
    if (options_.inputs_alone) {
      LeaveOutAbsent(options_.columns, fields_, options_.labels);
      LeaveOutAbsent(options_.columns, fields_, options_.weights);
    }
    Problems problems;
    for (std::vector<CsvSpec>* specs : {&options_.features, &options_.labels, &options_.weights}) {
      const absl::Status bound = BindCsvSpecs(files, options_.columns, fields_, path, *specs);
      if (!bound.ok()) problems.Add("", std::string(bound.message()));
    }
    if (!problems.empty()) return problems.ToStatus();
    const absl::Status apart = TellApart();
    if (!options_.inputs_alone) return apart;
    options_.labels.clear();  // keeps a pattern of features from matching them
    options_.weights.clear();
    return apart;
  }

  // Removes label and weight from pattern-matched features.
  absl::Status TellApart() {
    Problems problems;
    if (FieldsOf(options_.features) == FieldsOf(options_.labels)) return absl::OkStatus();
    const std::string pattern = options_.features[0].path;
    LeaveOut(options_.labels, options_.features);
    LeaveOut(options_.weights, options_.features);
    if (options_.features.empty()) problems.Add(pattern, "matches no column but label and weight");
    for (const CsvSpec& label : options_.labels) {
      for (const CsvSpec& feature : options_.features) CheckApart(feature, label, problems);
    }
    return problems.ToStatus();
  }

  // The fields used by the specs. In an autoencoder, features and labels use equal fields.
  static std::set<size_t> FieldsOf(const std::vector<CsvSpec>& specs) {
    std::set<size_t> fields;
    for (const CsvSpec& spec : specs) fields.insert(spec.fields.begin(), spec.fields.end());
    return fields;
  }

  // Refuses a label among the features: a model given the label learns nothing.
  static void CheckApart(const CsvSpec& feature, const CsvSpec& label, Problems& problems) {
    for (const size_t field : feature.fields) {
      if (std::find(label.fields.begin(), label.fields.end(), field) == label.fields.end())
        continue;
      problems.Add(feature.path,
                   absl::StrCat("column ", field, " (from 0) is the label, too; only ",
                                "all of the features may be (an autoencoder)"));
    }
  }

  // `inputs` is null for targets and weights, since only inputs have strings and exact numbers.
  absl::Status Convert(uint64_t record, const std::vector<CsvSpec>& specs, const CsvFields& fields,
                       std::span<float* const> out, const Row* inputs) const {
    for (const CsvSpec& spec : specs) {
      absl::Status converted;
      if (spec.kind == CsvSpec::Kind::kString) {
        converted = ConvertCsvTexts(spec, fields.values, options_.missing,
                                    inputs->strings[spec.column] + spec.offset);
      } else {
        converted =
            ConvertCsv(spec, fields.values, options_.missing, out[spec.column] + spec.offset,
                       inputs == nullptr ? nullptr : &inputs->exact[spec.column]);
      }
      if (!converted.ok()) return At(Where(record), converted);
    }
    return absl::OkStatus();
  }

  CsvOptions options_;
  CsvCutter cutter_;
  RecordIndex index_;
  std::string first_path_;
  size_t fields_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenCsv(Files& files, const DataSpec& spec) {
  ASSIGN_OR_RETURN(CsvOptions options, ReadCsvOptions(spec));
  auto source = std::make_unique<CsvSource>(std::move(options));
  RETURN_IF_ERROR(source->Open(files, spec));
  return source;
}

}  // namespace paracord
