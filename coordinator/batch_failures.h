// The `failures` policy: counts what went wrong with each batch and decides when to give it up.
// Pure; owned by the core. Nothing is classified by the text of a message.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/job.h"
#include "proto/paracord.pb.h"

namespace paracord {

// What can be said of a batch that failed.
enum class FailureKind { kData, kNonFinite, kShape, kWorkerDied };

class BatchFailures {
 public:
  explicit BatchFailures(FailuresSpec spec) : spec_(spec) {}

  enum class Verdict { kTryAgain, kReject, kFailJob };
  // `other_worker`: there is another worker that could try. A batch is given up after `per_batch`
  // failures, on two workers where there are two.
  Verdict Add(const BatchId& batch, FailureKind kind, const std::string& worker, bool other_worker);

  // Batches of the split that are to be entered without gradients, ascending.
  std::vector<uint32_t> Rejected(uint64_t epoch, uint64_t split) const;
  // How many batches of the epoch have been given up.
  uint64_t RejectedIn(uint64_t epoch) const;
  // True if a batch has been given up because of a non-finite loss or gradient.
  bool RejectedNonFinite() const { return rejected_nonfinite_; }

  // Forgets epochs before this one.
  void ForgetBefore(uint64_t epoch);

 private:
  using Key = std::tuple<uint64_t, uint64_t, uint32_t>;
  struct Count {
    uint32_t failures = 0;
    std::set<std::string> workers;
    bool rejected = false;
  };

  const FailuresSpec spec_;
  std::map<Key, Count> counts_;
  bool rejected_nonfinite_ = false;
};

}  // namespace paracord
