// A weighted sum of numbers written by operations at the next Device::Finish. Used by one thread.
#pragma once

#include <deque>

namespace paracord {

class PendingSum {
 public:
  // Returns the place of a number with weight `factor`, valid for this object's life.
  double* Add(double factor) { return &parts_.emplace_back(Part{factor}).number; }
  // The sum in the order of Add, once the numbers are there.
  double Total() const { return After(0); }
  // The sum continued from `total`, in the order of Add.
  double After(double total) const {
    for (const Part& part : parts_) total += part.factor * part.number;
    return total;
  }

 private:
  struct Part {
    double factor = 1;
    double number = 0;
  };
  std::deque<Part> parts_;  // a deque keeps its elements in place
};

}  // namespace paracord
