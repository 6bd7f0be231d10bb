// The network seam: calls whose request and reply are bytes. Implemented over gRPC
// (net/grpc/network.h), by the simulator, and by a direct link for tests.
//
// A message is a list of parts. Each part is a valid protobuf message of the call's type, and the
// message is their concatenation; hence messages may exceed gRPC's limit (docs/wire.md). Receivers
// get the concatenation. Cords share bytes with their sources: a part may point into a block of
// parameters.
//
// Threads: Call, Reply and OnCancel may be called from any thread. `done`, Handle and the function
// given to OnCancel run on a network thread and must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"

namespace paracord {

using Parts = std::vector<absl::Cord>;
using ReplyFn = std::function<void(absl::StatusOr<absl::Cord>)>;

// Tells the network the destination of a reply's bytes, to receive them without a copy, and keeps
// the destination's memory alive. Used by a single thread until `done` begins, or slightly longer
// if the link's destructor cancels the call.
class ReplySink {
 public:
  struct Place {
    size_t looked = 0;   // bytes consumed by Look
    char* at = nullptr;  // destination of the following bytes
    uint64_t bytes = 0;  // size of the destination; 0: Look needs more bytes first
    bool wanted = true;  // false: further bytes stay in the network's own memory
  };
  virtual ~ReplySink() = default;
  // The connection is closed if the reply has more bytes.
  virtual uint64_t bytes_max() const = 0;
  // Examines the next bytes of the reply, cut anywhere, and returns the destination of later bytes.
  virtual Place Look(std::string_view bytes) = 0;
};

// A connection to a peer, which dials by itself and redials forever. A call waits for the
// connection until its deadline; a network may extend the deadline while bytes of the call are
// moving.
class Link {
 public:
  virtual ~Link() = default;  // unanswered calls get CANCELLED
  // Sends a request; `method` is "/paracord.Service/Name". `done` runs exactly once: with the
  // reply, with the peer's status, with UNAVAILABLE if the connection broke, or with
  // DEADLINE_EXCEEDED.
  virtual void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) = 0;
  // Calls; `sink` chooses the destination of the reply's bytes, and the reply then points there.
  // After an error, any part of the destination may have been written.
  virtual void CallInto(std::string_view method, Parts request, int64_t deadline_ms,
                        std::shared_ptr<ReplySink> sink, ReplyFn done) {
    (void)sink;  // a network may always keep the bytes itself
    Call(method, std::move(request), deadline_ms, std::move(done));
  }
  virtual const std::string& address() const = 0;
  // True if calls travel in memory mapped by both processes: the peer reads requests in place, and
  // sending a part of a request early gains nothing. Asked before a call; any thread, like the next
  // two functions.
  virtual bool shares_memory() const { return false; }
  // Asked after reading the reply to a call that was made while shares_memory() was true. False:
  // the peer may have reused the reply's memory, and the caller must discard a possibly torn reply.
  virtual bool replies_valid() const { return true; }
  // True if the link shared memory once and no longer does; dialling again may help.
  virtual bool lost_shared_memory() const { return false; }
};

// A call that arrived. Reply must be called exactly once, from any thread, at any time; a request
// that must wait is kept as data. If the last reference is dropped without a reply, the caller gets
// CANCELLED.
class ServerCall {
 public:
  virtual ~ServerCall() = default;
  virtual void Reply(absl::StatusOr<Parts> reply) = 0;
  // Declares the request's bytes unused, although the answer still waits: the network stops
  // counting them as held. At most once, before Reply.
  virtual void ReleaseRequest() {}
  // Sends a message of a streamed answer, which Reply ends; the newest message replaces a message
  // still waiting for its predecessor. False if the network has no streamed answers. Called by one
  // thread at a time.
  virtual bool Stream(absl::Cord message) {
    (void)message;
    return false;
  }
  // Runs `fn` once if the caller goes away before the reply (the process died, the call was
  // cancelled, or the deadline passed); at once if the caller has already gone.
  virtual void OnCancel(std::function<void()> fn) = 0;
  // The task in the caller's certificate, such as "worker:3"; "worker" for any worker, and "" if
  // the caller may speak for every task.
  virtual std::string_view caller() const { return ""; }
};

class Service {
 public:
  virtual ~Service() = default;
  virtual void Handle(std::string_view method, absl::Cord request,
                      std::shared_ptr<ServerCall> call) = 0;
};

// A listening address; the destructor stops listening.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::string address() const = 0;  // with the actual port if 0 was asked for
  // A numeric address, usable without a name lookup.
  virtual std::string own_address() const { return address(); }
};

class Network {
 public:
  virtual ~Network() = default;
  // Makes a link to "host:port", "[v6]:port" or "unix:/path".
  virtual std::unique_ptr<Link> Dial(const std::string& address) = 0;
  // Makes a link to the process with boot id `boot_id`, perhaps over a faster way than `address`.
  virtual std::unique_ptr<Link> DialBoot(const std::string& address, const std::string& boot_id) {
    (void)boot_id;
    return Dial(address);
  }
  // Listens; ALREADY_EXISTS if somebody else does. `service` must outlive the listener.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           Service& service) = 0;
};

}  // namespace paracord
