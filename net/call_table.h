// The calls of a connection in both directions: the calls of ours that wait for an answer, with
// their deadlines, and the calls of the peer that we are serving. The connection does the
// transmission. Thread-safe. `done` and the functions given to OnCancel run on the thread whose
// call triggers them, without a lock held.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "common/rpc.h"

namespace paracord {

class CallTable {
 public:
  explicit CallTable(std::string peer) : peer_(std::move(peer)) {}  // `peer` is named in errors

  // ---- calls of ours to the peer
  // Registers a call and returns its number, from 1. After Close, `done` runs at once with
  // CANCELLED, and the number is 0.
  uint64_t Add(ReplyFn done, int64_t deadline_ms, std::shared_ptr<ReplySink> sink = nullptr);
  // Returns nullopt if nobody waits for the call.
  std::optional<std::shared_ptr<ReplySink>> SinkOf(uint64_t call) const;
  // Runs the `done` of a call, unless nobody waits for it any more. Errors get the peer's name.
  void Answer(uint64_t call, absl::StatusOr<absl::Cord> reply);
  // Answers calls whose deadline has passed with DEADLINE_EXCEEDED and returns their numbers.
  // `moved` is the number of bytes transferred by the connection so far: while `moved` grows fast
  // enough, deadlines are extended, because they guard against a silent peer and not a slow
  // network.
  std::vector<uint64_t> Expire(uint64_t moved = 0);
  // Answers all calls with UNAVAILABLE: the connection broke.
  void FailAll();
  // Answers all calls with CANCELLED. After Close returns, no `done` runs any more, except a `done`
  // that called Close.
  void Close();

  // ---- calls of the peer to us
  // Registers a call that arrived. False if the peer has too many open, or already uses `call`.
  bool Begin(uint64_t call);
  // Ends a call. Returns true once, if the caller still wants the reply.
  bool End(uint64_t call);
  void OnCancel(uint64_t call, std::function<void()> fn);
  void Cancel(uint64_t call);
  void CancelAll();

 private:
  struct Pending {
    ReplyFn done;
    int64_t until_ms = 0;
    int64_t patience_ms = 0;
    std::shared_ptr<ReplySink> sink;
    std::optional<uint64_t> moved;  // `moved` when the deadline was set
  };
  struct Serving {
    std::function<void()> on_cancel;
    bool cancelled = false;
  };

  const std::string peer_;
  mutable Mutex mu_;
  std::condition_variable_any idle_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread::id> answering_ ABSL_GUARDED_BY(mu_);  // threads in which a `done` runs
  uint64_t last_call_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Pending> calls_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Serving> serving_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
