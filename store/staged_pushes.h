// Gradients that arrive before their push: a worker sends finished gradients while it computes the
// others, and the exchange of the batch refers to them. They are kept, for one push of each worker,
// until the exchange, another push of the worker, a new generation, or half a minute after the last
// gradient. If there is no room, they are refused, and the worker sends them with the exchange.
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/memory_budget.h"
#include "common/mutex.h"
#include "exchange/codec.h"

namespace paracord {

class StagedPushes {
 public:
  explicit StagedPushes(uint64_t bytes_max)
      : StagedPushes(std::make_shared<MemoryShare>(bytes_max)) {}
  // The bytes are reserved in `share`.
  explicit StagedPushes(std::shared_ptr<MemoryShare> share) : share_(std::move(share)) {}

  // Keeps the pieces of a message, which has `message_bytes` bytes in all. Drops the pieces of
  // another push of the same worker. RESOURCE_EXHAUSTED: there is no room, and the message's pieces
  // are not kept. INVALID_ARGUMENT: the message is malformed.
  absl::Status Keep(DecodedRequest request, uint64_t message_bytes, int64_t now_ms);
  // Removes the push that `header` names, and returns its pieces. NOT_FOUND: some are missing, and
  // the exchange has to carry all of them. INVALID_ARGUMENT: the header names no push.
  absl::StatusOr<std::vector<PieceView>> Take(const ExchangeRequest& header);
  void Clear();
  // Drops the pushes of which nothing has come for kForgottenMs. Returns whether any are left.
  bool Forget(int64_t now_ms);
  static constexpr int64_t kForgottenMs = 30000;

  uint64_t bytes() const;  // pieces and bookkeeping

 private:
  struct Push {
    std::string id;
    uint32_t calls = 0;  // messages with pieces
    std::vector<PieceView> pieces;
    uint64_t bytes = 0;
    int64_t kept_ms = 0;  // when the last message came
  };
  using Pushes = std::map<std::string, Push>;
  Push Remove(Pushes::iterator push) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<MemoryShare> share_;
  mutable Mutex mu_;
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  Pushes pushes_ ABSL_GUARDED_BY(mu_);  // key: name of the worker
};

}  // namespace paracord
