// A weighted sum of numbers that operations write by the next Device::Finish. Used by one thread.
#pragma once

#include <deque>

namespace paracord {

class PendingSum {
 public:
  // Adds a number with weight `factor`, and returns the address, valid for this object's life, to
  // which an operation writes the number.
  double* Add(double factor) { return &parts_.emplace_back(Part{factor}).number; }
  // Returns the sum, after Device::Finish.
  double Total() const { return After(0); }
  // Returns `total` plus each number times its weight, added one by one in the order of Add.
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
