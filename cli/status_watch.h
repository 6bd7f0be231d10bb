// Asks a coordinator for its status: AskStatus asks once and blocks, a StatusWatch asks repeatedly
// in the background. A StatusWatch is used in one thread.
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

// Returns the status as JSON. INTERNAL: the answer is no coordinator's status (IsStatus of
// coordinator/rival.h). Other errors are those of the call. The status lists the results of epochs
// from `history_from` on, counted from 0; with kNoHistory, of no epoch.
absl::StatusOr<nlohmann::json> AskStatus(Network& network, const std::string& address,
                                         int64_t deadline_ms, uint64_t history_from = kNoHistory);

class StatusWatch {
 public:
  StatusWatch(Network& network, const std::string& address);
  // Asks for the status, unless the answer to an earlier Ask is still to come. Does not block.
  void Ask(uint64_t history_from = kNoHistory);
  // newest() is the newest status that a coordinator gave. problem() says why the last call brought
  // none; "" if it brought one. The errors are those of AskStatus.
  std::optional<nlohmann::json> newest() const;
  std::string problem() const;
  // The time since newest() came; 0 before there is one.
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
