// Prepares the next batches on a thread of its own while the current one computes. It is never
// ahead by more than `depth` batches, whose memory is reused. Owned by the trainer; Start, Next and
// the destructor are called by one thread at a time.
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
  // Fills in the records of the index-th batch since Start and returns the key of their epoch. It
  // leaves `records` empty when there are no more batches. The loader's thread calls it.
  using Sequence = std::function<uint64_t(uint64_t index, std::vector<uint64_t>& records)>;

  // The source must outlive the loader.
  BatchLoader(const DataSource& source, size_t depth);
  ~BatchLoader();

  // Drops the batches that are prepared and goes on with those of `sequence`.
  void Start(Sequence sequence);
  // The sequence, if it was over, has batches again.
  void GoOn();
  // Waits for the next batch of the sequence and returns it; it stays valid until the next call of
  // Next. Returns null if the sequence is over or was never started. An error concerns one
  // batch only: the next call returns the batch after it.
  absl::StatusOr<const Batch*> Next();
  // Waits for the batch that `ahead` further calls of Next come before, at most the depth less one.
  // It stays valid until the next call of Next or Start. Null: there is none, or it is an error.
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
  // Guarded by mu_.
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool over_ ABSL_GUARDED_BY(mu_) = true;      // the sequence has no more batches
  uint64_t run_ ABSL_GUARDED_BY(mu_) = 0;      // counts Starts
  uint64_t resumed_ ABSL_GUARDED_BY(mu_) = 0;  // counts calls of GoOn
  uint64_t index_ ABSL_GUARDED_BY(mu_) = 0;
  std::shared_ptr<const Sequence> sequence_ ABSL_GUARDED_BY(mu_);  // also in use by the thread
  std::deque<std::unique_ptr<Slot>> ready_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Slot>> free_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Slot> lent_ ABSL_GUARDED_BY(mu_);  // what the last Next returned
  std::thread thread_;
};

}  // namespace paracord
