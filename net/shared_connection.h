// Calls between two processes of a host over a SOCK_SEQPACKET socket. A packet
// (proto/shared_memory.proto) carries small payload inline. For payload that is large or already in
// shared memory, the packet names a place (segment, offset and size), where the receiver reads.
//
// Who may reuse memory, and when: The sender of a message leaves the memory of the payload
// unchanged until the receiver releases the message (RELEASE) or shuts down its sending direction.
// A side shuts down only after releasing every received message, and a process that dies has
// released everything. Hence nobody reads reused memory, with one exception.
//
// The serving side takes its memory back from a caller that it gives up, because the caller keeps a
// reply for longer than reply_patience_ms (a stopped process, for example), violates the protocol
// or does not read, and from every caller when its listener ends (Abort). The serving side first
// waits until it has released all requests of the caller, then shuts down both directions, then
// reuses the memory. A caller that still reads the reply may see a torn read. Hence a caller calls
// replies_valid() after reading a reply, and discards the reply if the answer is false. The
// shutdown comes before the reuse, and the poll in replies_valid() after the reads, in both cases
// with a full barrier (store-load ordering) in between: no torn read goes unnoticed.
//
// A peer can do no harm: places are checked, segments are sealed against shrinking and limited in
// number (over all connections), payload holds no pointers, and the request budget of the serving
// side bounds inline payload and places. One thread (Run) reads each connection, and sends packets
// that found no room in the socket. All other functions may be called from any thread, and do not
// wait for the peer.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/mutex.h"
#include "common/rpc.h"
#include "common/shared_memory.h"
#include "net/call_table.h"
#include "net/packet_queue.h"
#include "net/peer_segments.h"
#include "net/request_budget.h"
#include "net/shared_message.h"
#include "proto/shared_memory.pb.h"
#include "security/call_rights.h"

namespace paracord {

class SharedConnection : public std::enable_shared_from_this<SharedConnection> {
 public:
  static constexpr int64_t kReplyPatienceMs = 15000;

  // Takes ownership of `fd`, a connected socket. `service` and `request_budget` are null on the
  // dialling side. The owner then calls Run once. `request_bytes_max` limits each received message,
  // request or reply; `peer` is named in errors; `reply_patience_ms` is how long a caller may keep
  // a reply; `access` says which calls the peer may make.
  SharedConnection(int fd, Service* service, std::shared_ptr<RequestBudget> request_budget,
                   uint64_t request_bytes_max, std::string peer,
                   int64_t reply_patience_ms = kReplyPatienceMs, Access access = {});
  ~SharedConnection();
  SharedConnection(const SharedConnection&) = delete;
  SharedConnection& operator=(const SharedConnection&) = delete;

  // Serves the connection until the peer has closed its side, this side has given the peer up, or
  // Abort. The service's Handle, and the `done` of answered calls, run on the thread that calls
  // Run.
  void Run();

  // True while new calls can be made.
  bool alive() const;
  // False if the peer may have reused the memory of its replies. A caller asks after reading a
  // reply; on false the reply may be torn and must be discarded.
  bool replies_valid() const;
  // Sends a request. `done` runs once: with the reply, with the peer's status, or with
  // DEADLINE_EXCEEDED, UNAVAILABLE (the connection broke) or CANCELLED (Close was called).
  void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done);
  // Ends the calls of this side: unanswered calls get CANCELLED, and after Close returns no `done`
  // of an earlier Call runs any more, except a `done` that called Close. The sending direction is
  // shut down when all received messages are released.
  void Close();
  // Called on the serving side. Makes Run return soon whatever the peer does. The connection stays,
  // perhaps after Run, until the service has released all requests; then both directions are shut
  // down, and the memory of replies may be reused.
  void Abort();

 private:
  class ServerSide;
  struct Received;
  struct BudgetedRequest;
  struct Message {  // an arriving message
    uint64_t call = 0;
    std::string method;
    absl::Cord bytes;
    uint64_t inline_bytes = 0;                 // bytes of payload received through the socket
    uint64_t places = 0;                       // number of places in the peer's memory
    std::shared_ptr<Received> received;        // set if `bytes` points to the peer's memory
    std::unique_ptr<BudgetedRequest> counted;  // set on the serving side
    bool whole = false;  // all packets have come; the request budget may still have no room
  };

  bool ReadPacket();
  bool Take(const SharedPacket& packet, int fd);
  bool TakeMessage(const SharedPacket& packet);
  void Count(uint64_t bytes);
  bool Serve();
  bool Wait();
  void ExpireCalls();
  void ExpireReplies(bool idle);
  void Ended();

  void Reply(uint64_t call, absl::StatusOr<Parts> reply);
  void Release(uint64_t call);
  void Send(uint64_t call, SharedMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Announce(uint64_t segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RetireSegments();
  void Write(std::string packet, int fd = -1) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FlushPackets();
  void CloseIfUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BreakSlow();
  void Break(std::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  struct Sent {
    std::vector<absl::Cord> kept;
    std::chrono::steady_clock::time_point at;
  };

  const int fd_;
  Service* const service_;
  const std::shared_ptr<RequestBudget> requests_;
  const uint64_t request_bytes_max_;
  const std::chrono::milliseconds reply_patience_;
  const int serving_tick_ms_;
  const std::string peer_;
  const Access access_;
  CallTable table_;

  // The members from here to buffer_ are used by the reading thread only.
  PeerSegments theirs_;
  std::unique_ptr<Message> arriving_;  // packets of a message are consecutive
  // When a reply was first found to be late; nullopt: no reply is late.
  std::optional<std::chrono::steady_clock::time_point> late_since_;
  int late_packets_ = 0;  // packets read since late_since_
  std::vector<char> buffer_;

  std::atomic<bool> paused_ = false;  // the request budget has no room

  mutable Mutex mu_;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;   // nothing is sent any more
  bool closing_ ABSL_GUARDED_BY(mu_) = false;  // shuts down once received_ is 0
  // The serving side takes back the memory of its replies, released or not.
  bool takes_back_ ABSL_GUARDED_BY(mu_) = false;
  // How many received messages in the peer's memory are still referenced here.
  uint64_t received_ ABSL_GUARDED_BY(mu_) = 0;
  // Our messages with payload in shared memory that the peer has not released, keyed by call.
  std::map<uint64_t, Sent> sent_ ABSL_GUARDED_BY(mu_);
  ToldSegments ours_ ABSL_GUARDED_BY(mu_);
  PacketQueue packets_;  // guarded by mu_, except wake_fd
};

}  // namespace paracord
