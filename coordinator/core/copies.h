// The second holders of partitions, in an asynchronous job whose key `copies` is 1. A second ps
// prepares each checkpoint beside what it serves. When a ps is lost, a layout in which the seconds
// are the first holders of its partitions is written into job.state, and then training goes on in
// a new generation, with what the seconds prepared. Owned by the core (core_copies.cc), which says
// what happens. It emits nothing itself.
//
// Invariants: no session begins, and no ps is loaded, between the decision that seconds take over
// and the write that makes it durable. Seconds serve nothing and stand in no ledger.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/layout.h"
#include "nlohmann/json.hpp"

namespace paracord {

struct JobView;

class Copies {
 public:
  // A layout in which seconds take over is being written.
  bool writing() const { return writing_; }
  void Write() { writing_ = true; }
  void Written() {
    writing_ = false;
    ++promotions_;
  }
  // How often seconds have taken over, in the life of this coordinator.
  uint64_t promotions() const { return promotions_; }

 private:
  bool writing_ = false;
  uint64_t promotions_ = 0;
};

// Returns the partitions whose second ps this one is, ascending by id.
std::vector<uint32_t> SecondsOn(const std::optional<Layout>& layout, uint32_t ps);

// For people; null for a job without copies. Its keys are "partitions", "with_both": how many have
// a second ps that has prepared some checkpoint, "bytes_with_one": of the others, "promotions", and
// "by_ps": for each its "partitions" as second, "with_both" of these, the "checkpoint" that it has
// prepared, and the "problem" that keeps it from that.
nlohmann::json CopiesJson(const JobView& job);

}  // namespace paracord
