// The reader of TFRecord files of tf.train.Example.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "data/data_options.h"
#include "data/row_source.h"
#include "data/skipping_source.h"
#include "data/tf_example.h"
#include "data/tf_feature.h"
#include "data/tf_record.h"

namespace paracord {
namespace {

// Refuses a group of both strings and numbers, because a column holds only one of the two.
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
    Forgive(spec);
    if (bad_records() > 0) cutter_.Forgive();
    index_.Recall(files, spec, paths);
    for (const std::string& path : paths) {
      ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file,
                       OpenRecordFile(files, path, UnpackingOf(spec)));
      const uint64_t before = records();
      RETURN_IF_ERROR(index_.Add(path, std::move(file), 0, cutter_));
      NoteFile(path, records() - before);
    }
    RETURN_IF_ERROR(index_.Keep());
    if (records() == 0) return absl::InvalidArgumentError(paths[0] + ": has no records");
    schema_.inputs = FeatureGroups(options_.features);
    schema_.targets = FeatureGroups(options_.labels);
    schema_.weights = FeatureGroups(options_.weights);
    return CheckFirst();
  }

  uint64_t records() const override { return index_.records(); }
  std::string fingerprint() const override {
    return absl::StrFormat("tfrecord:%d:%016x", records(), index_.fingerprint());
  }
  std::string Where(uint64_t record) const override { return index_.Where(record); }
  absl::StatusOr<std::vector<std::string>> Fields(
      std::span<const uint64_t> records, std::span<const std::string> names) const override {
    std::vector<std::string> texts;
    texts.reserve(records.size() * names.size());
    for (const uint64_t record : records) {
      ASSIGN_OR_RETURN(FileCursor cursor, index_.Seek(record, cutter_));
      std::vector<ExampleFeature> example;
      const absl::Status status = Parse(cursor, example);
      if (!status.ok()) return At(Where(record), status);
      for (const std::string& name : names) {
        FeatureSpec spec;
        spec.name = name;
        const ExampleFeature* const feature = Find(example, spec);
        const absl::StatusOr<std::string> text =
            feature == nullptr ? absl::InvalidArgumentError("the example lacks it")
                               : TextOfFeature(*feature);
        if (!text.ok())
          return At(absl::StrCat(Where(record), ": feature \"", name, "\""), text.status());
        texts.push_back(*text);
      }
    }
    return texts;
  }

 protected:
  absl::Status ReadRow(uint64_t record, const Row& row) const override {
    ASSIGN_OR_RETURN(FileCursor cursor, index_.Seek(record, cutter_));
    std::vector<ExampleFeature> example;
    absl::Status status = Parse(cursor, example);
    if (status.ok()) status = Fill(options_.features, example, row.inputs, &row);
    if (status.ok()) status = Fill(options_.labels, example, row.targets, nullptr);
    if (status.ok()) status = Fill(options_.weights, example, row.weights, nullptr);
    return status.ok() ? status : At(Where(record), status);
  }

 private:
  // Fills in the features of the record at the cursor, sorted by name, pointing into the cursor's
  // buffer.
  absl::Status Parse(FileCursor& cursor, std::vector<ExampleFeature>& example) const {
    std::string_view data;
    ASSIGN_OR_RETURN(const bool more, cutter_.Next(cursor, data));
    if (!more) return absl::DataLossError("the file has changed");
    const absl::Status status = ParseExample(data, example);
    // Of a feature that an example has twice the last counts, as for TensorFlow.
    std::reverse(example.begin(), example.end());
    std::stable_sort(example.begin(), example.end(),
                     [](const auto& a, const auto& b) { return a.name < b.name; });
    return status;
  }

  // A feature of a single value as text.
  static absl::StatusOr<std::string> TextOfFeature(const ExampleFeature& feature) {
    if (feature.kind != ExampleFeature::Kind::kFloat) {
      std::vector<std::string> texts;
      RETURN_IF_ERROR(ReadTexts(feature, texts));
      if (texts.size() == 1) return texts[0];
      return absl::InvalidArgumentError(
          absl::StrCat("has ", texts.size(), " values, and one can be copied"));
    }
    float value = 0;
    std::vector<ExactInteger> exact;
    ASSIGN_OR_RETURN(const size_t count, ReadNumbers(feature, {&value, 1}, 0, exact));
    if (count == 1) return absl::StrCat(value);
    return absl::InvalidArgumentError(
        absl::StrCat("has ", count, " values, and one can be copied"));
  }

  // The features of `example` are sorted by name. `inputs` is null for targets and weights, since
  // only inputs have strings and exact numbers.
  static absl::Status Fill(const std::vector<FeatureSpec>& specs,
                           const std::vector<ExampleFeature>& example, std::span<float* const> out,
                           const Row* inputs) {
    std::vector<ExactInteger> no_input;
    for (const FeatureSpec& spec : specs) {
      const ExampleFeature* feature = Find(example, spec);
      const absl::Status filled =
          spec.text()
              ? FillTexts(spec, feature, {inputs->strings[spec.column] + spec.offset, spec.size})
              : FillNumbers(spec, feature, {out[spec.column] + spec.offset, spec.size},
                            inputs == nullptr ? no_input : inputs->exact[spec.column]);
      if (!filled.ok()) return At(absl::StrCat("feature \"", spec.name, "\""), filled);
    }
    return absl::OkStatus();
  }

  // Returns null if the example lacks the spec's feature. A SequenceExample's list without steps
  // counts as present, although it has no type.
  static const ExampleFeature* Find(const std::vector<ExampleFeature>& example,
                                    const FeatureSpec& spec) {
    const std::string& name = spec.name;
    const auto feature = std::lower_bound(
        example.begin(), example.end(), name,
        [](const ExampleFeature& each, const std::string& wanted) { return each.name < wanted; });
    const bool there = feature != example.end() && feature->name == name &&
                       (feature->kind != ExampleFeature::Kind::kNone ||
                        (feature->joined != nullptr && spec.pads()));
    return there ? &*feature : nullptr;
  }

  TfRecordOptions options_;
  TfRecordCutter cutter_;
  RecordIndex index_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenTfRecord(Files& files, const DataSpec& spec) {
  Problems problems;
  JsonFields fields(spec.options, "data (tfrecord)", problems);
  TfRecordOptions options;
  options.files = ReadPaths(fields, "files");
  options.features = ReadFeatureSpecs(fields, "features", "input", problems);
  if (spec.inputs_alone) {
    for (const char* const key : {"label", "weight"}) fields.Find(key);
  } else {
    options.labels = ReadFeatureSpecs(fields, "label", "output", problems);
    options.weights = ReadFeatureSpecs(fields, "weight", "output", problems);
  }
  CheckTexts(fields, options.features);
  for (const std::string key : {"features", "label"}) {
    if (key == "label" && spec.inputs_alone) continue;
    if (fields.FindValue(key) == nullptr) fields.Problem(key, "is missing");
  }
  fields.Find(kBadRecordsKey);
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  auto source = std::make_unique<TfRecordSource>(std::move(options));
  RETURN_IF_ERROR(source->Open(files, spec));
  return source;
}

}  // namespace paracord
