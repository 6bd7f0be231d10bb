// The server's side of an arrived request, or of a duplicate of one. Held by the service. The
// network refers to an open call by its key.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "sim/world/sim_network.h"

namespace paracord {

class SimNetwork::SimServerCall : public ServerCall {
 public:
  SimServerCall(SimNetwork& network, ServerCallKey key, const Listening& listening,
                const Message& message);
  ~SimServerCall() override;

  void Reply(absl::StatusOr<Parts> reply) override;
  void OnCancel(std::function<void()> fn) override;

  void Cancelled();
  bool cancelled() const { return cancelled_; }
  // Called after the process died. The caller must destroy the returned closure, whose captures may
  // point to objects under destruction.
  std::function<void()> Abandon() { return std::exchange(on_cancel_, nullptr); }

  SimNode& node() { return node_; }
  SimNode& client() { return client_; }
  uint64_t listening() const { return listening_; }
  uint64_t call() const { return key_.first; }
  const char* method() const { return method_; }
  int64_t deadline_us() const { return deadline_us_; }

 private:
  SimNetwork& network_;
  const ServerCallKey key_;
  SimNode& node_;
  const uint64_t listening_;
  SimNode& client_;
  const char* const method_;
  const int64_t deadline_us_;
  bool replied_ = false;
  bool cancelled_ = false;
  std::function<void()> on_cancel_;
};

}  // namespace paracord
