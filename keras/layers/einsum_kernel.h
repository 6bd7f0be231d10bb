// An einsum of two operands as a batched matmul, with copies that permute the axes where needed.
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

// The equation of an einsum of `input` and `kernel`. A string has for each axis a label, one char.
struct Equation {
  std::string input, kernel, output;
  std::map<char, int64_t> sizes;  // of the axes, keyed by label

  // INVALID_ARGUMENT for axes that a matmul cannot have, such as an axis of one operand alone.
  absl::Status Check() const;

  // Returns the labels of `of` that are in `a` (if `in_a`, else not in `a`) and in `b` (likewise).
  static std::string Pick(const std::string& of, const std::string& a, bool in_a,
                          const std::string& b, bool in_b);
  std::string shared() const { return Pick(input, kernel, true, output, true); }
  std::string rows() const { return Pick(input, kernel, false, output, true); }
  std::string summed() const { return Pick(input, kernel, true, output, false); }
  std::string columns() const { return Pick(kernel, input, false, output, true); }

  Shape ShapeOf(const std::string& labels) const;
  int64_t Count(const std::string& labels) const { return Elements(ShapeOf(labels)); }
};

// With `second`, the equation's kernel is the second input; otherwise it is the first parameter.
// The second parameter is a bias of `bias_elements` elements, and `bias` walks from the output to
// it. A walk without axes: there is no bias.
absl::StatusOr<std::unique_ptr<Kernel>> MakeEinsumKernel(Ops& ops, Equation equation, bool second,
                                                         Walk bias, int64_t bias_elements);

}  // namespace paracord
