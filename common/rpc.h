// The network seam: calls whose request and reply are bytes. Implemented by the folder net (gRPC,
// streams, shared memory, calls within the process) and by the simulator.
//
// A message is a list of parts. Each part is a valid protobuf message of the call's type, and the
// message is their concatenation; hence messages may exceed gRPC's limit (docs/wire.md). Receivers
// get the concatenation. Cords share bytes with their sources: a part may point into a block of
// parameters.
//
// Threads: Call, Reply and OnCancel may be called from any thread. `done`, Handle and the function
// given to OnCancel run on a thread chosen by the network, or within a call or a link's destructor,
// and must not block.
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

// Tells the network where to put a reply's bytes, to receive them without a copy, and keeps the
// memory alive. Used by a single thread until `done` begins, or slightly longer if the link's
// destructor cancels the call.
class ReplySink {
 public:
  struct Place {
    size_t looked = 0;   // how many bytes of its argument Look consumed
    char* at = nullptr;  // where the following bytes of the reply go
    uint64_t bytes = 0;  // how many bytes go there; 0: Look needs more bytes first
    bool wanted = true;  // false: all further bytes stay in the network's own memory
  };
  virtual ~ReplySink() = default;
  // The network closes the connection if the reply has more bytes.
  virtual uint64_t bytes_max() const = 0;
  // Examines the next bytes of the reply, cut anywhere, and returns where the bytes after them go.
  virtual Place Look(std::string_view bytes) = 0;
};

// A connection to a peer, which dials by itself and redials forever. A call waits for the
// connection until the call's deadline; a network may extend the deadline while bytes of the call
// are moving.
class Link {
 public:
  virtual ~Link() = default;  // unanswered calls get CANCELLED
  // Sends a request; `method` is "/paracord.Service/Name", and `deadline_ms` counts from now.
  // `done` runs exactly once: with the reply, or with an error of the peer or the network, such as
  // UNAVAILABLE (the connection broke), DEADLINE_EXCEEDED, or CANCELLED (the link was destroyed).
  virtual void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) = 0;
  // Like Call, but the network may ask `sink` where to put the reply's bytes; the reply's Cord then
  // points there. After an error, any part of that memory may have been written.
  virtual void CallInto(std::string_view method, Parts request, int64_t deadline_ms,
                        std::shared_ptr<ReplySink> sink, ReplyFn done) {
    (void)sink;  // the network may always keep the bytes itself
    Call(method, std::move(request), deadline_ms, std::move(done));
  }
  virtual const std::string& address() const = 0;
  // True if calls travel in memory mapped by both processes: the peer reads requests in place, and
  // sending a part of a request early gains nothing. Asked before a call. Any thread may call
  // shares_memory, replies_valid and lost_shared_memory.
  virtual bool shares_memory() const { return false; }
  // Asked after reading the reply to a call that was made while shares_memory() was true. False:
  // the peer may have reused the memory of the reply, which may be torn and must be discarded.
  virtual bool replies_valid() const { return true; }
  // True if the link shared memory once and no longer does; dialling again may help.
  virtual bool lost_shared_memory() const { return false; }
};

// A call that arrived. Reply is called once, from any thread, at any time: Handle may return before
// the reply, and keep a request that must wait as data. If the last reference is dropped without a
// reply, the caller gets CANCELLED.
class ServerCall {
 public:
  virtual ~ServerCall() = default;
  virtual void Reply(absl::StatusOr<Parts> reply) = 0;
  // Says that the request's bytes are no longer used, although the reply has yet to come: the
  // network stops counting them as held. Called at most once, before Reply.
  virtual void ReleaseRequest() {}
  // Sends a message of a streamed answer, which Reply ends. The newest message replaces a message
  // that still waits for an earlier message to be sent. False if the network has no streamed
  // answers. Called by one thread at a time.
  virtual bool Stream(absl::Cord message) {
    (void)message;
    return false;
  }
  // Runs `fn` once if the caller goes away before the reply (its process died, the call was
  // cancelled, or the deadline passed); at once if the caller has already gone.
  virtual void OnCancel(std::function<void()> fn) = 0;
  // Returns the task in the caller's certificate, such as "worker:3"; "worker" if the certificate
  // is for any worker; "" if the caller may speak for every task.
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
  virtual std::string address() const = 0;  // has the actual port, even if 0 was asked for
  // Returns an address of the listener in numbers; dialling it needs no name lookup.
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
  // Listens at `address`; ALREADY_EXISTS if it is in use. `service` must outlive the listener.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           Service& service) = 0;
};

}  // namespace paracord
