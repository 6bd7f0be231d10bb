// The memory budget of a process is divided among those that hold memory: variables take what they
// take, and of what they leave every other holder has a share. A holder reserves bytes before it
// takes them, or counts what has arrived and then waits, so that the sum stays below the limit of
// the process. Only the rows of growing tables may take more than that: they are counted and never
// refused, and an eighth of the limit stays for the others. Thread-safe; owned by main, shares also
// by whoever counts in them, because replies outlive the others.
//
// The budget does not count one thing: while a ps writes a checkpoint, each chunk of its dense
// variables and slots that is changed meanwhile is there twice (copy on write), which is at worst
// all of them once more.
//
// Half of what the variables leave is for one request that must be able to go on (net/intake.h),
// three sixteenths are for all other requests. Replies that slow readers hold have an eighth, and
// another sixteenth where readers are waited for no longer (store/pinned_bytes.h). Gradients that
// come before their exchange have a sixteenth, and so has what a snapshot copies (partitions, and
// rows before pushes change them) together with receive buffers that wait for their next use. Where
// tables form rounds, the rows of the round under way and those before it have a quarter of what
// variables leave, and the others share the rest. A restore may take all that the variables leave:
// it has it to itself, since a ps that is being loaded serves nobody.
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

  // `spare` may be held beyond `bytes_max` in the cases that the holder says.
  explicit MemoryShare(uint64_t bytes_max = kUnlimited, uint64_t spare = kUnlimited) {
    SetMax(bytes_max, spare);
  }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  void SetMax(uint64_t bytes_max, uint64_t spare);
  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t spare() const { return spare_; }

  // Below 0 for a moment if a holder subtracts before it adds.
  int64_t bytes() const { return bytes_; }
  void Add(uint64_t bytes) { bytes_ += static_cast<int64_t>(bytes); }
  void Subtract(uint64_t bytes) { bytes_ -= static_cast<int64_t>(bytes); }
  // Adds the bytes if the share has so much left. Otherwise returns false and adds nothing.
  bool Reserve(uint64_t bytes);

 private:
  std::atomic<uint64_t> bytes_max_{0};
  std::atomic<uint64_t> spare_{0};
  std::atomic<int64_t> bytes_{0};
};

// Bytes reserved in a share until this is destroyed.
class MemoryReservation {
 public:
  explicit MemoryReservation(MemoryShare& share) : share_(share) {}
  ~MemoryReservation() { share_.Subtract(bytes_); }
  MemoryReservation(const MemoryReservation&) = delete;
  MemoryReservation& operator=(const MemoryReservation&) = delete;
  // Reserves more. Returns false if the share has not so much left.
  bool More(uint64_t bytes) {
    if (!share_.Reserve(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  // Takes more even if the share has not so much left, and gives some back.
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

// A line of what a process holds.
struct MemoryUse {
  std::string holder;  // "variables", "requests", ...
  uint64_t bytes = 0;
  uint64_t bytes_max = 0;
};

class MemoryBudget {
 public:
  static constexpr uint64_t kUnlimited = MemoryShare::kUnlimited;
  // The program itself, its libraries and threads.
  static constexpr uint64_t kProgramBytes = uint64_t{64} << 20;
  // With less nothing useful can be done.
  static constexpr uint64_t kLimitMin = uint64_t{128} << 20;

  // No share becomes larger than these, however much memory there is.
  struct Caps {
    uint64_t requests = uint64_t{2} << 30;
    uint64_t one_request = uint64_t{64} << 30;
    uint64_t replies = uint64_t{2} << 30;
    uint64_t staged = uint64_t{1} << 30;
    uint64_t snapshots = uint64_t{2} << 30;
    uint64_t buffers = uint64_t{256} << 20;
  };

  explicit MemoryBudget(uint64_t limit = kUnlimited);
  // `limit` is one of `parts` equal parts into which the process divides its --memory-limit.
  MemoryBudget(uint64_t limit, Caps caps, uint64_t parts = 1);

  uint64_t limit() const { return limit_; }
  // Names the limit in messages: "--memory-limit 1.0 GiB", or "the part 1.0 GiB of --memory-limit
  // 2.0 GiB".
  std::string LimitText() const;
  bool limited() const { return limit_ < kUnlimited; }
  // Divides what is left when variables and their slots take `bytes`. RESOURCE_EXHAUSTED, and
  // nothing changes, unless a push of `push_bytes` fits beside them and beside `round_bytes`, which
  // in synchronous training the sums of rounds and the values before them take at their worst.
  // `round_rows`: tables form rounds, too, whose rows count in `rounds`.
  absl::Status HoldVariables(uint64_t bytes, uint64_t push_bytes, uint64_t round_bytes = 0,
                             bool round_rows = false);
  // Counts what the variables take by now, since growing tables get rows all the time, and divides
  // anew what is left, but at least an eighth of the limit, and room for a push: what the rows take
  // is never taken back, and without room for requests training would stop for ever. Returns true
  // the first time since HoldVariables that less than that is left.
  bool CountVariables(uint64_t bytes);

  // Whether a process of which so much is resident has more beside its variables than half of what
  // they leave.
  bool MuchBesideVariables(uint64_t resident_bytes) const;

  const std::shared_ptr<MemoryShare>& requests() const { return requests_; }
  const std::shared_ptr<MemoryShare>& replies() const { return replies_; }
  const std::shared_ptr<MemoryShare>& staged() const { return staged_; }
  const std::shared_ptr<MemoryShare>& snapshots() const { return snapshots_; }
  const std::shared_ptr<MemoryShare>& buffers() const { return buffers_; }
  const std::shared_ptr<MemoryShare>& restores() const { return restores_; }
  // The rows of tables in sums of rounds, and before them.
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
