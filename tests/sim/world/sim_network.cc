// The part of SimNetwork that transfers requests and replies. sim_breaks.cc breaks calls.
#include "sim/world/sim_network.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "net/arriving_body.h"
#include "sim/world/sim_server_call.h"
#include "sim/world/sim_world.h"

namespace paracord {
namespace {

absl::Cord Join(Parts parts) {
  absl::Cord whole;
  for (absl::Cord& part : parts) whole.Append(std::move(part));
  return whole;
}

constexpr int64_t kMs = 1000;

}  // namespace

class SimNetwork::SimLink : public Link {
 public:
  SimLink(SimNetwork& network, SimNode& node, uint64_t id, const std::string* address)
      : network_(network), node_(node), id_(id), address_(address) {}
  ~SimLink() override { network_.LinkGone(node_, id_); }

  void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) override {
    CallInto(method, std::move(request), deadline_ms, nullptr, std::move(done));
  }
  void CallInto(std::string_view method, Parts request, int64_t deadline_ms,
                std::shared_ptr<ReplySink> sink, ReplyFn done) override {
    network_.StartCall(node_, id_, address_, method, std::move(request), deadline_ms,
                       std::move(sink), std::move(done));
  }
  const std::string& address() const override { return *address_; }

 private:
  SimNetwork& network_;
  SimNode& node_;
  const uint64_t id_;
  const std::string* const address_;
};

class SimNetwork::SimListener : public Listener {
 public:
  SimListener(SimNetwork& network, std::string address, uint64_t id)
      : network_(network), address_(std::move(address)), id_(id) {}
  ~SimListener() override { network_.ListenerGone(address_, id_); }
  std::string address() const override { return address_; }

 private:
  SimNetwork& network_;
  const std::string address_;
  const uint64_t id_;
};

SimNetwork::SimNetwork(SimWorld& world)
    : world_(world), chance_(world.Fork(1)), sink_chance_(world.Fork(9)) {}
SimNetwork::~SimNetwork() = default;

std::unique_ptr<Link> SimNetwork::Dial(SimNode& node, const std::string& address) {
  return std::make_unique<SimLink>(*this, node, ++last_id_, &*addresses_.insert(address).first);
}

absl::StatusOr<std::unique_ptr<Listener>> SimNetwork::Listen(SimNode& node,
                                                             const std::string& address,
                                                             Service& service) {
  if (!node.live()) return absl::CancelledError("the process is dead");
  const uint64_t id = ++last_id_;
  const auto [it, fresh] = listeners_.try_emplace(address, Listening{&node, &service, id});
  if (!fresh) return absl::AlreadyExistsError(absl::StrCat("somebody listens at ", address));
  // Callers that wait for a listener retry after a delay.
  const auto waiting = waiting_.extract(address);
  if (!waiting.empty()) {
    for (const uint64_t message : waiting.mapped()) {
      world_.After(chance_.Between(1, 300) * kMs, nullptr, EventKind::kRequest, "reconnect",
                   message, [this, message] { RequestArrives(message); });
    }
  }
  return std::make_unique<SimListener>(*this, address, id);
}

int64_t SimNetwork::Delay() {
  return chance_.Between(world_.swarm().delay_us_min, world_.swarm().delay_us_max);
}

bool SimNetwork::DrawLate(int64_t& delay_us) {
  if (chance_.Chance(world_.swarm().late)) {
    PROBE("sim.late");
    delay_us += chance_.Between(150, 1500) * kMs;
    return true;
  }
  if (chance_.Chance(world_.swarm().very_late)) {
    PROBE("sim.very_late");
    delay_us += chance_.Between(1500, 30000) * kMs;
    return true;
  }
  return false;
}

int64_t SimNetwork::NoticeDelay(bool late) {
  return late ? chance_.Between(500, 15000) * kMs : chance_.Between(100, 10 * kMs);
}

// Returns the bytes as the receiver sees them: not shared with the sender, cut into random chunks.
absl::Cord SimNetwork::Received(const absl::Cord& bytes) {
  std::string whole(bytes);
  if (whole.size() < 2 || !chance_.Chance(world_.swarm().fragment)) {
    return absl::Cord(std::move(whole));
  }
  PROBE("sim.fragment");
  absl::Cord cord;
  size_t begin = 0;
  while (begin < whole.size()) {
    const auto left = static_cast<int64_t>(whole.size() - begin);
    const size_t size = static_cast<size_t>(chance_.Between(1, std::max<int64_t>(1, left)));
    auto* chunk = new std::string(whole.substr(begin, size));
    cord.Append(absl::MakeCordFromExternal(*chunk, [chunk] { delete chunk; }));
    begin += size;
  }
  return cord;
}

absl::Cord SimNetwork::Landed(uint64_t call, const absl::Cord& bytes, size_t end) {
  const auto it = calls_.find(call);
  if (it == calls_.end() || it->second.sink == nullptr) return bytes;
  PROBE("sim.land");
  const std::string whole(bytes);
  ArrivingBody body(whole.size(), /*wanted=*/true, it->second.sink);
  for (size_t at = 0; at < end;) {
    const auto left = static_cast<int64_t>(end - at);
    const auto size = static_cast<size_t>(sink_chance_.Between(1, left));
    const std::string_view next = std::string_view(whole).substr(at, size);
    at += body.Take({next.data(), next.size()});
  }
  return body.TakeBytes();
}

// Delivers a random part of a lost reply into the caller's sink.
void SimNetwork::LandTorn(uint64_t call, const absl::Cord& bytes) {
  const auto it = calls_.find(call);
  if (bytes.empty() || it == calls_.end() || it->second.sink == nullptr) return;
  PROBE("sim.land_torn");
  const auto last = static_cast<int64_t>(bytes.size()) - 1;
  Landed(call, bytes, static_cast<size_t>(sink_chance_.Between(0, last)));
}

void SimNetwork::StartCall(SimNode& node, uint64_t link, const std::string* address,
                           std::string_view method, Parts request, int64_t deadline_ms,
                           std::shared_ptr<ReplySink> sink, ReplyFn done) {
  const SimNode::Go go = node.Operation();
  if (go == SimNode::Go::kDead) return;
  if (go == SimNode::Go::kDyingHere && chance_.Chance(0.5)) return;  // else the message leaves
  const uint64_t id = ++last_id_;
  const int64_t deadline_us = world_.now_us() + std::max<int64_t>(deadline_ms, 0) * kMs;
  const char* const name = world_.Intern(method);
  const auto listening = listeners_.find(*address);
  const bool found = listening != listeners_.end();
  const uint32_t host = found ? listening->second.node->host() : kNobody;
  OpenCall call{&node, link, host, name, std::move(sink), std::move(done), deadline_us, 0};
  call.deadline_event =
      world_.At(deadline_us, &node, EventKind::kFailure, "deadline", id, [this, id, name] {
        PROBE("sim.deadline");
        CancelLater(id, false);
        Finish(id, absl::DeadlineExceededError(absl::StrCat("deadline of ", name)));
      });
  calls_.emplace(id, std::move(call));
  absl::Cord bytes = Join(std::move(request));
  const uint64_t hash = HashCord(bytes);
  SendRequest({id, &node, address, name, deadline_us, found ? listening->second.id : 0, false,
               false, std::move(bytes), hash});
}

void SimNetwork::SendRequest(Message message) {
  const Swarm& swarm = world_.swarm();
  if (chance_.Chance(swarm.lose)) {
    PROBE("sim.lose_request");
    FailSoonOrLate(message.call, "request lost");
    return;
  }
  if (chance_.Chance(swarm.duplicate)) {
    PROBE("sim.duplicate");
    int64_t delay_us = Delay();
    DrawLate(delay_us);
    Message copy = message;
    copy.ghost = true;
    ScheduleRequest(delay_us, std::move(copy));
  }
  if (chance_.Chance(swarm.break_link)) {
    PROBE("sim.break_link");
    FailLater(message.call, Delay(), absl::UnavailableError("connection broken"));
  }
  int64_t delay_us = Delay();
  DrawLate(delay_us);
  ScheduleRequest(delay_us, std::move(message));
}

void SimNetwork::ScheduleRequest(int64_t delay_us, Message message) {
  const uint64_t id = ++last_id_;
  const uint64_t hash = message.hash;
  const char* const method = message.method;
  messages_.emplace(id, std::move(message));
  world_.After(delay_us, nullptr, EventKind::kRequest, method, hash,
               [this, id] { RequestArrives(id); });
}

void SimNetwork::RequestArrives(uint64_t message_id) {
  const auto it = messages_.find(message_id);
  if (it == messages_.end()) return;
  Message& message = it->second;
  const auto found = listeners_.find(*message.address);
  if (found == listeners_.end()) return WaitForListener(message_id);
  const Listening listening = found->second;
  if (message.waited && !calls_.contains(message.call)) {
    messages_.erase(it);  // the caller gave up before a connection existed
    return;
  }
  const std::pair<uint32_t, uint32_t> way{message.from->host(), listening.node->host()};
  if (cuts_.contains(way)) {
    if (chance_.Chance(0.5)) {
      PROBE("sim.cut_holds_request");
      held_[way].push_back([this, message_id] { RequestArrives(message_id); });
    } else {
      PROBE("sim.cut_loses_request");
      FailSoonOrLate(message.call, "cut off");
      messages_.erase(it);
    }
    return;
  }
  if (message.listening != 0 && message.listening != listening.id) {
    if (chance_.Chance(0.5)) {
      PROBE("sim.request_breaks_at_restart");
      FailSoonOrLate(message.call, "connection broken");
      messages_.erase(it);
      return;
    }
    PROBE("sim.request_reaches_later_life");
  }
  Message arrived = std::move(message);
  messages_.erase(it);
  HandleRequest(std::move(arrived), listening);
}

void SimNetwork::WaitForListener(uint64_t message_id) {
  Message& message = messages_.at(message_id);
  // A request sent to a dead process finds its connection reset. An unsent request waits.
  const double refuse = message.listening != 0 ? 0.5 : 0.1;
  if (chance_.Chance(refuse) || !calls_.contains(message.call)) {
    PROBE("sim.nobody_listens");
    FailLater(message.call, NoticeDelay(false), absl::UnavailableError("nobody listens"));
    messages_.erase(message_id);
    return;
  }
  PROBE("sim.wait_for_listener");
  message.waited = true;
  message.listening = 0;
  waiting_[*message.address].push_back(message_id);
}

void SimNetwork::HandleRequest(Message message, const Listening& listening) {
  if (HashCord(*message.bytes) != message.hash) {
    world_.Violation(absl::StrCat("bytes of ", message.method, " changed after they were sent"));
  }
  const ServerCallKey key{message.call, ++last_id_};
  const auto call = std::make_shared<SimServerCall>(*this, key, listening, message);
  if (!calls_.contains(message.call)) {
    PROBE("sim.request_after_its_call");
    call->Cancelled();
  }
  if (message.ghost) {  // the duplicate's connection was given up, and breaks later
    world_.After(NoticeDelay(true), listening.node, EventKind::kCancel, message.method, key.first,
                 [this, key] { CancelNow(key); });
  }
  world_.RunOn(*listening.node, EventKind::kHandle, message.method, message.hash,
               [this, listening, call, method = message.method, bytes = Received(*message.bytes)] {
                 const auto& all = listeners_;
                 const bool listens = std::any_of(all.begin(), all.end(), [&](const auto& entry) {
                   return entry.second.id == listening.id;
                 });
                 if (listens) listening.service->Handle(method, bytes, call);
               });
}

void SimNetwork::SendReply(SimServerCall& server, absl::StatusOr<Parts> reply) {
  if (server.cancelled()) return;  // the caller has given up
  const SimNode::Go go = server.node().Operation();
  if (go == SimNode::Go::kDead) return;
  if (go == SimNode::Go::kDyingHere && chance_.Chance(0.5)) return;
  SimNode* const client = &server.client();
  if (!client->live()) return;
  absl::StatusOr<absl::Cord> bytes = absl::Cord();
  if (reply.ok()) {
    bytes = Join(*std::move(reply));
  } else {
    bytes = reply.status();
  }
  if (chance_.Chance(world_.swarm().lose)) {
    PROBE("sim.lose_reply");
    if (bytes.ok()) LandTorn(server.call(), *bytes);
    FailSoonOrLate(server.call(), "reply lost");
    return;
  }
  int64_t delay_us = Delay();
  DrawLate(delay_us);
  const uint64_t hash =
      bytes.ok() ? HashCord(*bytes) : static_cast<uint64_t>(bytes.status().code());
  const uint64_t id = ++last_id_;
  messages_.emplace(id, Message{server.call(), &server.node(), nullptr, server.method(),
                                server.deadline_us(), 0, false, false, std::move(bytes), hash});
  world_.After(delay_us, client, EventKind::kReply, server.method(), hash,
               [this, id, client] { ReplyArrives(id, client); });
}

void SimNetwork::ReplyArrives(uint64_t message_id, SimNode* client) {
  const auto it = messages_.find(message_id);
  if (it == messages_.end()) return;
  Message& message = it->second;
  const std::pair<uint32_t, uint32_t> way{message.from->host(), client->host()};
  if (cuts_.contains(way)) {
    if (chance_.Chance(0.5)) {
      PROBE("sim.cut_holds_reply");
      held_[way].push_back([this, message_id, client] {
        world_.RunOn(*client, EventKind::kReply, "held", message_id,
                     [this, message_id, client] { ReplyArrives(message_id, client); });
      });
    } else {
      PROBE("sim.cut_loses_reply");
      if (message.bytes.ok()) LandTorn(message.call, *message.bytes);
      FailSoonOrLate(message.call, "cut off");
      messages_.erase(it);
    }
    return;
  }
  Message arrived = std::move(message);
  messages_.erase(it);
  if (!arrived.bytes.ok()) return Finish(arrived.call, arrived.bytes.status());
  if (HashCord(*arrived.bytes) != arrived.hash) {
    world_.Violation(absl::StrCat("bytes of a reply to ", arrived.method, " changed"));
  }
  CancelLater(arrived.call, false);  // cancels a duplicate that the service has not answered yet
  Finish(arrived.call, Landed(arrived.call, Received(*arrived.bytes), arrived.bytes->size()));
}

}  // namespace paracord
