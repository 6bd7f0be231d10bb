// The interface to the network: calls whose request and reply are bytes. Implemented by the folder
// net (gRPC, streams, shared memory, calls within the process) and by the simulator.
//
// A message is a list of parts. Each part is a valid protobuf message of the call's type, and so is
// the concatenation of the parts, which the receiver gets. Hence a message may exceed gRPC's limit
// (docs/wire.md). A part shares its bytes with their owner: it may point into a block of
// parameters.
//
// Any thread may call Call, Reply and OnCancel. `done`, Handle and the function given to OnCancel
// must not block: they run on a thread that the network chooses, or inside a function of this
// header.
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

// Tells the network where in memory to put the bytes of a reply, so that receiving the reply needs
// no copy, and keeps that memory alive. Used by one thread at a time until `done` begins or, if the
// link's destructor cancels the call, until slightly later.
class ReplySink {
 public:
  struct Place {
    size_t looked = 0;   // how many bytes of its argument Look has used up
    char* at = nullptr;  // where the next `bytes` bytes of the reply go
    uint64_t bytes = 0;  // 0: Look needs more bytes first
    bool wanted = true;  // false: the rest of the reply stays in the network's own memory
  };
  virtual ~ReplySink() = default;
  // The most bytes that the reply may have. If it has more, the network closes the connection.
  virtual uint64_t bytes_max() const = 0;
  // Examines the next bytes of the reply, cut anywhere, and returns where the bytes after them go.
  virtual Place Look(std::string_view bytes) = 0;
};

// A connection to a peer. A link dials by itself, and dials again whenever the connection is lost.
// A call waits for a connection until the call's deadline. A network may extend the deadline while
// bytes are moving.
class Link {
 public:
  virtual ~Link() = default;  // unanswered calls get CANCELLED
  // Sends a request. `method` is "/paracord.Service/Name", and `deadline_ms` counts from now.
  // `done` runs exactly once: with the reply, or with an error of the peer or the network, such as
  // UNAVAILABLE (the connection broke), DEADLINE_EXCEEDED, or CANCELLED (the link was destroyed).
  virtual void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) = 0;
  // Like Call, but the network may ask `sink` where to put the bytes of the reply, and the reply's
  // Cord then points there. If `done` gets an error, any part of that memory may have been written.
  virtual void CallInto(std::string_view method, Parts request, int64_t deadline_ms,
                        std::shared_ptr<ReplySink> sink, ReplyFn done) {
    (void)sink;  // the network may always keep the bytes itself
    Call(method, std::move(request), deadline_ms, std::move(done));
  }
  virtual const std::string& address() const = 0;
  // Whether calls travel in memory that both processes map. The peer then reads a request where the
  // caller wrote it, so that sending a part of a request early gains nothing. Any thread may call
  // shares_memory, replies_valid and lost_shared_memory.
  virtual bool shares_memory() const { return false; }
  // If shares_memory() was true when a call was made, the caller asks for replies_valid() after it
  // has read the reply. False means that the peer may have reused the reply's memory: what was read
  // must be discarded.
  virtual bool replies_valid() const { return true; }
  // Whether the link once shared memory and no longer does. A new link may share memory again.
  virtual bool lost_shared_memory() const { return false; }
};

// A call that has arrived. Reply is called once, from any thread, before or after Handle returns:
// the service may keep the call and the request until it has an answer. If the last reference to
// the call is dropped without a reply, the caller gets CANCELLED.
class ServerCall {
 public:
  virtual ~ServerCall() = default;
  virtual void Reply(absl::StatusOr<Parts> reply) = 0;
  // Says that the service no longer uses the request's bytes, although it has yet to reply: the
  // network stops counting these bytes as held. Called at most once, before Reply.
  virtual void ReleaseRequest() {}
  // Sends a message of a streamed answer, which Reply ends. If a message still waits to be sent,
  // the new message replaces the waiting one. Returns false if the network has no streamed answers.
  // Called by one thread at a time.
  virtual bool Stream(absl::Cord message) {
    (void)message;
    return false;
  }
  // Runs `fn` once if the caller goes away before the reply: its process has died, it has cancelled
  // the call, or the deadline has passed. If the caller has already gone, runs `fn` at once.
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
  // If Listen was asked for port 0, the address has the port that the system chose.
  virtual std::string address() const = 0;
  // Returns an address of the listener that can be dialled without a name lookup.
  virtual std::string own_address() const { return address(); }
};

class Network {
 public:
  virtual ~Network() = default;
  // Makes a link to "host:port", "[v6]:port" or "unix:/path".
  virtual std::unique_ptr<Link> Dial(const std::string& address) = 0;
  // Makes a link to the process with boot id `boot_id` at `address`. The network may take a faster
  // way than `address`, such as shared memory.
  virtual std::unique_ptr<Link> DialBoot(const std::string& address, const std::string& boot_id) {
    (void)boot_id;
    return Dial(address);
  }
  // Listens at `address`; ALREADY_EXISTS if it is in use. `service` must outlive the listener.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           Service& service) = 0;
};

}  // namespace paracord
