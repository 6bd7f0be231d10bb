// Numbers that a Keras 2 model computes from shapes alone (tf.shape(x)[1] * 2, tf.range, tf.zeros).
// When the graph is built, each of them is known, or is a known multiple of the batch size. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keras/layers/layer.h"
#include "keras/layers/number_array.h"
#include "nlohmann/json.hpp"

namespace paracord {

struct ConstantNumbers {
  Shape shape;
  std::vector<double> values;  // row-major
  std::vector<bool> of_batch;  // true: the number is the value times the batch size
};

ConstantNumbers KnownArray(const NumberArray& array);
// Returns the result of tf.shape: the batch size, then the sizes of `example`, an example's shape.
ConstantNumbers KnownShape(const Shape& example);

// Returns the numbers as JSON: a number, or nested lists of numbers. Null stands for the batch
// size. INVALID_ARGUMENT if a number is the batch size times anything but 1.
absl::StatusOr<nlohmann::json> KnownLiteral(const ConstantNumbers& numbers);
// Returns the numbers as an operand of a call. INVALID_ARGUMENT if one depends on the batch size.
absl::StatusOr<NumberArray> KnownOperand(const ConstantNumbers& numbers);

// Returns the numbers of an input of the operation. `tensor` is {kTensorKey: the input's number}.
using KnownInput = std::function<absl::StatusOr<ConstantNumbers>(const nlohmann::json& tensor)>;

// Whether FoldNumbers computes the operation, named as in Keras 3, from inputs that are such
// numbers.
bool FoldsNumbers(const std::string& operation);
// Whether the operation makes an array of a given size, which FoldNumbers computes as well: Zeros,
// Ones, Fill, Range.
bool MakesNumbers(const std::string& operation);
// Computes the operation. For an Unstack, returns its input: output i is element i along axis 0.
// INVALID_ARGUMENT does not name the layer.
absl::StatusOr<ConstantNumbers> FoldNumbers(const std::string& operation,
                                            const nlohmann::json& args,
                                            const nlohmann::json& kwargs, const KnownInput& input);

}  // namespace paracord
