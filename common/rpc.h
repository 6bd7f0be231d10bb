// The network seam: calls whose request and reply are bytes. It is implemented over gRPC
// (net/grpc/network.h), by the simulator, and by a direct link for tests.
//
// A message is a list of parts. Each part is a valid protobuf message of the call's type, and the
// message is their concatenation; so messages may exceed gRPC's limit (docs/wire.md). Receivers
// get the concatenation. Cords share bytes with their sources, so that a part may point into a
// block of parameters.
//
// Threads: Call, Reply and OnCancel may be called from any thread. `done`, Handle and the function
// given to OnCancel run on a thread of the network's and must not block.
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

// Tells the network where bytes of a reply belong, so that they are received there and need not be
// copied. It keeps that memory alive. Used by one thread until `done` begins, or slightly longer if
// the link's end cancels the call.
class Landing {
 public:
  struct Place {
    size_t looked = 0;   // bytes that Look consumed
    char* at = nullptr;  // where the bytes that follow go
    uint64_t bytes = 0;  // how many of them; 0: Look needs more bytes first
    bool wanted = true;  // false: all further bytes stay where the network has them
  };
  virtual ~Landing() = default;
  // The connection is closed if the reply has more bytes.
  virtual uint64_t bytes_max() const = 0;
  // Looks at the next bytes of the reply, which may be cut anywhere, and says where later ones go.
  virtual Place Look(std::string_view bytes) = 0;
};

// A connection to one peer. It connects by itself, and reconnects forever. A call waits for the
// connection until its deadline, which a network may extend while bytes of the call are
// transferred.
class Link {
 public:
  virtual ~Link() = default;  // calls that are not answered get CANCELLED
  // Sends a request; `method` is "/paracord.Service/Name". `done` runs exactly once: with the
  // reply, with the peer's status, with UNAVAILABLE if the connection broke, or with
  // DEADLINE_EXCEEDED.
  virtual void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) = 0;
  // Calls, and lets `landing` choose where bytes of the reply go; the reply then points there.
  // After an error, any part of that memory may have been written.
  virtual void CallInto(std::string_view method, Parts request, int64_t deadline_ms,
                        std::shared_ptr<Landing> landing, ReplyFn done) {
    (void)landing;  // a network may always keep the bytes itself
    Call(method, std::move(request), deadline_ms, std::move(done));
  }
  virtual const std::string& address() const = 0;
  // True if calls travel in memory that both processes map: the peer reads requests in place, so
  // that sending a part of a request early gains nothing. Asked before a call; on any thread, as
  // the two below.
  virtual bool shares_memory() const { return false; }
  // Asked after a reply to a call has been read that was made while shares_memory() was true. False
  // means that the peer may have reused the memory of its replies, so that what was read may be
  // torn and must be discarded.
  virtual bool replies_valid() const { return true; }
  // True if the link shared memory once and no longer does, so that dialling again may help.
  virtual bool lost_shared_memory() const { return false; }
};

// A call that arrived. Reply must be called exactly once, from any thread, at any time; a request
// that must wait is kept as data. If the last reference is dropped without a reply, the caller gets
// CANCELLED.
class ServerCall {
 public:
  virtual ~ServerCall() = default;
  virtual void Reply(absl::StatusOr<Parts> reply) = 0;
  // Says that nobody looks at the request's bytes any more, although the answer waits: the network
  // does not count them as held from now on. Before Reply, once.
  virtual void ReleaseRequest() {}
  // Sends one of many messages of a call whose answer is a stream, which Reply ends; the newest
  // replaces one that still waits for the message before it. False if the network has no such
  // calls. Called by one thread at a time.
  virtual bool Stream(absl::Cord message) {
    (void)message;
    return false;
  }
  // `fn` runs once if the caller went away before the reply (its process died, it cancelled, or its
  // deadline passed); at once if it already has.
  virtual void OnCancel(std::function<void()> fn) = 0;
  // The task that the caller's certificate names, such as "worker:3"; "worker" for any worker, and
  // "" if the caller may speak for every task.
  virtual std::string_view caller() const { return ""; }
};

class Service {
 public:
  virtual ~Service() = default;
  virtual void Handle(std::string_view method, absl::Cord request,
                      std::shared_ptr<ServerCall> call) = 0;
};

// A listening address; it stops listening when it is destroyed.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::string address() const = 0;  // with the actual port if 0 was asked for
  // The address without a name that would have to be resolved.
  virtual std::string own_address() const { return address(); }
};

class Network {
 public:
  virtual ~Network() = default;
  // Makes a link to "host:port", "[v6]:port" or "unix:/path".
  virtual std::unique_ptr<Link> Dial(const std::string& address) = 0;
  // Makes a link to the process that calls itself `boot_id`; there may be a shorter way to it.
  virtual std::unique_ptr<Link> DialBoot(const std::string& address, const std::string& boot_id) {
    (void)boot_id;
    return Dial(address);
  }
  // Listens; ALREADY_EXISTS if somebody else does. `service` must outlive the listener.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           Service& service) = 0;
};

}  // namespace paracord
