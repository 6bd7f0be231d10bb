// The network seam: calls with a request and a reply made of bytes. gRPC implements it
// (net/grpc/network.h), so does the simulator, and so does a direct link for tests.
//
// A message is a list of parts. Each part is a valid protobuf message of the call's type, and the
// parts one after another are the whole message: that is how a message larger than gRPC likes
// travels (proto/README.md). Receivers get the concatenation. Cords share bytes with what they were
// made from, so a part may point straight into a block of parameters.
//
// Threads: Call, Reply and OnCancel may be used from any thread. `done`, Handle and the function
// given to OnCancel run on a thread of the network's and must not wait.
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

// Where the caller has bytes of a reply received, as far as it knows where they belong, so that
// they need not be copied there. It keeps alive what it points to. Used by one thread, until `done`
// begins, or a moment longer where the end of the link cancels the call.
class Landing {
 public:
  struct Place {
    size_t looked = 0;   // bytes that it took a look at
    char* at = nullptr;  // where those that follow go
    uint64_t bytes = 0;  // how many of them; 0: it has to look at more first
    bool wanted = true;  // false: from here on all stays where the network has it
  };
  virtual ~Landing() = default;
  // A reply of more bytes breaks the connection.
  virtual uint64_t bytes_max() const = 0;
  // The next bytes of the reply, which may be cut anywhere.
  virtual Place Look(std::string_view bytes) = 0;
};

// One peer. It connects by itself and reconnects for ever; a call waits for the connection until
// its deadline, which a network may move on while bytes of the call do.
class Link {
 public:
  virtual ~Link() = default;  // calls not yet answered get CANCELLED
  // `method` is "/paracord.Service/Name". `done` runs exactly once: with the reply, with the peer's
  // status, UNAVAILABLE when the connection broke, or DEADLINE_EXCEEDED.
  virtual void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) = 0;
  // The same. What `landing` took of the reply lies there, and the reply points to it; after an
  // error, any part of what it would have taken may.
  virtual void CallInto(std::string_view method, Parts request, int64_t deadline_ms,
                        std::shared_ptr<Landing> landing, ReplyFn done) {
    (void)landing;  // bytes may always stay where the network has them
    Call(method, std::move(request), deadline_ms, std::move(done));
  }
  virtual const std::string& address() const = 0;
  // The peer, on this host, reads a request where it lies: sending part of it earlier gains
  // nothing.
  virtual bool maps() const { return false; }
  // Asked once a reply was read that was called for while maps(): false if the peer may have used
  // the memory that it was in for something else meanwhile, so that what was read counts for
  // nothing.
  virtual bool intact() const { return true; }
  // It mapped once, and no longer does: to dial again may be better.
  virtual bool fell_back() const { return false; }
};

// One call that arrived. Reply must be called exactly once, from any thread, at any time: a
// request that has to wait is kept as data. Dropping the last reference unanswered replies
// CANCELLED.
class ServerCall {
 public:
  virtual ~ServerCall() = default;
  virtual void Reply(absl::StatusOr<Parts> reply) = 0;
  // `fn` runs once if the caller went away (its process died, it cancelled, its deadline passed)
  // before the reply was given; at once if it already has.
  virtual void OnCancel(std::function<void()> fn) = 0;
};

class Service {
 public:
  virtual ~Service() = default;
  virtual void Handle(std::string_view method, absl::Cord request,
                      std::shared_ptr<ServerCall> call) = 0;
};

// Something that listens; stops when destroyed.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::string address() const = 0;  // with the port that was chosen when 0 was asked for
  // The same without a name that would have to be looked up.
  virtual std::string own_address() const { return address(); }
};

class Network {
 public:
  virtual ~Network() = default;
  // "host:port", "[v6]:port" or "unix:/path".
  virtual std::unique_ptr<Link> Dial(const std::string& address) = 0;
  // The life of a peer that calls itself `boot_id`; there may be a shorter way to it.
  virtual std::unique_ptr<Link> DialBoot(const std::string& address, const std::string& boot_id) {
    (void)boot_id;
    return Dial(address);
  }
  // ALREADY_EXISTS when somebody listens there. `service` outlives the listener.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           Service& service) = 0;
};

}  // namespace paracord
