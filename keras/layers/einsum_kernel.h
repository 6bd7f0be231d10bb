// An einsum of two operands as a batched matmul, with copies that permute the axes where needed.
// Made by a Layer; owned by the graph like every Kernel.
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

// The equation of two operands, `input` and `kernel`: a label (a letter) for each axis.
struct Equation {
  std::string input, kernel, output;
  std::map<char, int64_t> sizes;  // keyed by label; the batch counts all examples

  // INVALID_ARGUMENT for axes that a matmul cannot have, such as an axis of one operand alone.
  absl::Status Check() const;

  // Returns the labels of `of` that are in `a` (or not, by `in_a`) and in `b` (or not, by `in_b`).
  static std::string Pick(const std::string& of, const std::string& a, bool in_a,
                          const std::string& b, bool in_b);
  std::string shared() const { return Pick(input, kernel, true, output, true); }
  std::string rows() const { return Pick(input, kernel, false, output, true); }
  std::string summed() const { return Pick(input, kernel, true, output, false); }
  std::string columns() const { return Pick(kernel, input, false, output, true); }

  Shape ShapeOf(const std::string& labels) const;
  int64_t Count(const std::string& labels) const { return Elements(ShapeOf(labels)); }
};

// With `second`, the kernel is the second input instead of the first parameter. `bias` walks from
// the output to a bias of `bias_elements`, the second parameter; no axes: no bias.
absl::StatusOr<std::unique_ptr<Kernel>> MakeEinsumKernel(Ops& ops, Equation equation, bool second,
                                                         Walk bias, int64_t bias_elements);

}  // namespace paracord
