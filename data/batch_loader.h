// Prepares the next batches on a thread of its own while the owner computes with the current batch.
// Prepares at most `depth` batches in advance, and reuses their memory. Used by one thread at a
// time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "data/data_source.h"

namespace paracord {

class BatchLoader {
 public:
  // Fills `records` with the record numbers of a batch, and returns the key of the batch's epoch.
  // `index` counts the calls from 0 since Start. Leaves `records` empty if there are no more
  // batches. The loader's own thread calls the function.
  using Sequence = std::function<uint64_t(uint64_t index, std::vector<uint64_t>& records)>;

  // The source must outlive the loader.
  BatchLoader(const DataSource& source, size_t depth);
  ~BatchLoader();

  // Drops the prepared batches, and begins with the first batch of `sequence`.
  void Start(Sequence sequence);
  // Says that the sequence, which had no more batches, has more now. The loader goes on with the
  // next index: it does not ask again for the index for which `records` stayed empty.
  void GoOn();
  // Waits for the next batch of the sequence and returns it. The batch is valid until the next call
  // of Next. Returns null if the sequence has no more batches or was never started. An error
  // concerns a single batch: the next call returns the batch after it.
  absl::StatusOr<const Batch*> Next();
  // Waits for the batch that Next will return after `ahead` more calls, where `ahead` is less than
  // the depth. The batch is valid until the next call of Next or Start. Returns null if the
  // sequence ends before the batch, or if the batch could not be read.
  const Batch* Peek(size_t ahead);

 private:
  struct Slot {
    Batch batch;
    absl::Status status;
  };
  void Loop();

  const DataSource& source_;
  Mutex mu_;
  std::condition_variable changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool over_ ABSL_GUARDED_BY(mu_) = true;      // the sequence has no more batches
  uint64_t run_ ABSL_GUARDED_BY(mu_) = 0;      // counts calls of Start
  uint64_t resumed_ ABSL_GUARDED_BY(mu_) = 0;  // counts calls of GoOn
  uint64_t index_ ABSL_GUARDED_BY(mu_) = 0;
  // Shared with the loader's thread, which calls the function without holding the lock.
  std::shared_ptr<const Sequence> sequence_ ABSL_GUARDED_BY(mu_);
  std::deque<std::unique_ptr<Slot>> ready_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Slot>> free_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Slot> lent_ ABSL_GUARDED_BY(mu_);  // what the last Next returned
  std::thread thread_;
};

}  // namespace paracord
