// Calls between two processes of one host, in both directions of a SOCK_SEQPACKET socket. A packet
// (proto/shared_memory.proto) carries small payload itself and names places in shared memory for
// large payload, which the receiver reads in place.
//
// Who may reuse memory, and when: The sender of a message leaves the memory it points to unchanged
// until the receiver releases the message (RELEASE) or shuts down its sending direction. A side
// shuts that down only after it has released every message it received; a process that dies has
// released everything. Hence nobody reads memory that has been reused, with one exception.
//
// The exception: The serving side takes its memory back from a caller that keeps a reply for longer
// than reply_patience_ms (because it is stopped, say) or violates the protocol. The serving side
// first waits until the caller's requests are released, then shuts down both directions, then
// reuses its memory. A caller that is still reading the reply may see a torn read. So a caller
// calls replies_valid() after it has read a reply, and discards what it read if that returns false.
// The shutdown comes before the reuse, and the poll in replies_valid() after the reads, each
// separated by a full barrier (store-load ordering), so that no torn read goes unnoticed.
//
// A peer can do no harm: places are checked, segments are sealed against shrinking and limited in
// number (over all connections), payload is only numbers, and what comes through the socket is
// bounded and counts, as places do, in the intake of the serving side. One thread (Run) reads each
// connection, and sends what found no room in the socket; everything else may be used from any
// thread, and waits for no peer.
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
#include "net/intake.h"
#include "net/packet_queue.h"
#include "net/peer_segments.h"
#include "net/shared_message.h"
#include "proto/shared_memory.pb.h"
#include "security/call_rights.h"

namespace paracord {

class SharedConnection : public std::enable_shared_from_this<SharedConnection> {
 public:
  static constexpr int64_t kReplyPatienceMs = 15000;

  // Takes ownership of `fd`, a connected socket. `service` and `intake` are null on the side that
  // dials. The owner then calls Run once. `reply_patience_ms` is how long a caller may keep a
  // reply; `access` says which calls it may make.
  SharedConnection(int fd, Service* service, std::shared_ptr<Intake> intake,
                   uint64_t request_bytes_max, std::string peer,
                   int64_t reply_patience_ms = kReplyPatienceMs, Access access = {});
  ~SharedConnection();
  SharedConnection(const SharedConnection&) = delete;
  SharedConnection& operator=(const SharedConnection&) = delete;

  // Reads the socket until the peer has closed it. It runs the service's Handle and the `done` of
  // calls on the calling thread.
  void Run();

  // True while new calls can be made.
  bool alive() const;
  // True if the peer has not taken back the memory of its replies. A caller asks after it has read
  // a reply; if the answer is false, what it read may be torn and must be discarded.
  bool replies_valid() const;
  // Sends a request. `done` runs once: with the reply, or with DEADLINE_EXCEEDED, UNAVAILABLE (the
  // connection broke) or CANCELLED (Close).
  void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done);
  // Ends the calls of this side: unanswered ones get CANCELLED, and when this returns no `done`
  // runs any more. The socket is closed when all received messages are released.
  void Close();
  // Closes, and shuts the socket down at once, so that Run returns soon whatever the peer does.
  // Memory that the peer still reads may then be reused; its replies_valid() tells.
  void Abort();

 private:
  class ServerSide;
  struct Received;
  struct Counted;
  struct Message {  // one that is arriving
    uint64_t call = 0;
    std::string method;
    absl::Cord bytes;
    uint64_t inline_bytes = 0;           // bytes that came through the socket
    uint64_t places = 0;                 // places in the peer's memory
    std::shared_ptr<Received> received;  // set if `bytes` points to the peer's memory
    std::unique_ptr<Counted> counted;    // set on the serving side
    bool whole = false;                  // all packets have come; the intake may still have no room
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
  const std::shared_ptr<Intake> intake_;
  const uint64_t request_bytes_max_;
  const std::chrono::milliseconds reply_patience_;
  const int serving_tick_ms_;
  const std::string peer_;
  const Access access_;
  CallTable table_;

  // State of the reading thread.
  PeerSegments theirs_;
  std::unique_ptr<Message> arriving_;  // packets of a message are consecutive
  // When a reply was first seen to be late.
  std::optional<std::chrono::steady_clock::time_point> late_since_;
  int late_packets_ = 0;  // packets read since late_since_
  std::vector<char> buffer_;

  std::atomic<bool> paused_ = false;  // the intake has no room

  mutable Mutex mu_;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;   // nothing is sent any more
  bool closing_ ABSL_GUARDED_BY(mu_) = false;  // shuts down once nothing received is referenced
  // Set on the serving side when it takes back what it sent, released or not.
  bool takes_back_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t received_ ABSL_GUARDED_BY(mu_) = 0;  // messages of the peer that are still referenced
  std::map<uint64_t, Sent> sent_ ABSL_GUARDED_BY(mu_);  // messages not yet released
  ToldSegments ours_ ABSL_GUARDED_BY(mu_);
  PacketQueue packets_;  // guarded by mu_, but for its wake_fd
};

}  // namespace paracord
