// Numbers that a Keras 2 model computes from shapes alone (tf.shape(x)[1] * 2, tf.range, tf.zeros).
// They are known when the graph is built, up to a factor of the batch size. Pure.
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
// Returns the result of tf.shape: the batch size, and then the shape of an example.
ConstantNumbers KnownShape(const Shape& example);

// Returns the numbers as a literal argument: a number or nested lists, with null for the batch
// size. INVALID_ARGUMENT for other multiples of the batch size.
absl::StatusOr<nlohmann::json> KnownLiteral(const ConstantNumbers& numbers);
// Returns the numbers as an operand. INVALID_ARGUMENT if they depend on the batch size.
absl::StatusOr<NumberArray> KnownOperand(const ConstantNumbers& numbers);

// Returns the known numbers of an input of the call. `tensor` is {kTensorKey: the input's number}.
using KnownInput = std::function<absl::StatusOr<ConstantNumbers>(const nlohmann::json& tensor)>;

// Whether FoldNumbers can compute the operation, named as in Keras 3.
bool FoldsNumbers(const std::string& operation);
// Whether the operation makes an array of a given size: Zeros, Ones, Fill, Range.
bool MakesNumbers(const std::string& operation);
// Computes the operation. The outputs of an Unstack are concatenated along axis 0. The message of
// INVALID_ARGUMENT begins with a verb ("takes ...") and lacks the layer.
absl::StatusOr<ConstantNumbers> FoldNumbers(const std::string& operation,
                                            const nlohmann::json& args,
                                            const nlohmann::json& kwargs, const KnownInput& input);

}  // namespace paracord
