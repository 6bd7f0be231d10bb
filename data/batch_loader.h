// Prepares the next batches on a thread of its own while the current batch is being computed. Stays
// at most `depth` batches ahead, and reuses their memory. Owned by a reader of batches; all
// functions are called by one thread at a time.
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
  // Fills in the record numbers of the batch `index`, counted from 0 at Start, and returns the key
  // of the batch's epoch. Leaves `records` empty after the last batch. Called by the loader's
  // thread.
  using Sequence = std::function<uint64_t(uint64_t index, std::vector<uint64_t>& records)>;

  // The source must outlive the loader.
  BatchLoader(const DataSource& source, size_t depth);
  ~BatchLoader();

  // Drops the prepared batches and begins with `sequence`.
  void Start(Sequence sequence);
  // Tells the loader that an ended sequence has batches again. The loader then asks for the next
  // index, not again for the index that had no records.
  void GoOn();
  // Waits for the next batch of the sequence and returns it, valid until the next call of Next.
  // Returns null if the sequence has ended or was never started. An error concerns a single batch:
  // the next call returns the following batch.
  absl::StatusOr<const Batch*> Next();
  // Waits for the batch that Next will return after `ahead` further calls; `ahead` is less than the
  // depth. Valid until the next call of Next or Start. Null: the sequence ends before the batch, or
  // reading the batch failed.
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
  // Shared with the loader's thread, which calls the function without the lock.
  std::shared_ptr<const Sequence> sequence_ ABSL_GUARDED_BY(mu_);
  std::deque<std::unique_ptr<Slot>> ready_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Slot>> free_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Slot> lent_ ABSL_GUARDED_BY(mu_);  // what the last Next returned
  std::thread thread_;
};

}  // namespace paracord
