#include "data/csv_source.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "config/json_fields.h"
#include "data/csv_columns.h"
#include "data/csv_text.h"
#include "data/data_options.h"
#include "data/row_source.h"

namespace paracord {
namespace {

constexpr uint64_t kSkipLinesMax = 1000;
constexpr size_t kHeaderBytes = 64 << 10;

struct CsvOptions {
  std::vector<std::string> files;
  bool header = true;
  std::vector<std::string> columns;  // their names where there is no header
  CsvDialect dialect;
  uint64_t skip_lines = 0;  // at the start of each file
  MissingTexts missing = {""};
  std::vector<CsvSpec> features, labels, weights;
};

void ReadDelimiter(JsonFields& fields, CsvDialect& dialect) {
  std::string text(1, dialect.delimiter);
  fields.String("delimiter", text);
  if (text.size() != 1 || text == "\"" || text == "\n" || text == "\r") {
    return fields.Problem("delimiter", "must be one character, and no quote or end of line");
  }
  dialect.delimiter = text[0];
}

absl::StatusOr<CsvOptions> ReadOptions(const DataSpec& spec) {
  Problems problems;
  JsonFields fields(spec.options, "data (csv)", problems);
  CsvOptions options;
  options.files = ReadPaths(fields, "files");
  fields.Bool("header", options.header);
  options.columns = ReadStrings(fields, "columns");
  if (options.header && !options.columns.empty()) {
    fields.Problem("columns", "the header names them; say \"header\": false where there is none");
  }
  ReadDelimiter(fields, options.dialect);
  fields.Bool("trim", options.dialect.trim);
  fields.Integer("skip_lines", 0, kSkipLinesMax, options.skip_lines);
  for (const std::string& text : ReadStrings(fields, "missing")) options.missing.push_back(text);
  options.features = ReadCsvSpecs(fields, "features", "input", /*oov_default=*/1, problems);
  options.labels = ReadCsvSpecs(fields, "label", "output", /*oov_default=*/0, problems);
  options.weights = ReadCsvSpecs(fields, "weight", "output", /*oov_default=*/0, problems);
  for (const std::string key : {"features", "label"}) {
    if (fields.FindValue(key) == nullptr) fields.Problem(key, "is missing");
  }
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
    index_.Recall(files, spec, paths);
    for (const std::string& path : paths) RETURN_IF_ERROR(AddFile(files, path));
    RETURN_IF_ERROR(index_.Keep());
    if (records() == 0) return absl::InvalidArgumentError(paths[0] + ": has no records");
    schema_.inputs = CsvGroups(options_.features, /*scalar=*/false);
    schema_.targets = CsvGroups(options_.labels, /*scalar=*/true);
    schema_.weights = CsvGroups(options_.weights, /*scalar=*/true);
    return CheckFirst();
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

 protected:
  absl::Status ReadRow(uint64_t record, const Row& row) const override {
    ASSIGN_OR_RETURN(FileCursor cursor, index_.Seek(record, cutter_));
    CsvFields fields;
    const absl::StatusOr<bool> more = cutter_.Next(cursor, fields);
    if (!more.ok()) return At(Where(record), more.status());
    if (!*more) return absl::DataLossError(Where(record) + ": the file has changed");
    RETURN_IF_ERROR(Convert(record, options_.features, fields, row.inputs, row.strings));
    RETURN_IF_ERROR(Convert(record, options_.labels, fields, row.targets, {}));
    return Convert(record, options_.weights, fields, row.weights, {});
  }

 private:
  absl::Status AddFile(Files& files, const std::string& path) {
    ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, OpenDataFile(files, path));
    const absl::StatusOr<uint64_t> start = TextBegin(*file);
    if (!start.ok()) return At(path, start.status());
    FileCursor cursor(*file, *start, file->size(), kHeaderBytes);
    const absl::Status skipped = SkipLines(cursor, options_.skip_lines);
    if (!skipped.ok()) return At(path, skipped);
    uint64_t begin = cursor.position();
    CsvFields first;
    // With any number of fields; the cutter keeps its own, which a file without any leaves alone.
    const absl::StatusOr<bool> found = CsvCutter(options_.dialect).Next(cursor, first);
    if (!found.ok()) {
      return At(path + (options_.header ? " header" : " row 0"), found.status());
    }
    if (!*found && options_.header) return absl::InvalidArgumentError(path + ": has no header");
    if (!*found) return absl::OkStatus();
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
    return index_.Add(path, std::move(file), begin, cutter_);
  }

  // The first file says which columns there are, the others must have the same.
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
    first_path_ = path;
    fields_ = first.size();
    if (options_.header) options_.columns.assign(first.begin(), first.end());
    if (!options_.columns.empty() && options_.columns.size() != fields_) {
      return absl::InvalidArgumentError(absl::StrCat("data (csv).columns: names ",
                                                     options_.columns.size(), " columns, but ",
                                                     path, " has ", fields_));
    }
    Problems problems;
    for (std::vector<CsvSpec>* specs : {&options_.features, &options_.labels, &options_.weights}) {
      const absl::Status bound = BindCsvSpecs(files, options_.columns, fields_, path, *specs);
      if (!bound.ok()) problems.Add("", std::string(bound.message()));
    }
    if (FieldsOf(options_.features) == FieldsOf(options_.labels)) return problems.ToStatus();
    for (const CsvSpec& label : options_.labels) {
      for (const CsvSpec& feature : options_.features) CheckApart(feature, label, problems);
    }
    return problems.ToStatus();
  }

  // The same for features and labels: an autoencoder.
  static std::set<size_t> FieldsOf(const std::vector<CsvSpec>& specs) {
    std::set<size_t> fields;
    for (const CsvSpec& spec : specs) fields.insert(spec.fields.begin(), spec.fields.end());
    return fields;
  }

  // A pattern such as "*" takes the label in, too, and a model that is told it learns nothing.
  static void CheckApart(const CsvSpec& feature, const CsvSpec& label, Problems& problems) {
    for (const size_t field : feature.fields) {
      if (std::find(label.fields.begin(), label.fields.end(), field) == label.fields.end())
        continue;
      problems.Add(feature.path,
                   absl::StrCat("column ", field, " (from 0) is the label, too; only ",
                                "all of the features may be (an autoencoder)"));
    }
  }

  absl::Status Convert(uint64_t record, const std::vector<CsvSpec>& specs, const CsvFields& fields,
                       std::span<float* const> out, std::span<std::string* const> strings) const {
    for (const CsvSpec& spec : specs) {
      absl::Status converted;
      if (spec.kind == CsvSpec::Kind::kString) {
        const auto text = CsvText(spec, 0, fields.values, options_.missing);
        if (text.ok()) strings[spec.column][spec.offset] = std::string(*text);
        converted = text.status();
      } else {
        float* const to = out[spec.column] + spec.offset;
        converted = ConvertCsv(spec, fields.values, options_.missing, to);
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
  ASSIGN_OR_RETURN(CsvOptions options, ReadOptions(spec));
  auto source = std::make_unique<CsvSource>(std::move(options));
  RETURN_IF_ERROR(source->Open(files, spec));
  return source;
}

}  // namespace paracord
