// Divides a process's memory limit among the holders of memory: the variables take what they need,
// and every other holder gets a share of the rest. A holder reserves bytes before allocating, or
// counts bytes that have arrived and waits for room, to keep the sum below the process's limit.
// Only rows of growing tables may exceed the division: rows are counted and never refused, and an
// eighth of the limit stays for the other holders. Thread-safe. Owned by main; a share is also
// owned by its holders, because replies outlive the budget.
//
// Not counted: while a ps writes a checkpoint, each chunk of a dense variable or slot changed
// meanwhile exists twice (copy on write), at worst a second copy of all dense variables and slots.
//
// Of the rest beside the variables, half is for a single request, to guarantee progress
// (net/request_budget.h), and three sixteenths for all other requests. Replies held by slow readers
// have an eighth, and another sixteenth once the ps no longer waits for the readers
// (store/pinned_bytes.h). Gradients arriving before their exchange have a sixteenth; copies for
// snapshots (partitions, and rows saved before a push) share a sixteenth with unused receive
// buffers. Where tables train in rounds, the rows of the present round and their previous values
// have a quarter of the rest, and the shares above divide the other three quarters. A restore may
// take all of the rest: a ps being loaded serves nobody.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace paracord {

class MemoryShare {
 public:
  static constexpr uint64_t kUnlimited = uint64_t{1} << 62;

  // The holder may exceed `bytes_max` by up to `spare`, in cases named by the holder.
  explicit MemoryShare(uint64_t bytes_max = kUnlimited, uint64_t spare = kUnlimited) {
    SetMax(bytes_max, spare);
  }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  void SetMax(uint64_t bytes_max, uint64_t spare);
  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t spare() const { return spare_; }

  // Negative for a moment if one thread subtracts before another has added.
  int64_t bytes() const { return bytes_; }
  void Add(uint64_t bytes) { bytes_ += static_cast<int64_t>(bytes); }
  void Subtract(uint64_t bytes) { bytes_ -= static_cast<int64_t>(bytes); }
  // Adds the bytes if the share has room. Otherwise returns false and adds nothing.
  bool Reserve(uint64_t bytes);

 private:
  std::atomic<uint64_t> bytes_max_{0};
  std::atomic<uint64_t> spare_{0};
  std::atomic<int64_t> bytes_{0};
};

// Bytes reserved in a share until destruction.
class MemoryReservation {
 public:
  explicit MemoryReservation(MemoryShare& share) : share_(share) {}
  ~MemoryReservation() { share_.Subtract(bytes_); }
  MemoryReservation(const MemoryReservation&) = delete;
  MemoryReservation& operator=(const MemoryReservation&) = delete;
  // Reserves more bytes. Returns false, and reserves none, if the share has no room.
  bool More(uint64_t bytes) {
    if (!share_.Reserve(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  // Count takes more bytes even if the share has no room; Less gives bytes back.
  void Count(uint64_t bytes) {
    share_.Add(bytes);
    bytes_ += bytes;
  }
  void Less(uint64_t bytes) {
    share_.Subtract(bytes);
    bytes_ -= bytes;
  }

 private:
  MemoryShare& share_;
  uint64_t bytes_ = 0;
};

// A holder's line in the report of memory use.
struct MemoryUse {
  std::string holder;  // "variables", "requests", ...
  uint64_t bytes = 0;
  uint64_t bytes_max = 0;
};

class MemoryBudget {
 public:
  static constexpr uint64_t kUnlimited = MemoryShare::kUnlimited;
  // An estimate of the memory of the program, its libraries and its threads.
  static constexpr uint64_t kProgramBytes = uint64_t{64} << 20;
  // The least limit with which a process can do useful work.
  static constexpr uint64_t kLimitMin = uint64_t{128} << 20;

  // Upper bounds of the shares, however much memory there is.
  struct Caps {
    uint64_t requests = uint64_t{2} << 30;
    uint64_t one_request = uint64_t{64} << 30;
    uint64_t replies = uint64_t{2} << 30;
    uint64_t staged = uint64_t{1} << 30;
    uint64_t snapshots = uint64_t{2} << 30;
    uint64_t buffers = uint64_t{256} << 20;
  };

  explicit MemoryBudget(uint64_t limit = kUnlimited);
  // `limit` is one of `parts` equal parts of the process's --memory-limit.
  MemoryBudget(uint64_t limit, Caps caps, uint64_t parts = 1);

  uint64_t limit() const { return limit_; }
  // The --memory-limit of the process, of which this budget is one of the parts.
  uint64_t process_limit() const { return limit_ * parts_; }
  // Names the limit in messages: "--memory-limit 1.0 GiB", or "the part 1.0 GiB of --memory-limit
  // 2.0 GiB".
  std::string LimitText() const;
  bool limited() const { return limit_ < kUnlimited; }
  // Divides what variables and slots of `bytes` leave. RESOURCE_EXHAUSTED, without a change, unless
  // there is room for a push of `push_bytes` and for `round_bytes`: in synchronous training, the
  // most that sums of rounds and the values before the newest round take, without rows of tables.
  // With `round_rows`, tables train in rounds, too, and their rows count in rounds().
  absl::Status HoldVariables(uint64_t bytes, uint64_t push_bytes, uint64_t round_bytes = 0,
                             bool round_rows = false);
  // Returns RESOURCE_EXHAUSTED if there is no room for further variables and slots of `bytes`, with
  // pushes of `push_bytes`, beside the present ones.
  absl::Status CheckBeside(uint64_t bytes, uint64_t push_bytes) const;
  // Takes over the present size of the variables, because growing tables gain rows all the time,
  // and divides the rest anew, but at least an eighth of the limit and room for a push: rows are
  // never taken back, and without room for requests training would stop for ever. Returns true the
  // first time since HoldVariables that the rest is below this minimum.
  bool CountVariables(uint64_t bytes);

  // Whether a process of `resident_bytes` takes, beside its variables, more than half of the rest.
  bool MuchBesideVariables(uint64_t resident_bytes) const;

  const std::shared_ptr<MemoryShare>& requests() const { return requests_; }
  const std::shared_ptr<MemoryShare>& replies() const { return replies_; }
  const std::shared_ptr<MemoryShare>& staged() const { return staged_; }
  const std::shared_ptr<MemoryShare>& snapshots() const { return snapshots_; }
  const std::shared_ptr<MemoryShare>& buffers() const { return buffers_; }
  const std::shared_ptr<MemoryShare>& restores() const { return restores_; }
  // The share for rows of tables in the sums of rounds, and for their previous values.
  const std::shared_ptr<MemoryShare>& rounds() const { return round_rows_; }

  // Returns the uses of every holder, variables first.
  std::vector<MemoryUse> Uses() const;

 private:
  void Divide(uint64_t left);

  const uint64_t limit_;
  const Caps caps_;
  const uint64_t parts_;
  std::atomic<uint64_t> variables_{0};
  std::atomic<uint64_t> push_bytes_{0};
  std::atomic<uint64_t> rounds_{0};
  std::atomic<bool> rows_in_rounds_{false};
  std::atomic<bool> outgrown_{false};  // CountVariables has returned true
  const std::shared_ptr<MemoryShare> requests_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> replies_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> staged_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> snapshots_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> buffers_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> restores_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> round_rows_ = std::make_shared<MemoryShare>();
};

}  // namespace paracord
