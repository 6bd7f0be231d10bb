// The calls of one connection, on either side of it: who waits for which answer until when, and
// what is being served. What travels is the connection's business. Thread-safe; `done` and the
// functions given to OnCancel run in the thread that brings them about, without a lock.
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
  explicit CallTable(std::string peer) : peer_(std::move(peer)) {}  // named in errors

  // ---- calls that we make
  // The number of a new call, from 1. After Close it is answered at once, and the number is 0.
  uint64_t Add(ReplyFn done, int64_t deadline_ms, std::shared_ptr<Landing> landing = nullptr);
  std::optional<std::shared_ptr<Landing>> LandingOf(uint64_t call) const;  // if it waits
  // Nothing if nobody waits for it any more. An error gets the peer's name.
  void Answer(uint64_t call, absl::StatusOr<absl::Cord> reply);
  // Answers those whose deadline has passed with DEADLINE_EXCEEDED, and names them. `moved`: bytes
  // that the connection has moved so far: while enough of them do, the deadline moves on, since it
  // is about silence and not about a slow network.
  std::vector<uint64_t> Expire(uint64_t moved = 0);
  // Answers all with UNAVAILABLE: the connection broke.
  void FailAll();
  // Answers all with CANCELLED. After it no `done` runs any more, unless this is called by one.
  void Close();

  // ---- calls that are made to us
  // False if the peer has too many, or has one of that number.
  bool Begin(uint64_t call);
  // True if the caller still wants the reply; false at any later time.
  bool End(uint64_t call);
  void OnCancel(uint64_t call, std::function<void()> fn);
  void Cancel(uint64_t call);
  void CancelAll();

 private:
  struct Pending {
    ReplyFn done;
    int64_t until_ms = 0;
    int64_t patience_ms = 0;
    std::shared_ptr<Landing> landing;
    std::optional<uint64_t> moved;  // when its deadline was set
  };
  struct Serving {
    std::function<void()> on_cancel;
    bool cancelled = false;
  };

  const std::string peer_;
  mutable Mutex mu_;
  std::condition_variable_any idle_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread::id> answering_ ABSL_GUARDED_BY(mu_);  // where a `done` runs
  uint64_t last_call_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Pending> calls_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Serving> serving_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
