// Gradients that have come before their push: a worker sends those that are final while it still
// computes others, and the exchange of the batch names them. They are kept as they came, with the
// call that brought them, which is answered when they are used; whoever gives it up (its process
// died, its deadline passed) takes all of that push back. One push a worker; what does not fit is
// refused, and then comes with the exchange. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/rpc.h"
#include "net/exchange_codec.h"

namespace paracord {

class StagedPushes : public std::enable_shared_from_this<StagedPushes> {
 public:
  // Of one push.
  struct Push {
    std::string id;
    std::vector<PieceView> pieces;
    std::vector<std::shared_ptr<ServerCall>> calls;
  };

  explicit StagedPushes(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Keeps the pieces, instead of another push of that worker. Answers the call itself:
  // RESOURCE_EXHAUSTED there is no room, INVALID_ARGUMENT.
  void Keep(DecodedRequest request, const std::shared_ptr<ServerCall>& call);
  // UNAVAILABLE: it is not all here, and has to come with the exchange.
  absl::StatusOr<Push> Take(const ExchangeRequest& header);
  // None is used any more.
  void Clear();

  uint64_t bytes() const;

 private:
  struct Kept {
    Push push;
    uint64_t bytes = 0;
  };
  void Forget(const std::string& worker, const ServerCall* call);
  Push Remove(const std::string& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t bytes_max_;
  mutable Mutex mu_;
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, Kept> kept_ ABSL_GUARDED_BY(mu_);  // by worker
};

}  // namespace paracord
