// A product of matrices along the axes that an equation names, between copies that put the axes in
// order where they are not. Owned by a Layer.
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

// Of two operands of so many axes, a label an axis.
struct Equation {
  std::string input, kernel, output;
  std::map<char, int64_t> sizes;  // that of the batch is of all examples

  // Of whatever has labels; an error names the axes that no product of matrices has.
  absl::Status Check() const;

  // The labels of `of` that the others have or have not.
  static std::string Pick(const std::string& of, const std::string& a, bool in_a,
                          const std::string& b, bool in_b);
  std::string shared() const { return Pick(input, kernel, true, output, true); }
  std::string rows() const { return Pick(input, kernel, false, output, true); }
  std::string summed() const { return Pick(input, kernel, true, output, false); }
  std::string columns() const { return Pick(kernel, input, false, output, true); }

  Shape ShapeOf(const std::string& labels) const;
  int64_t Count(const std::string& labels) const { return Elements(ShapeOf(labels)); }
};

// `second`: the kernel is the second input, and no variable. `bias`: from the output to it, of so
// many elements; without axes if there is none.
absl::StatusOr<std::unique_ptr<Kernel>> MakeEinsumKernel(Ops& ops, Equation equation, bool second,
                                                         Walk bias, int64_t bias_elements);

}  // namespace paracord
