// The second holders of partitions, in a job whose key `copies` is 1. In asynchronous training a
// second holder prepares its partitions: it reads them from each checkpoint into memory. In
// synchronous training it takes part in every round. When a ps is lost, the core writes a layout
// (which ps hold each partition) into job.state in which the second holders of the lost ps's
// partitions become their first holders. A new generation then goes on with the state that the
// second holders have. Owned by the
// core (core_copies.cc, core_hot_copies.cc), which makes the decisions. Emits no effects.
//
// Invariants: from the decision that second holders take over until job.state contains it, no
// worker's session begins and no ps is told to load partitions. In asynchronous training second
// holders answer no requests for their partitions and enter no batch into them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/layout.h"
#include "nlohmann/json.hpp"

namespace paracord {

struct JobView;

// How long, after a ps was lost or came back, partitions with one holder get no second one: a lost
// ps may return at once, and more ps that return can share the copies.
inline constexpr int64_t kHealMs = 5000;

class Copies {
 public:
  // Whether a layout is being written to job.state that has to be durable before training goes on
  // by it. `promotes` says whether some second holders become first holders.
  bool writing() const { return writing_; }
  void Write(bool promotes) {
    writing_ = true;
    promotes_ = promotes;
  }
  void Written() {
    writing_ = false;
    promotions_ += promotes_ ? 1 : 0;
  }
  // How often second holders have taken over since this coordinator started.
  uint64_t promotions() const { return promotions_; }

  // While training goes on, partitions get no second holder before `ms`: a ps was lost or came
  // back, or a move to give partitions second holders was given up.
  void HealAfter(int64_t ms) { heal_at_ms_ = ms; }
  bool MayHeal(int64_t now_ms) const { return now_ms >= heal_at_ms_; }

 private:
  bool writing_ = false;
  bool promotes_ = false;
  int64_t heal_at_ms_ = 0;
  uint64_t promotions_ = 0;
};

// Returns the partitions that have this ps as second holder, ascending by id.
std::vector<uint32_t> SecondsOn(const std::optional<Layout>& layout, uint32_t ps);

// Describes the copies for people; null for a job without copies or without a layout yet. Keys:
// "partitions", the number of partitions of the job; "with_both", how many of them have a second
// holder that serves or, in asynchronous training, has prepared a checkpoint; "bytes_with_one", the
// bytes of all others; "promotions"; and "by_ps", an entry for each ps with the number of
// "partitions" of which it is the second holder, how many of these are ready ("with_both"), the
// prepared "checkpoint", and the "problem" that prevents preparation.
nlohmann::json CopiesJson(const JobView& job);

}  // namespace paracord
