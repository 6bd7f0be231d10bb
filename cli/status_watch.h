// Asks a coordinator for its status: once, or repeatedly in the background. AskStatus blocks the
// caller; a StatusWatch is used in one thread.
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

// Returns the status as JSON, if IsStatus (coordinator/rival.h) accepts it; INTERNAL: the answer is
// not a coordinator's. Other errors are those of the call, such as DEADLINE_EXCEEDED if nobody
// answers. The status lists the results of epochs from `history_from` on, counted from 0;
// kNoHistory: of none.
absl::StatusOr<nlohmann::json> AskStatus(Network& network, const std::string& address,
                                         int64_t deadline_ms, uint64_t history_from = kNoHistory);

class StatusWatch {
 public:
  StatusWatch(Network& network, const std::string& address);
  // Asks for the status, unless the answer to an earlier Ask is still awaited. Does not block.
  void Ask(uint64_t history_from = kNoHistory);
  // newest() is the newest answer that is JSON; problem() says why the last call failed, "" if it
  // succeeded. An answer that is no JSON changes neither of the two.
  std::optional<nlohmann::json> newest() const;
  std::string problem() const;
  // The time since the newest answer came; 0 without an answer.
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
