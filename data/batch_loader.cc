#include "data/batch_loader.h"

#include <algorithm>
#include <utility>

#include "common/trace.h"

namespace paracord {

BatchLoader::BatchLoader(const DataSource& source, size_t depth) : source_(source) {
  for (size_t i = 0; i < std::max<size_t>(depth, 1); ++i) free_.push_back(std::make_unique<Slot>());
  lent_ = std::make_unique<Slot>();
  thread_ = std::thread([this] { Loop(); });
}

BatchLoader::~BatchLoader() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BatchLoader::Start(Sequence sequence) {
  {
    MutexLock lock(mu_);
    ++run_;
    index_ = 0;
    over_ = false;
    sequence_ = std::make_shared<const Sequence>(std::move(sequence));
    for (auto& slot : ready_) free_.push_back(std::move(slot));
    ready_.clear();
  }
  changed_.notify_all();
}

void BatchLoader::GoOn() {
  {
    MutexLock lock(mu_);
    ++resumed_;
    over_ = false;
  }
  changed_.notify_all();
}

absl::StatusOr<const Batch*> BatchLoader::Next() {
  std::unique_lock lock(mu_.native());
  return [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<const Batch*> {
    changed_.wait(lock, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return over_ || !ready_.empty(); });
    if (ready_.empty()) return nullptr;
    free_.push_back(std::move(lent_));
    lent_ = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    if (!lent_->status.ok()) return lent_->status;
    return &lent_->batch;
  }();
}

const Batch* BatchLoader::Peek(size_t ahead) {
  std::unique_lock lock(mu_.native());
  return [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> const Batch* {
    changed_.wait(lock,
                  [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return over_ || ready_.size() > ahead; });
    if (ready_.size() <= ahead || !ready_[ahead]->status.ok()) return nullptr;
    return &ready_[ahead]->batch;
  }();
}

void BatchLoader::Loop() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock lock(mu_.native());
  std::vector<uint64_t> records;
  while (true) {
    changed_.wait(lock, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return stopping_ || (!over_ && !free_.empty());
    });
    if (stopping_) return;
    const auto sequence = sequence_;
    const uint64_t run = run_, resumed = resumed_, index = index_++;
    std::unique_ptr<Slot> slot = std::move(free_.back());
    free_.pop_back();

    lock.unlock();
    records.clear();
    const uint64_t epoch_key = (*sequence)(index, records);
    if (!records.empty()) {
      const TraceSpan span("data");
      slot->status = source_.ReadForTraining(records, epoch_key, slot->batch);
    }
    lock.lock();

    const bool wanted = run == run_ && !records.empty();
    if (run == run_ && resumed == resumed_ && records.empty()) over_ = true;
    if (wanted) {
      ready_.push_back(std::move(slot));
    } else {
      free_.push_back(std::move(slot));
    }
    changed_.notify_all();
  }
}

}  // namespace paracord
