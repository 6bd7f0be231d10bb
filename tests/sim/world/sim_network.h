// The simulated network behind common/rpc.h. A request and its reply are two messages, each with a
// delay and a fate: lost, duplicated, late, or held by a cut. A late request reaches whichever
// process listens at the address on arrival, even a restarted one. A lost or broken request fails
// at the caller with UNAVAILABLE, soon or late, but never after the deadline. Owned by the world.
//
// The network also checks that a service replies at most once, and that bytes do not change in
// flight.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "common/rpc.h"
#include "sim/world/sim_node.h"
#include "sim/world/sim_random.h"

namespace paracord {

class SimWorld;

class SimNetwork {
 public:
  explicit SimNetwork(SimWorld& world);
  ~SimNetwork();

  std::unique_ptr<Link> Dial(SimNode& node, const std::string& address);
  absl::StatusOr<std::unique_ptr<Listener>> Listen(SimNode& node, const std::string& address,
                                                   Service& service);

  // Blocks all messages from one host to the other until Heal.
  void Cut(uint32_t from, uint32_t to);
  void Heal(uint32_t from, uint32_t to);
  void HealAll();
  bool IsCut(uint32_t from, uint32_t to) const { return cuts_.contains({from, to}); }

  void NodeDied(SimNode& node, Death death);  // called by the world

  size_t open_calls() const { return calls_.size(); }
  size_t open_server_calls() const { return server_calls_.size(); }
  size_t listeners() const { return listeners_.size(); }

 private:
  class SimLink;
  class SimListener;
  class SimServerCall;

  struct Listening {
    SimNode* node;
    Service* service;
    uint64_t id;  // unique to a call of Listen
  };
  struct OpenCall {  // the caller's view of a call
    SimNode* client;
    uint64_t link;
    uint32_t server_host;  // host that listened when the request left, or kNobody
    const char* method;
    std::shared_ptr<ReplySink> sink;  // may be nullptr
    ReplyFn done;
    int64_t deadline_us;
    uint64_t deadline_event;
  };
  struct Message {
    uint64_t call;
    SimNode* from;
    const std::string* address;  // interned; of a request
    const char* method;
    int64_t deadline_us;
    uint64_t listening;  // id of the listener when the request left; 0: none
    bool waited;         // the request waited for a listener
    bool ghost;          // a duplicate
    absl::StatusOr<absl::Cord> bytes;
    uint64_t hash;
  };
  using ServerCallKey = std::pair<uint64_t, uint64_t>;  // call, copy
  static constexpr uint32_t kNobody = ~uint32_t{0};

  void StartCall(SimNode& node, uint64_t link, const std::string* address, std::string_view method,
                 Parts request, int64_t deadline_ms, std::shared_ptr<ReplySink> sink, ReplyFn done);
  void SendRequest(Message message);
  void ScheduleRequest(int64_t delay_us, Message message);
  void RequestArrives(uint64_t message_id);
  void WaitForListener(uint64_t message_id);
  void HandleRequest(Message message, const Listening& listening);
  void SendReply(SimServerCall& call, absl::StatusOr<Parts> reply);
  void ReplyArrives(uint64_t message_id, SimNode* client);
  void LinkGone(SimNode& node, uint64_t link);
  void ListenerGone(const std::string& address, uint64_t id);

  // Makes a call fail at the caller after `delay_us`.
  void FailLater(uint64_t call, int64_t delay_us, absl::Status status);
  // Makes a call fail at the caller: soon, or when a keepalive notices, but not after the deadline.
  void FailSoonOrLate(uint64_t call, const char* why);
  void Finish(uint64_t call, absl::StatusOr<absl::Cord> result);
  // Tells servers that still hold the call that the caller is gone.
  void CancelLater(uint64_t call, bool late);
  void CancelNow(ServerCallKey key);
  void BreakAcross(uint32_t a, uint32_t b);

  int64_t Delay();
  bool DrawLate(int64_t& delay_us);
  int64_t NoticeDelay(bool late);
  absl::Cord Received(const absl::Cord& bytes);
  // Returns the first `end` bytes of a reply. The caller's sink receives some of the bytes.
  absl::Cord Landed(uint64_t call, const absl::Cord& bytes, size_t end);
  void LandTorn(uint64_t call, const absl::Cord& bytes);

  SimWorld& world_;
  SimRandom chance_;
  SimRandom sink_chance_;
  uint64_t last_id_ = 0;
  std::map<std::string, Listening> listeners_;
  absl::btree_map<uint64_t, OpenCall> calls_;
  absl::btree_map<ServerCallKey, SimServerCall*> server_calls_;
  absl::btree_map<uint64_t, Message> messages_;  // in flight, held or waiting
  std::map<std::string, std::vector<uint64_t>> waiting_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::function<void()>>> held_;
  std::set<std::pair<uint32_t, uint32_t>> cuts_;
  std::set<std::string> addresses_;
};

}  // namespace paracord
