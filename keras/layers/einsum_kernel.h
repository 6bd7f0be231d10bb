// An einsum of two operands as a batched matmul, with copies that permute the axes where needed.
// Owned by a Layer.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "keras/layers/layer.h"
#include "keras/layers/walks.h"

namespace paracord {

inline bool HasLabel(const std::string& labels, char label) {
  return labels.find(label) != std::string::npos;
}

// The equation of two operands: a label (a letter) for each axis.
struct Equation {
  std::string input, kernel, output;
  std::map<char, int64_t> sizes;  // the batch label counts all examples

  // Returns an error naming axes impossible in a matmul.
  absl::Status Check() const;

  // The labels of `of` selected by membership in `a` and in `b`.
  static std::string Pick(const std::string& of, const std::string& a, bool in_a,
                          const std::string& b, bool in_b);
  std::string shared() const { return Pick(input, kernel, true, output, true); }
  std::string rows() const { return Pick(input, kernel, false, output, true); }
  std::string summed() const { return Pick(input, kernel, true, output, false); }
  std::string columns() const { return Pick(kernel, input, false, output, true); }

  Shape ShapeOf(const std::string& labels) const;
  int64_t Count(const std::string& labels) const { return Elements(ShapeOf(labels)); }
};

// With `second`, the kernel is the second input instead of a variable. `bias` walks from the output
// to the bias of `bias_elements`; no axes mean no bias.
absl::StatusOr<std::unique_ptr<Kernel>> MakeEinsumKernel(Ops& ops, Equation equation, bool second,
                                                         Walk bias, int64_t bias_elements);

}  // namespace paracord
