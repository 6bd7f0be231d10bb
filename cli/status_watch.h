// Asks a coordinator for its status again and again, in the background.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/mutex.h"
#include "common/rpc.h"
#include "nlohmann/json.hpp"

namespace paracord {

class StatusWatch {
 public:
  StatusWatch(Network& network, const std::string& address);
  // Starts a question unless one is under way.
  void Ask();
  // The newest answer, or why there is none.
  std::optional<nlohmann::json> newest() const;
  std::string problem() const;

 private:
  struct State {
    mutable Mutex mu;
    bool asking ABSL_GUARDED_BY(mu) = false;
    std::optional<nlohmann::json> newest ABSL_GUARDED_BY(mu);
    std::string problem ABSL_GUARDED_BY(mu);
  };
  const std::shared_ptr<State> state_;  // shared with the call under way
  const std::unique_ptr<Link> link_;
};

}  // namespace paracord
