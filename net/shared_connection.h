// Calls between two processes of one host, in both directions of a SOCK_SEQPACKET socket. Packets
// (proto/shared_memory.proto) say where in shared memory the payload lies; nothing large passes
// through the socket. What was sent stays referenced until the receiver says that it no longer
// reads it, or closes its side, which it does only after it has let go (a process that dies lets go
// of everything). So neither side ever sees memory that is used for something else, but for a
// caller that keeps a reply for too long (it is stopped, say) or breaks the rules: the side that
// serves then ends the connection, both ways, and takes its memory back, but for that it first lets
// go of the caller's requests. So a caller asks intact() when it has read a reply.
//
// A peer can harm nothing: places are checked, segments cannot shrink and have a number (of all
// connections), payload is numbers, and what comes through the socket is bounded and counts, as
// places do, in the intake of the side that serves. One thread reads each connection; everything
// else may be used from any thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/mutex.h"
#include "common/rpc.h"
#include "common/shared_memory.h"
#include "net/call_table.h"
#include "net/intake.h"
#include "proto/shared_memory.pb.h"

namespace paracord {

class SharedConnection : public std::enable_shared_from_this<SharedConnection> {
 public:
  static constexpr int64_t kReplyPatienceMs = 15000;

  // Takes `fd`, a connected socket. `service` and `intake` are null on the side that dials. Then
  // Run, once. A caller may keep a reply for `reply_patience_ms`.
  SharedConnection(int fd, Service* service, std::shared_ptr<Intake> intake,
                   uint64_t request_bytes_max, std::string peer,
                   int64_t reply_patience_ms = kReplyPatienceMs);
  ~SharedConnection();
  SharedConnection(const SharedConnection&) = delete;
  SharedConnection& operator=(const SharedConnection&) = delete;

  // Reads until the peer has closed. Runs the service, and `done` of calls.
  void Run();

  bool alive() const;
  // The peer has not taken back the memory of what it sent.
  bool intact() const;
  void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done);
  // No further calls; those not answered get CANCELLED, and after it no `done` runs any more.
  void Close();
  // Close, and Run returns soon whatever the peer does: what it still reads may change.
  void Abort();

 private:
  class ServerSide;
  struct Received;
  struct Counted;
  struct Message {  // one that arrives
    uint64_t call = 0;
    std::string method;
    absl::Cord bytes;
    uint64_t inline_bytes = 0;           // of them, in memory of ours
    uint64_t places = 0;                 // in the peer's
    std::shared_ptr<Received> received;  // if it points to the peer's memory
    std::unique_ptr<Counted> counted;    // a request
    bool whole = false;                  // and there may be no room for it yet
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
  void Send(SharedPacket packet, const Parts& parts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddPiece(SharedPacket& packet, absl::Cord chunk, std::vector<absl::Cord>& kept)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Announce(uint64_t segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Write(const SharedPacket& packet, int fd = -1) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
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
  CallTable table_;

  // Of the reading thread.
  std::map<uint64_t, std::shared_ptr<SharedMapping>> mappings_;
  std::unique_ptr<Message> arriving_;  // the packets of one message follow one another
  std::optional<std::chrono::steady_clock::time_point> late_since_;  // a reply was seen to be late
  int late_packets_ = 0;                                             // read since
  std::vector<char> buffer_;

  std::atomic<bool> paused_ = false;  // the intake has no room

  mutable Mutex mu_;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;   // nothing is sent any more
  bool closing_ ABSL_GUARDED_BY(mu_) = false;  // ours ends once nothing received is in use
  // What was sent, whether or not it is released: of the side that serves.
  bool takes_back_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t received_ ABSL_GUARDED_BY(mu_) = 0;  // messages of the peer that are still referenced
  std::map<uint64_t, Sent> sent_ ABSL_GUARDED_BY(mu_);  // until released
  std::set<uint64_t> announced_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
