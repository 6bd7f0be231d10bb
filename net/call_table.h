// The calls of a connection in both directions: our calls that wait for an answer, with their
// deadlines, and the peer's calls that we are serving. The table sends nothing; the connection
// does. Thread-safe. `done` and the functions given to OnCancel run on the thread that calls the
// member function which triggers them, while no lock of the table is held.
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
  // Registers a call and returns its number, from 1. After Close, runs `done` at once with
  // CANCELLED instead, and returns 0.
  uint64_t Add(ReplyFn done, int64_t deadline_ms, std::shared_ptr<ReplySink> sink = nullptr);
  // Returns the sink given to Add, perhaps nullptr; nullopt if the call has been answered.
  std::optional<std::shared_ptr<ReplySink>> SinkOf(uint64_t call) const;
  // Runs the `done` of a call, unless the call has been answered. Errors are prefixed with the
  // peer's name.
  void Answer(uint64_t call, absl::StatusOr<absl::Cord> reply);
  // Answers calls whose deadline has passed with DEADLINE_EXCEEDED and returns their numbers.
  // `moved` is the number of bytes that the connection has transferred so far. If `moved` has grown
  // by at least 256 KiB since the call's first Expire, or since its deadline was last extended, the
  // call is not answered but gets `deadline_ms` more, because a deadline guards against a silent
  // peer and not a slow network.
  std::vector<uint64_t> Expire(uint64_t moved = 0);
  // Answers all calls with UNAVAILABLE: the connection broke.
  void FailAll();
  // Answers all calls with CANCELLED. After Close returns, no `done` of an earlier Add runs any
  // more, except a `done` that called Close.
  void Close();

  // ---- calls of the peer to us
  // Registers a call of the peer by the peer's number. Returns false if 1024 calls of the peer have
  // not ended, or if a call of this number has not.
  bool Begin(uint64_t call);
  // Ends a call. Returns false if the call was cancelled, or if no such call is open.
  bool End(uint64_t call);
  // Runs `fn` when the call is cancelled, at once if it already is; never once the call has ended.
  void OnCancel(uint64_t call, std::function<void()> fn);
  void Cancel(uint64_t call);
  void CancelAll();

 private:
  struct Pending {
    ReplyFn done;
    int64_t until_ms = 0;
    int64_t patience_ms = 0;  // the `deadline_ms` given to Add
    std::shared_ptr<ReplySink> sink;
    // `moved` at the first Expire after Add, or when the deadline was last extended.
    std::optional<uint64_t> moved;
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
