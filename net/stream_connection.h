// Calls between two Paracord processes over a connected stream (proto/stream.proto), plain or under
// TLS (net/channel.h), without the copies and wake-ups of HTTP/2. Payload is sent from where it
// lies, and received into pooled buffers or a ReplySink. One thread (Run) reads the connection and
// writes what the socket did not take at once; all other functions may be called from any thread.
//
// A peer can do no harm: sizes are checked, memory is allocated as bytes arrive, requests count in
// the listener's request budget, and the body of a call that the peer may not make is dropped.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
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
#include "net/channel.h"
#include "net/request_budget.h"
#include "net/stream_greeting.h"
#include "proto/stream.pb.h"
#include "security/call_rights.h"

namespace paracord {

class StreamConnection : public std::enable_shared_from_this<StreamConnection> {
 public:
  // What the serving side needs. On the calling side all members have their defaults.
  struct Serving {
    Service* service = nullptr;
    std::shared_ptr<RequestBudget> request_budget;
    uint64_t request_bytes_max = 0;  // a larger request gets OUT_OF_RANGE
    Access access = {};              // the calls that the peer may make
  };

  // Takes a connected channel after the greeting. The owner then calls Run once. `peer` is named in
  // errors. `believes` says whether the peer's certificate is still valid, and may be null. Run on
  // the calling side asks `believes` once a second, and ends the connection if the answer is false.
  StreamConnection(std::unique_ptr<Channel> channel, Serving serving, std::string peer,
                   std::function<bool()> believes = nullptr);
  // Takes ownership of `fd`, with a plain channel.
  StreamConnection(int fd, Serving serving, std::string peer)
      : StreamConnection(MakePlainChannel(fd), std::move(serving), std::move(peer)) {}
  ~StreamConnection();
  StreamConnection(const StreamConnection&) = delete;
  StreamConnection& operator=(const StreamConnection&) = delete;

  // Serves the connection until Close, until the peer closes it, or until this side gives the peer
  // up: because the peer violates the protocol, for example, or sends nothing for too long. The
  // service's Handle, and the `done` of answered calls, run on the thread that calls Run.
  void Run();

  bool alive() const;
  // Sends a request. `done` runs once: with the reply, with the peer's status, or with
  // DEADLINE_EXCEEDED, UNAVAILABLE (the connection broke) or CANCELLED (Close). `sink` may be
  // nullptr.
  void Call(std::string_view method, Parts request, int64_t deadline_ms,
            std::shared_ptr<ReplySink> sink, ReplyFn done);
  // Ends the connection: unanswered calls get CANCELLED, and after Close returns no `done` of an
  // earlier Call runs any more, except a `done` that called Close.
  void Close();

 private:
  class ServerSide;
  struct Arriving {
    StreamFrame frame;
    ArrivingBody body;
    bool wanted = false;   // false: the body is read and dropped
    uint64_t request = 0;  // the request's number in the request budget; 0: it has none
  };

  void Wait();
  bool EndLate();
  void LookAtPeer();
  bool Full() const;
  bool ReadAll();
  bool TakeIn();
  absl::Status WhyRefused(const StreamFrame& frame) const;
  bool Begin(StreamFrame frame);
  void Count();
  bool Finished();
  void Reply(uint64_t call, uint64_t request, absl::StatusOr<Parts> reply);
  void EndRequest(uint64_t request);  // does nothing for 0
  // Queues a frame for sending. If the frame is a reply, `request` is the number, in the request
  // budget, of the request that ends once the frame has been sent; 0: no request ends.
  void Enqueue(StreamFrame frame, Parts parts, uint64_t request = 0);
  void Write(uint64_t bytes_max);
  bool TakeQueued();
  void CountWritten(uint64_t bytes);
  void Wake() const;
  void Break();
  void BreakSlow();

  const std::unique_ptr<Channel> channel_;
  const int wake_fd_;
  const Serving serving_;
  const std::function<bool()> believes_;
  CallTable table_;

  // The members from here to arriving_ are used by the reading thread only.
  std::vector<char> in_;  // the bytes received but not parsed are [in_begin_, in_end_)
  int64_t received_ms_ = 0;
  int64_t looked_ms_ = 0;    // when deadlines were last checked
  int64_t believed_ms_ = 0;  // when the peer's certificate was last checked
  uint64_t body_bytes_ = 0;  // received bytes of wanted bodies, in all
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  bool any_ = false;     // the body of arriving_ is arriving
  bool called_ = false;  // the peer has made a call
  Arriving arriving_;

  std::atomic<std::thread::id> reader_;
  std::atomic<size_t> unsent_ = 0;    // replies not sent yet
  std::atomic<bool> paused_ = false;  // the request budget has no room
  std::atomic<bool> broken_ = false;  // nothing is transmitted any more
  std::atomic<bool> over_ = false;    // the reading thread has ended

  // Bytes being written, by the thread that set writing_, or by the reading thread while
  // wants_room_ is set.
  absl::Cord out_;

  mutable Mutex mu_;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool wants_room_ ABSL_GUARDED_BY(mu_) = false;     // out_ waits for room in the socket
  absl::Cord queued_ ABSL_GUARDED_BY(mu_);           // written after out_
  uint64_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;   // all bytes ever queued
  uint64_t written_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // all bytes ever written
  // For each unsent reply: the value of written_bytes_ when it has been sent, and the number of its
  // request in the request budget (0: none).
  std::deque<std::pair<uint64_t, uint64_t>> ends_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
