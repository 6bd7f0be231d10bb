#include "data/part_source.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "data/batch_plan.h"

namespace paracord {
namespace {

constexpr uint64_t kPartKey = 0x70617274;

class PartSource : public DataSource {
 public:
  PartSource(std::unique_ptr<DataSource> whole, const PartSpec& spec, uint64_t first,
             uint64_t records)
      : whole_(std::move(whole)), first_(first), records_(records) {
    if (spec.seed) order_.emplace(whole_->records(), Mix64(kPartKey, *spec.seed));
    fingerprint_ = absl::StrFormat("%s/%d+%d", whole_->fingerprint(), first, records);
    if (spec.seed) absl::StrAppend(&fingerprint_, "/", *spec.seed);
  }

  uint64_t records() const override { return records_; }
  std::string fingerprint() const override { return fingerprint_; }
  const Batch& schema() const override { return whole_->schema(); }
  std::string Where(uint64_t record) const override { return whole_->Where(InWhole(record)); }
  std::string Describe() const override { return whole_->Describe(); }
  std::vector<std::string> Warnings() const override { return whole_->Warnings(); }
  absl::StatusOr<std::vector<std::string>> Fields(
      std::span<const uint64_t> records, std::span<const std::string> names) const override {
    ASSIGN_OR_RETURN(const std::vector<uint64_t> in_whole, AllInWhole(records));
    return whole_->Fields(in_whole, names);
  }

  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    ASSIGN_OR_RETURN(const std::vector<uint64_t> in_whole, AllInWhole(records));
    return Own(records, whole_->Read(in_whole, batch), batch);
  }
  absl::Status ReadForTraining(std::span<const uint64_t> records, uint64_t epoch_key,
                               Batch& batch) const override {
    ASSIGN_OR_RETURN(const std::vector<uint64_t> in_whole, AllInWhole(records));
    return Own(records, whole_->ReadForTraining(in_whole, epoch_key, batch), batch);
  }

 private:
  uint64_t InWhole(uint64_t record) const {
    return order_ ? (*order_)(first_ + record) : first_ + record;
  }
  absl::StatusOr<std::vector<uint64_t>> AllInWhole(std::span<const uint64_t> records) const {
    std::vector<uint64_t> in_whole;
    for (const uint64_t record : records) {
      if (record >= records_) {
        return absl::OutOfRangeError(
            absl::StrCat("record ", record, ": there are only ", records_, " records"));
      }
      in_whole.push_back(InWhole(record));
    }
    return in_whole;
  }
  absl::Status Own(std::span<const uint64_t> records, absl::Status status, Batch& batch) const {
    batch.source = this;
    batch.records.assign(records.begin(), records.end());
    return status;
  }

  const std::unique_ptr<DataSource> whole_;
  const uint64_t first_, records_;
  std::optional<Permutation> order_;
  std::string fingerprint_;
};

}  // namespace

PartSpec ReadPartSpec(const nlohmann::json& value, const std::string& path, Problems& problems) {
  PartSpec spec;
  JsonFields fields(value, path, problems);
  fields.Number("from", 0, 1, spec.from);
  fields.Number("to", 0, 1, spec.to);
  if (fields.FindValue("seed") != nullptr) {
    fields.Integer("seed", 0, std::numeric_limits<uint64_t>::max(), spec.seed.emplace());
  }
  if (spec.from >= spec.to) fields.Problem("from", "must be less than `to`");
  fields.ReportUnknown();
  return spec;
}

absl::StatusOr<std::unique_ptr<DataSource>> MakePart(std::unique_ptr<DataSource> whole,
                                                     const PartSpec& spec) {
  // Neighbouring shares meet exactly: the `to` of one equals the `from` of the next, rounded alike.
  const auto cut = [&](double share) {
    return static_cast<uint64_t>(std::llround(share * static_cast<double>(whole->records())));
  };
  const uint64_t first = cut(spec.from), end = cut(spec.to);
  if (first >= end) {
    return absl::InvalidArgumentError(
        absl::StrCat("part: holds none of the ", whole->records(), " records"));
  }
  return std::make_unique<PartSource>(std::move(whole), spec, first, end - first);
}

}  // namespace paracord
