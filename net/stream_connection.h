// Calls between two of our processes over one connected stream socket (proto/stream.proto), without
// the copies and the wake-ups that HTTP/2 costs. Payload is sent from where it lies and received
// into buffers that are used again. One thread reads each connection, and writes what the socket
// does not take at once; everything else may be used from any thread.
//
// A peer can harm nothing: sizes are checked, memory is taken as bytes arrive, and requests count
// in the intake of their listener.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "common/mutex.h"
#include "common/rpc.h"
#include "net/arriving_body.h"
#include "net/call_table.h"
#include "net/intake.h"
#include "proto/stream.pb.h"

namespace paracord {

// The first byte of a connection that speaks this, which gRPC's never have.
inline constexpr char kStreamGreeting[] = "paracord/1\n";

// Sends our greeting and waits for the peer's. `fd` does not block. Of a peer that said nothing at
// all, `silent` is set.
bool GreetStream(int fd, int64_t patience_ms, bool* silent = nullptr);

class StreamConnection : public std::enable_shared_from_this<StreamConnection> {
 public:
  // Of the side that serves; the other one has none.
  struct Serving {
    Service* service = nullptr;
    std::shared_ptr<Intake> intake;
    uint64_t request_bytes_max = 0;
  };

  // Takes `fd`, connected, greeted, not blocking. Then Run, once.
  StreamConnection(int fd, Serving serving, std::string peer);
  ~StreamConnection();
  StreamConnection(const StreamConnection&) = delete;
  StreamConnection& operator=(const StreamConnection&) = delete;

  // Until the peer has closed, or Close. Runs the service, and `done` of calls.
  void Run();

  bool alive() const;
  // `landing` may be nullptr.
  void Call(std::string_view method, Parts request, int64_t deadline_ms,
            std::shared_ptr<Landing> landing, ReplyFn done);
  // No further calls; those not answered get CANCELLED, and after it no `done` runs any more.
  void Close();

 private:
  class ServerSide;
  struct Arriving {
    StreamFrame frame;
    ArrivingBody body;
    bool wanted = false;  // else it is only read
    uint64_t intake = 0;  // number of the request there
  };

  void Wait();
  bool EndLate();
  bool Full() const;
  bool ReadAll();
  bool TakeIn();
  bool Begin(StreamFrame frame);
  void Count();
  bool Finished();
  void Reply(uint64_t call, uint64_t intake, absl::StatusOr<Parts> reply);
  // `intake`: a request that is over when this is sent; 0: none.
  void Enqueue(StreamFrame frame, Parts parts, uint64_t intake = 0);
  void Write(uint64_t bytes_max);
  bool TakeQueued();
  void CountWritten(uint64_t bytes);
  void Wake() const;
  void Break();
  void BreakSlow();

  const int fd_;
  const int wake_fd_;
  const Serving serving_;
  CallTable table_;

  // Of the reading thread.
  std::vector<char> in_;  // received and not looked at: [in_begin_, in_end_)
  int64_t received_ms_ = 0;
  int64_t looked_ms_ = 0;    // at deadlines
  uint64_t body_bytes_ = 0;  // received that somebody waits for, ever
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  bool any_ = false;  // a frame is arriving
  Arriving arriving_;

  std::atomic<std::thread::id> reader_;
  std::atomic<size_t> unsent_ = 0;    // replies
  std::atomic<bool> paused_ = false;  // the intake has no room
  std::atomic<bool> broken_ = false;  // nothing travels any more
  std::atomic<bool> over_ = false;    // nobody reads any more

  // Of whoever writes: a thread that has set writing_, or the reading thread once wants_room_ is.
  absl::Cord out_;

  mutable Mutex mu_;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool wants_room_ ABSL_GUARDED_BY(mu_) = false;
  absl::Cord queued_ ABSL_GUARDED_BY(mu_);          // behind out_
  uint64_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // ever
  uint64_t written_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<std::pair<uint64_t, uint64_t>> ends_ ABSL_GUARDED_BY(mu_);  // written bytes, intake
};

}  // namespace paracord
