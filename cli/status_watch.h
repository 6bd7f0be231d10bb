// Asks a coordinator for its status: once, or repeatedly in the background. AskStatus blocks the
// caller; a StatusWatch is used in one thread. Neither parses the status.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/rpc.h"
#include "nlohmann/json.hpp"
#include "proto/protocol.h"

namespace paracord {

// Returns an answer that IsStatus (coordinator/rival.h) accepts. DEADLINE_EXCEEDED: nobody answers
// at the address; INTERNAL: whoever answers is no coordinator. The history begins with epoch
// `history_from`, which is counted from 0.
absl::StatusOr<nlohmann::json> AskStatus(Network& network, const std::string& address,
                                         int64_t deadline_ms, uint64_t history_from = kNoHistory);

class StatusWatch {
 public:
  StatusWatch(Network& network, const std::string& address);
  // Asks for the status, unless an answer is still awaited. Does not block.
  void Ask(uint64_t history_from = kNoHistory);
  // newest() is the newest answer; problem() says why there is no newer one, "" if the last call
  // succeeded.
  std::optional<nlohmann::json> newest() const;
  std::string problem() const;
  // The age of the newest answer, or 0 without one.
  int64_t age_ms() const;

 private:
  struct State {
    mutable Mutex mu;
    bool asking ABSL_GUARDED_BY(mu) = false;
    std::optional<nlohmann::json> newest ABSL_GUARDED_BY(mu);
    int64_t newest_ms ABSL_GUARDED_BY(mu) = 0;
    std::string problem ABSL_GUARDED_BY(mu);
  };
  const std::shared_ptr<State> state_;  // shared with the call under way
  const std::unique_ptr<Link> link_;
};

}  // namespace paracord
