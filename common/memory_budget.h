// Divides the memory limit of a process among its uses of memory, called holders. The variables
// take what they need, and every other holder gets a share of the rest. A holder reserves bytes
// before it allocates memory, or counts bytes that have arrived and waits for room; so the sum of
// all holders stays below the limit. Only rows of growing tables may exceed the division: they are
// counted and never refused, but an eighth of the limit stays for other holders. Thread-safe. Owned
// by main; holders own their share, too, as replies outlive the budget.
//
// Not counted: while a ps writes a checkpoint, each chunk of a dense variable or slot that changes
// exists twice (copy on write), at worst all of them.
//
// Of the rest that the variables leave, half is for a single request, so that training always goes
// on (net/request_budget.h), and three sixteenths are for all other requests. Replies that workers
// have not read yet have an eighth, and another sixteenth once the ps no longer waits for these
// workers (store/pinned_bytes.h). Gradients that arrive before their exchange have a sixteenth.
// Copies for snapshots (of partitions, and of rows before a push) share a sixteenth with unused
// receive buffers. Where tables train in rounds, the rows of the present round and the values of
// these rows before the round have a quarter of the rest, and the shares above divide the other
// three quarters. A restore may take all of the rest.
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

  // Reserve stays within `bytes_max`. The holder may Add up to `spare` more in cases that it names.
  explicit MemoryShare(uint64_t bytes_max = kUnlimited, uint64_t spare = kUnlimited) {
    SetMax(bytes_max, spare);
  }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  void SetMax(uint64_t bytes_max, uint64_t spare);
  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t spare() const { return spare_; }

  // Negative for a moment if one thread subtracts bytes before another thread has added them.
  int64_t bytes() const { return bytes_; }
  void Add(uint64_t bytes) { bytes_ += static_cast<int64_t>(bytes); }
  void Subtract(uint64_t bytes) { bytes_ -= static_cast<int64_t>(bytes); }
  // Adds the bytes if they have room within bytes_max(); otherwise returns false and adds nothing.
  bool Reserve(uint64_t bytes);

 private:
  std::atomic<uint64_t> bytes_max_{0};
  std::atomic<uint64_t> spare_{0};
  std::atomic<int64_t> bytes_{0};
};

// Bytes that are reserved in a share until this object is destroyed. Used by one thread at a time.
class MemoryReservation {
 public:
  explicit MemoryReservation(MemoryShare& share) : share_(share) {}
  ~MemoryReservation() { share_.Subtract(bytes_); }
  MemoryReservation(const MemoryReservation&) = delete;
  MemoryReservation& operator=(const MemoryReservation&) = delete;
  // Reserves more bytes. Returns false, and reserves nothing, if the share has no room.
  bool More(uint64_t bytes) {
    if (!share_.Reserve(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  // Count reserves more bytes even if the share has no room. Less gives bytes back.
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

// What a holder uses and may use at most, for reports.
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

  // Upper bounds of the shares, which hold however much memory there is.
  struct Caps {
    uint64_t requests = uint64_t{2} << 30;
    uint64_t one_request = uint64_t{64} << 30;
    uint64_t replies = uint64_t{2} << 30;
    uint64_t staged = uint64_t{1} << 30;
    uint64_t snapshots = uint64_t{2} << 30;
    uint64_t buffers = uint64_t{256} << 20;
  };

  explicit MemoryBudget(uint64_t limit = kUnlimited);
  // The process's --memory-limit is divided into `parts` equal parts, of which `limit` is one.
  MemoryBudget(uint64_t limit, Caps caps, uint64_t parts = 1);

  uint64_t limit() const { return limit_; }
  // The whole --memory-limit of the process, of which limit() is a part.
  uint64_t process_limit() const { return limit_ * parts_; }
  // Returns "--memory-limit 1.0 GiB", or "the part 1.0 GiB of --memory-limit 2.0 GiB".
  std::string LimitText() const;
  bool limited() const { return limit_ < kUnlimited; }
  // Takes `bytes` as the size of all variables and slots, and divides the rest of the limit.
  // Returns RESOURCE_EXHAUSTED, and changes nothing, unless the rest has room for `round_bytes` and
  // for a push of `push_bytes`. `round_bytes` is 0 without synchronous training; otherwise the most
  // that gradient sums of rounds and the values before the newest round take, without rows of
  // tables. `round_rows` says that tables train in rounds; rounds() then counts their rows.
  absl::Status HoldVariables(uint64_t bytes, uint64_t push_bytes, uint64_t round_bytes = 0,
                             bool round_rows = false);
  // Returns RESOURCE_EXHAUSTED if there is no room for further variables and slots of `bytes`, with
  // pushes of `push_bytes`, in addition to the present ones.
  absl::Status CheckBeside(uint64_t bytes, uint64_t push_bytes) const;
  // Takes `bytes` as the present size of all variables and slots (growing tables gain rows all the
  // time), and divides the rest anew. If the rest is below a minimum (an eighth of the limit or, if
  // more, the room for a push), divides the minimum instead: rows are never taken back, and
  // training must go on. Returns true the first time since HoldVariables that the rest is below the
  // minimum.
  bool CountVariables(uint64_t bytes);

  // Whether a process that has `resident_bytes` in memory uses, besides its variables, more than
  // half of what the variables leave of the limit (of an eighth of the limit if they leave less).
  bool MuchBesideVariables(uint64_t resident_bytes) const;

  const std::shared_ptr<MemoryShare>& requests() const { return requests_; }
  const std::shared_ptr<MemoryShare>& replies() const { return replies_; }
  const std::shared_ptr<MemoryShare>& staged() const { return staged_; }
  const std::shared_ptr<MemoryShare>& snapshots() const { return snapshots_; }
  const std::shared_ptr<MemoryShare>& buffers() const { return buffers_; }
  const std::shared_ptr<MemoryShare>& restores() const { return restores_; }
  // The share for rows of tables in gradient sums of rounds, and for their previous values.
  const std::shared_ptr<MemoryShare>& rounds() const { return round_rows_; }

  // Returns the use of every holder, variables first, and of free shared memory.
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
  // CountVariables has returned true since the last HoldVariables.
  std::atomic<bool> outgrown_{false};
  const std::shared_ptr<MemoryShare> requests_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> replies_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> staged_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> snapshots_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> buffers_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> restores_ = std::make_shared<MemoryShare>();
  const std::shared_ptr<MemoryShare> round_rows_ = std::make_shared<MemoryShare>();
};

}  // namespace paracord
