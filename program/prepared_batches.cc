#include "program/prepared_batches.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "data/batch_loader.h"
#include "data/batch_plan.h"

namespace paracord {
namespace {

// The queue of batches to prepare: the executor adds, the loader's thread takes.
class ToPrepare {
 public:
  void Add(const BatchId& id) {
    MutexLock lock(mu_);
    ids_.push_back(id);
  }
  std::optional<BatchId> Take() {
    MutexLock lock(mu_);
    if (ids_.empty()) return std::nullopt;
    const BatchId id = ids_.front();
    ids_.pop_front();
    return id;
  }

 private:
  Mutex mu_;
  std::deque<BatchId> ids_ ABSL_GUARDED_BY(mu_);
};

// Reads the announced batches ahead, as long as they arrive in the announced order.
class PreparedBatches : public BatchFeed {
 public:
  PreparedBatches(std::unique_ptr<DataSource> source, size_t depth)
      : source_(std::move(source)), depth_(depth), loader_(*source_, depth) {}

  void Start(const DataPlan& plan) override {
    plan_ = plan;
    ahead_.clear();
  }

  absl::StatusOr<const Batch*> Get(const BatchId& id, std::span<const BatchId> upcoming) override {
    // A batch without records would tell the loader to stop.
    if (!Has(id)) return Lacks(id);
    upcoming = upcoming.first(std::min(upcoming.size(), depth_));
    const auto lacking =
        std::ranges::find_if(upcoming, [this](const BatchId& next) { return !Has(next); });
    upcoming = upcoming.first(static_cast<size_t>(lacking - upcoming.begin()));
    if (ahead_.empty() || !SameBatch(ahead_.front(), id)) {
      Restart();
      Prepare(id);
      for (const BatchId& next : upcoming) Prepare(next);
    }
    ahead_.pop_front();
    ASSIGN_OR_RETURN(const Batch* const batch, loader_.Next());
    if (batch == nullptr) return Lacks(id);
    const auto known = upcoming.first(std::min(ahead_.size(), upcoming.size()));
    if (!std::equal(known.begin(), known.end(), ahead_.begin(), SameBatch)) {
      Restart();
    }
    for (size_t i = ahead_.size(); i < upcoming.size(); ++i) Prepare(upcoming[i]);
    return batch;
  }

  const Batch* Peek(const BatchId& id) override {
    for (size_t i = 0; i < ahead_.size(); ++i) {
      if (SameBatch(ahead_[i], id)) return loader_.Peek(i);
    }
    return nullptr;
  }

 private:
  bool Has(const BatchId& id) const { return BatchExamples(plan_, id.split(), id.batch()) > 0; }
  static absl::Status Lacks(const BatchId& id) {
    return absl::OutOfRangeError(
        absl::StrCat("the data plan has no batch ", id.batch(), " in split ", id.split()));
  }
  void Restart() {
    ahead_.clear();
    to_prepare_ = std::make_shared<ToPrepare>();
    loader_.Start([plan = plan_, next = to_prepare_](uint64_t, std::vector<uint64_t>& records) {
      const std::optional<BatchId> id = next->Take();
      if (!id.has_value()) return uint64_t{0};
      BatchRecords(plan, *id, records);
      return EpochKey(plan, *id);
    });
  }
  void Prepare(const BatchId& id) {
    ahead_.push_back(id);
    to_prepare_->Add(id);
    loader_.GoOn();
  }

  const std::unique_ptr<DataSource> source_;
  const size_t depth_;
  BatchLoader loader_;
  DataPlan plan_;
  std::deque<BatchId> ahead_;  // prepared or queued at the loader, in order
  std::shared_ptr<ToPrepare> to_prepare_;
};

}  // namespace

std::unique_ptr<BatchFeed> MakePreparedBatches(std::unique_ptr<DataSource> source, size_t depth) {
  return std::make_unique<PreparedBatches>(std::move(source), depth);
}

}  // namespace paracord
