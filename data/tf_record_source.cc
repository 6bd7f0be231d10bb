// The reader of TFRecord files of tf.train.Example.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "data/data_options.h"
#include "data/row_source.h"
#include "data/tf_example.h"
#include "data/tf_record.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kElementsMax = uint64_t{1} << 28;
constexpr double kNumberMax = 1e30;

struct FeatureSpec {
  std::string name;
  std::string group;  // the model's input or output
  std::vector<uint64_t> shape;
  size_t size = 1;
  size_t column = 0, offset = 0;  // of a batch, and in its row: set by Groups
  // Empty: float or int64, whichever is there; uint8: bytes of one string; string: for a model that
  // takes strings, of int64 their decimal text.
  std::string dtype;
  double scale = 1;
  std::optional<double> default_value;
  std::optional<std::string> default_text;

  bool text() const { return dtype == "string"; }
};

void ReadShape(JsonFields& fields, FeatureSpec& spec) {
  const json* value = fields.FindValue("shape");
  if (value == nullptr) return;
  bool good = value->is_array() && value->size() <= 8;
  for (size_t i = 0; good && i < value->size(); ++i) {
    const json& dim = (*value)[i];
    good = dim.is_number_unsigned() && dim.get<uint64_t>() > 0 &&
           dim.get<uint64_t>() <= kElementsMax / spec.size;
    if (!good) break;
    spec.shape.push_back(dim.get<uint64_t>());
    spec.size *= static_cast<size_t>(spec.shape.back());
  }
  if (!good) {
    fields.Problem("shape", absl::StrCat("must be a list of sizes, of at most ", kElementsMax,
                                         " values in all, is ", JsonExcerpt(*value)));
  }
}

FeatureSpec ReadFeature(const json& value, const std::string& path, const std::string& group_key,
                        Problems& problems) {
  FeatureSpec spec;
  if (value.is_string()) {
    spec.name = value.get<std::string>();
    return spec;
  }
  JsonFields fields(value, path, problems);
  if (value.is_object() && fields.Find("name") == nullptr) fields.Problem("name", "is missing");
  fields.String("name", spec.name);
  fields.String(group_key, spec.group);
  ReadShape(fields, spec);
  static constexpr std::array<std::string_view, 4> kTypes = {"float", "int64", "uint8", "string"};
  fields.OneOf("dtype", kTypes, spec.dtype);
  if (spec.text()) {
    if (group_key != "input") fields.Problem("dtype", "strings are for inputs alone");
    const json* text = fields.FindValue("default");
    if (text != nullptr && text->is_string()) spec.default_text = text->get<std::string>();
    if (text != nullptr && !text->is_string()) fields.Problem("default", "must be a string");
    fields.ReportUnknown();
    return spec;
  }
  fields.Number("scale", -kNumberMax, kNumberMax, spec.scale);
  if (fields.FindValue("default") != nullptr) {
    fields.Number("default", -kNumberMax, kNumberMax, spec.default_value.emplace());
  }
  fields.ReportUnknown();
  return spec;
}

std::vector<FeatureSpec> ReadFeatures(JsonFields& fields, const std::string& key,
                                      const std::string& group_key, Problems& problems) {
  std::vector<FeatureSpec> specs;
  const json* value = fields.FindValue(key);
  if (value == nullptr) return specs;
  const std::string path = fields.PathOf(key);
  if (!value->is_array()) {
    specs.push_back(ReadFeature(*value, path, group_key, problems));
  } else if (value->empty()) {
    fields.Problem(key, "names no feature");
  } else {
    for (size_t i = 0; i < value->size(); ++i) {
      specs.push_back(
          ReadFeature((*value)[i], absl::StrCat(path, "[", i, "]"), group_key, problems));
    }
  }
  return specs;
}

// One column for each group: of one feature as it is, of several as a vector of all their numbers.
// Every feature is told its place.
std::vector<Column> Groups(std::vector<FeatureSpec>& specs) {
  std::vector<Column> columns;
  std::vector<size_t> sizes;
  for (FeatureSpec& spec : specs) {
    const auto at = std::find_if(columns.begin(), columns.end(),
                                 [&](const Column& column) { return column.name == spec.group; });
    spec.column = static_cast<size_t>(at - columns.begin());
    if (at == columns.end()) {
      columns.push_back({spec.group, spec.shape, {}, spec.text()});
      sizes.push_back(spec.size);
      continue;
    }
    spec.offset = sizes[spec.column];
    sizes[spec.column] += spec.size;
    at->shape = {sizes[spec.column]};
  }
  return columns;
}

// Strings and numbers are in columns of their own.
void CheckTexts(JsonFields& fields, const std::vector<FeatureSpec>& specs) {
  for (const FeatureSpec& spec : specs) {
    for (const FeatureSpec& other : specs) {
      if (&other == &spec) break;
      if (other.group != spec.group || other.text() == spec.text()) continue;
      return fields.Problem("features", absl::StrCat("\"", spec.name, "\" and \"", other.name,
                                                     "\" are numbers and strings for one input; "
                                                     "give each an `input` of its own"));
    }
  }
}

struct TfRecordOptions {
  std::vector<std::string> files;
  std::vector<FeatureSpec> features, labels, weights;
};

class TfRecordSource : public RowSource {
 public:
  explicit TfRecordSource(TfRecordOptions options) : options_(std::move(options)) {}

  absl::Status Open(Files& files, const DataSpec& spec) {
    ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(files, options_.files));
    index_.Recall(files, spec, paths);
    for (const std::string& path : paths) {
      ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, OpenRecordFile(files, path));
      RETURN_IF_ERROR(index_.Add(path, std::move(file), 0, cutter_));
    }
    RETURN_IF_ERROR(index_.Keep());
    if (records() == 0) return absl::InvalidArgumentError(paths[0] + ": has no records");
    schema_.inputs = Groups(options_.features);
    schema_.targets = Groups(options_.labels);
    schema_.weights = Groups(options_.weights);
    return CheckFirst();
  }

  uint64_t records() const override { return index_.records(); }
  std::string fingerprint() const override {
    return absl::StrFormat("tfrecord:%d:%016x", records(), index_.fingerprint());
  }
  std::string Where(uint64_t record) const override { return index_.Where(record); }

 protected:
  absl::Status ReadRow(uint64_t record, const Row& row) const override {
    ASSIGN_OR_RETURN(FileCursor cursor, index_.Seek(record, cutter_));
    std::string_view data;
    const absl::StatusOr<bool> more = cutter_.Next(cursor, data);
    if (!more.ok()) return At(Where(record), more.status());
    if (!*more) return absl::DataLossError(Where(record) + ": the file has changed");
    std::vector<ExampleFeature> example;
    absl::Status status = ParseExample(data, example);
    std::stable_sort(example.begin(), example.end(),
                     [](const auto& a, const auto& b) { return a.name < b.name; });
    if (status.ok()) status = Fill(options_.features, example, row.inputs, row.strings);
    if (status.ok()) status = Fill(options_.labels, example, row.targets, {});
    if (status.ok()) status = Fill(options_.weights, example, row.weights, {});
    return status.ok() ? status : At(Where(record), status);
  }

 private:
  // The features of `example` are in the order of their names.
  static absl::Status Fill(const std::vector<FeatureSpec>& specs,
                           const std::vector<ExampleFeature>& example, std::span<float* const> out,
                           std::span<std::string* const> strings) {
    for (const FeatureSpec& spec : specs) {
      const ExampleFeature* feature = Find(example, spec.name);
      const absl::Status filled =
          spec.text() ? FillText(spec, feature, {strings[spec.column] + spec.offset, spec.size})
                      : FillOne(spec, feature, {out[spec.column] + spec.offset, spec.size});
      if (!filled.ok()) return At(absl::StrCat("feature \"", spec.name, "\""), filled);
    }
    return absl::OkStatus();
  }

  // Null: it is missing.
  static const ExampleFeature* Find(const std::vector<ExampleFeature>& example,
                                    const std::string& name) {
    const auto feature = std::lower_bound(
        example.begin(), example.end(), name,
        [](const ExampleFeature& each, const std::string& wanted) { return each.name < wanted; });
    const bool there = feature != example.end() && feature->name == name &&
                       feature->kind != ExampleFeature::Kind::kNone;
    return there ? &*feature : nullptr;
  }

  static absl::Status FillText(const FeatureSpec& spec, const ExampleFeature* feature,
                               std::span<std::string> out) {
    if (feature != nullptr) return ReadTexts(*feature, out);
    if (!spec.default_text) {
      return absl::InvalidArgumentError("is missing, and there is no `default`");
    }
    std::fill(out.begin(), out.end(), *spec.default_text);
    return absl::OkStatus();
  }

  static absl::Status FillOne(const FeatureSpec& spec, const ExampleFeature* feature,
                              std::span<float> out) {
    const auto scale = static_cast<float>(spec.scale);
    if (feature == nullptr) {
      if (!spec.default_value) {
        return absl::InvalidArgumentError("is missing, and there is no `default`");
      }
      std::fill(out.begin(), out.end(), scale * static_cast<float>(*spec.default_value));
      return absl::OkStatus();
    }
    if (spec.dtype != "uint8") {
      const auto wanted = spec.dtype == "float"   ? ExampleFeature::Kind::kFloat
                          : spec.dtype == "int64" ? ExampleFeature::Kind::kInt64
                                                  : feature->kind;
      if (feature->kind != wanted) {
        return absl::InvalidArgumentError(absl::StrCat("is not of dtype ", spec.dtype));
      }
      RETURN_IF_ERROR(ReadNumbers(*feature, out));
      for (float& value : out) value *= scale;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::string_view bytes, ReadBytes(*feature));
    if (bytes.size() != out.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("has ", bytes.size(), " bytes instead of ", out.size()));
    }
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = scale * static_cast<float>(static_cast<unsigned char>(bytes[i]));
    }
    return absl::OkStatus();
  }

  TfRecordOptions options_;
  const TfRecordCutter cutter_;
  RecordIndex index_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenTfRecord(Files& files, const DataSpec& spec) {
  Problems problems;
  JsonFields fields(spec.options, "data (tfrecord)", problems);
  TfRecordOptions options;
  options.files = ReadPaths(fields, "files");
  options.features = ReadFeatures(fields, "features", "input", problems);
  options.labels = ReadFeatures(fields, "label", "output", problems);
  options.weights = ReadFeatures(fields, "weight", "output", problems);
  CheckTexts(fields, options.features);
  for (const std::string key : {"features", "label"}) {
    if (fields.FindValue(key) == nullptr) fields.Problem(key, "is missing");
  }
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  auto source = std::make_unique<TfRecordSource>(std::move(options));
  RETURN_IF_ERROR(source->Open(files, spec));
  return source;
}

}  // namespace paracord
