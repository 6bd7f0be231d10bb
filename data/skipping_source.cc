#include "data/skipping_source.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr size_t kLogged = 20;      // bad records with a log line each
constexpr size_t kToldOfBatch = 8;  // bad records named by a batch

// Whether an error is about a record's content, rather than the disk or the store.
bool IsOfRecord(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument ||
         status.code() == absl::StatusCode::kDataLoss;
}

class SkippingSource : public DataSource {
 public:
  SkippingSource(std::unique_ptr<DataSource> source, uint64_t skip)
      : source_(std::move(source)), skip_(skip) {}

  uint64_t records() const override { return source_->records(); }
  std::string fingerprint() const override { return source_->fingerprint(); }
  const Batch& schema() const override { return source_->schema(); }
  std::string Where(uint64_t record) const override { return source_->Where(record); }
  std::string Describe() const override { return source_->Describe(); }
  absl::StatusOr<std::vector<std::string>> Fields(
      std::span<const uint64_t> records, std::span<const std::string> names) const override {
    return source_->Fields(records, names);
  }

  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    return ReadGood(records, batch, [this](std::span<const uint64_t> some, Batch& to) {
      return source_->Read(some, to);
    });
  }
  absl::Status ReadForTraining(std::span<const uint64_t> records, uint64_t epoch_key,
                               Batch& batch) const override {
    return ReadGood(records, batch, [&](std::span<const uint64_t> some, Batch& to) {
      return source_->ReadForTraining(some, epoch_key, to);
    });
  }

  std::vector<std::string> Warnings() const override {
    std::vector<std::string> warnings = source_->Warnings();
    const absl::Status first =
        ReadFirstRecords(*this, [](const Batch&) { return absl::OkStatus(); });
    const MutexLock lock(mu_);
    if (!bad_.empty()) {
      warnings.push_back(absl::StrCat("bad_records: ", bad_.size(), " of the first records ",
                                      bad_.size() == 1 ? "is" : "are", " left out, first ",
                                      first_));
    }
    if (!first.ok()) warnings.push_back(std::string(first.message()));
    return warnings;
  }

 private:
  template <class ReadSome>
  absl::Status ReadGood(std::span<const uint64_t> records, Batch& batch,
                        const ReadSome& read) const {
    batch.left_out.clear();
    const absl::Status whole = read(records, batch);
    if (whole.ok() || !IsOfRecord(whole)) return whole;
    std::vector<std::string> left_out;
    std::vector<uint64_t> good;
    Batch one;
    for (const uint64_t record : records) {
      const absl::Status status = read({&record, 1}, one);
      if (status.ok()) {
        good.push_back(record);
        continue;
      }
      if (!IsOfRecord(status)) return status;
      RETURN_IF_ERROR(Note(record, status));
      if (left_out.size() < kToldOfBatch) left_out.emplace_back(status.message());
    }
    if (good.empty()) return whole;
    RETURN_IF_ERROR(read(good, batch));
    batch.left_out = std::move(left_out);
    return absl::OkStatus();
  }

  absl::Status Note(uint64_t record, const absl::Status& status) const {
    const MutexLock lock(mu_);
    if (bad_.contains(record)) return absl::OkStatus();
    if (bad_.size() >= skip_) {
      return absl::Status(status.code(),
                          absl::StrCat(std::string(status.message()), "; bad_records left out ",
                                       skip_, " records before, and allows no more"));
    }
    bad_.insert(record);
    if (bad_.size() == 1) first_ = std::string(status.message());
    if (bad_.size() <= kLogged) {
      log_.Warn("bad record {number} of at most {most} is left out: {reason}",
                "number"_a = bad_.size(), "most"_a = skip_,
                "reason"_a = std::string(status.message()));
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<DataSource> source_;
  const uint64_t skip_;
  const Logger log_{"data"};
  mutable Mutex mu_;
  mutable std::set<uint64_t> bad_ ABSL_GUARDED_BY(mu_);  // at most skip_
  mutable std::string first_ ABSL_GUARDED_BY(mu_);       // the first error
};

}  // namespace

uint64_t BadRecordsSkipped(const nlohmann::json& options, Problems& problems) {
  uint64_t skip = 0;
  const auto at = options.find(kBadRecordsKey);
  if (at == options.end() || at->is_null()) return skip;
  JsonFields fields(*at, kBadRecordsKey, problems);
  if (at->is_object() && !at->contains("skip")) fields.Problem("skip", "is missing");
  fields.Integer("skip", 1, kBadRecordsMax, skip);
  fields.ReportUnknown();
  return skip;
}

std::unique_ptr<DataSource> MakeSkipping(std::unique_ptr<DataSource> source, uint64_t skip) {
  return std::make_unique<SkippingSource>(std::move(source), skip);
}

}  // namespace paracord
