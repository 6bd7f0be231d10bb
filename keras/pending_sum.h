// A weighted sum of numbers that operations write at the next Device::Finish. Used by one thread.
#pragma once

#include <deque>

namespace paracord {

class PendingSum {
 public:
  // Returns the place of a number that counts times `factor`. It is valid as long as this object.
  double* Add(double factor) { return &parts_.emplace_back(Part{factor}).number; }
  // The sum in the order of Add, once the numbers are there.
  double Total() const { return After(0); }
  // The sum that goes on from `total`, in the order of Add.
  double After(double total) const {
    for (const Part& part : parts_) total += part.factor * part.number;
    return total;
  }

 private:
  struct Part {
    double factor = 1;
    double number = 0;
  };
  std::deque<Part> parts_;  // a deque does not move its elements
};

}  // namespace paracord
