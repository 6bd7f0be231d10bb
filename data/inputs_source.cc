#include "data/inputs_source.h"

#include <utility>

#include "common/status_macros.h"

namespace paracord {
namespace {

class InputsSource : public DataSource {
 public:
  explicit InputsSource(std::unique_ptr<DataSource> source) : source_(std::move(source)) {
    schema_.inputs = source_->schema().inputs;
  }

  uint64_t records() const override { return source_->records(); }
  std::string fingerprint() const override { return source_->fingerprint(); }
  const Batch& schema() const override { return schema_; }
  std::string Where(uint64_t record) const override { return source_->Where(record); }
  std::string Describe() const override { return source_->Describe(); }
  std::vector<std::string> Warnings() const override { return source_->Warnings(); }
  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    RETURN_IF_ERROR(source_->Read(records, batch));
    batch.targets.clear();
    batch.weights.clear();
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> Fields(
      std::span<const uint64_t> records, std::span<const std::string> names) const override {
    return source_->Fields(records, names);
  }

 private:
  const std::unique_ptr<DataSource> source_;
  Batch schema_;
};

}  // namespace

std::unique_ptr<DataSource> InputsOf(std::unique_ptr<DataSource> source) {
  return std::make_unique<InputsSource>(std::move(source));
}

}  // namespace paracord
