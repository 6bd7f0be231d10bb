// Asks a coordinator for its status: once, or again and again in the background. AskStatus blocks
// its caller; a StatusWatch is used in one thread. Neither knows what is in a status.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/rpc.h"
#include "nlohmann/json.hpp"

namespace paracord {

// As IsStatus (coordinator/rival.h) has it. DEADLINE_EXCEEDED: nobody answers there; INTERNAL: it
// is no coordinator.
absl::StatusOr<nlohmann::json> AskStatus(Network& network, const std::string& address,
                                         int64_t deadline_ms);

class StatusWatch {
 public:
  StatusWatch(Network& network, const std::string& address);
  // Starts a question unless one is under way.
  void Ask();
  // The newest answer, or why there is none.
  std::optional<nlohmann::json> newest() const;
  std::string problem() const;
  // How old the newest answer is, or 0 without one.
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
