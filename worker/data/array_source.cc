// Data sources of one array of features and one of labels: idx and npy.
#include "worker/data/array_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/json_fields.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "worker/data/array.h"
#include "worker/data/data_options.h"

namespace paracord {
namespace {

class ArraySource : public DataSource {
 public:
  ArraySource(std::string format, Array features, Array labels, float scale)
      : features_(std::move(features)), labels_(std::move(labels)), scale_(scale) {
    schema_.inputs.push_back({"", features_.shape(), {}});
    schema_.targets.push_back({"", labels_.shape(), {}});
    fingerprint_ = absl::StrFormat("%s:%d:%016x", format, features_.records(),
                                   Mix64(features_.fingerprint(), labels_.fingerprint()));
  }

  uint64_t records() const override { return features_.records(); }
  std::string fingerprint() const override { return fingerprint_; }
  const Batch& schema() const override { return schema_; }

  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    for (const uint64_t record : records) {
      if (record < this->records()) continue;
      return absl::OutOfRangeError(
          absl::StrCat(features_.Where(record), ": there are only ", this->records(), " records"));
    }
    batch.examples = static_cast<uint32_t>(records.size());
    batch.source = this;
    batch.records.assign(records.begin(), records.end());
    batch.inputs.resize(1);
    batch.targets.resize(1);
    Fill(features_, records, scale_, batch.inputs[0]);
    Fill(labels_, records, 1, batch.targets[0]);
    return absl::OkStatus();
  }
  std::string Where(uint64_t record) const override { return labels_.Where(record); }

 private:
  static void Fill(const Array& array, std::span<const uint64_t> records, float scale,
                   Column& column) {
    column.shape = array.shape();
    column.values.resize(records.size() * array.record_size());
    float* to = column.values.data();
    for (const uint64_t record : records) {
      array.Read(record, scale, to);
      to += array.record_size();
    }
  }

  const Array features_, labels_;
  const float scale_;
  Batch schema_;
  std::string fingerprint_;
};

absl::StatusOr<std::unique_ptr<DataSource>> Open(Files& files, const DataSpec& spec, bool has_scale,
                                                 ReadArrayHeader read_header) {
  Problems problems;
  JsonFields fields(spec.options, absl::StrCat("data (", spec.format, ")"), problems);
  const std::vector<std::string> feature_paths = ReadPaths(fields, "features");
  const std::vector<std::string> label_paths = ReadPaths(fields, "labels");
  double scale = 1;
  if (has_scale) fields.Number("scale", -1e30, 1e30, scale);
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());

  ASSIGN_OR_RETURN(Array features, ReadArray(files, feature_paths, read_header));
  ASSIGN_OR_RETURN(Array labels, ReadArray(files, label_paths, read_header));
  if (features.records() != labels.records()) {
    return absl::InvalidArgumentError(absl::StrCat(feature_paths[0], " has ", features.records(),
                                                   " records, but ", label_paths[0], " has ",
                                                   labels.records()));
  }
  if (features.records() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(feature_paths[0], ": has no records"));
  }
  return std::make_unique<ArraySource>(spec.format, std::move(features), std::move(labels),
                                       static_cast<float>(scale));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenIdx(Files& files, const DataSpec& spec) {
  return Open(files, spec, /*has_scale=*/true, ReadIdxHeader);
}
absl::StatusOr<std::unique_ptr<DataSource>> OpenNpy(Files& files, const DataSpec& spec) {
  return Open(files, spec, /*has_scale=*/false, ReadNpyHeader);
}

}  // namespace paracord
