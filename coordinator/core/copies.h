// The second holders of partitions, in a job whose key `copies` is 1. In asynchronous training a
// second ps prepares each checkpoint beside what it serves; in synchronous training it takes part
// in every round. When a ps is lost, a layout in which the seconds are the first holders of its
// partitions is written into job.state, and then training goes on in a new generation, with what
// the seconds have. Owned by the core (core_copies.cc, core_hot_copies.cc), which says what
// happens. It emits nothing itself.
//
// Invariants: no session begins, and no ps is loaded, between the decision that seconds take over
// and the write that makes it durable. In asynchronous training seconds serve nothing and stand in
// no ledger.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/layout.h"
#include "nlohmann/json.hpp"

namespace paracord {

struct JobView;

// Partitions with one holder get a second one so long after a ps was lost, which may come back in
// no time, or has come back, because others may follow it and share the copies.
inline constexpr int64_t kHealMs = 5000;

class Copies {
 public:
  // A layout with other seconds is being written. `promotes`: some of them take over.
  bool writing() const { return writing_; }
  void Write(bool promotes) {
    writing_ = true;
    promotes_ = promotes;
  }
  void Written() {
    writing_ = false;
    promotions_ += promotes_ ? 1 : 0;
  }
  // How often seconds have taken over, in the life of this coordinator.
  uint64_t promotions() const { return promotions_; }

  // Partitions get no second holders before this time, since a ps was lost or came back, or since
  // the newest try failed.
  void HealAfter(int64_t ms) { heal_at_ms_ = ms; }
  bool MayHeal(int64_t now_ms) const { return now_ms >= heal_at_ms_; }

 private:
  bool writing_ = false;
  bool promotes_ = false;
  int64_t heal_at_ms_ = 0;
  uint64_t promotions_ = 0;
};

// Returns the partitions whose second ps this one is, ascending by id.
std::vector<uint32_t> SecondsOn(const std::optional<Layout>& layout, uint32_t ps);

// For people; null for a job without copies. Its keys are "partitions", "with_both": how many have
// a second ps that serves them or, in asynchronous training, has prepared some checkpoint,
// "bytes_with_one": of the others, "promotions", and "by_ps": for each its "partitions" as second,
// "with_both" of these, the "checkpoint" that it has prepared, and the "problem" that keeps it from
// that.
nlohmann::json CopiesJson(const JobView& job);

}  // namespace paracord
