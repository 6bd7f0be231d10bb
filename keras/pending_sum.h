// A sum of numbers that operations leave: they are there after Ops::Finish (ops.h). One thread.
#pragma once

#include <deque>

namespace paracord {

class PendingSum {
 public:
  // Where a number goes that counts times `factor`. Lives as long as the sum.
  double* Add(double factor) { return &parts_.emplace_back(Part{factor}).number; }
  // In the order of the parts.
  double Total() const {
    double total = 0;
    for (const Part& part : parts_) total += part.factor * part.number;
    return total;
  }

 private:
  struct Part {
    double factor = 1;
    double number = 0;
  };
  std::deque<Part> parts_;  // which never move
};

}  // namespace paracord
