// Numbers computed by a Keras 2 model from shapes alone (tf.shape(x)[1] * 2, tf.range, tf.zeros).
// Known when the graph is built, up to factors of the batch size. Pure.
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
  std::vector<bool> of_batch;  // for each value: a multiple of the batch size
};

ConstantNumbers KnownArray(const NumberArray& array);
// Returns the result of tf.shape for a tensor whose examples have this shape.
ConstantNumbers KnownShape(const Shape& example);

// Returns the numbers as an argument: a number or lists, with null for the batch size.
absl::StatusOr<nlohmann::json> KnownLiteral(const ConstantNumbers& numbers);
// Returns the numbers as an operand. An error if they depend on the batch size.
absl::StatusOr<NumberArray> KnownOperand(const ConstantNumbers& numbers);

// Returns the known numbers of a tensor among a call's arguments.
using KnownInput = std::function<absl::StatusOr<ConstantNumbers>(const nlohmann::json& tensor)>;

// Whether FoldNumbers can compute the operation.
bool FoldsNumbers(const std::string& operation);
// Whether the operation makes numbers from sizes: Zeros, Ones, Fill, Range.
bool MakesNumbers(const std::string& operation);
// Computes the operation. Several outputs are concatenated along axis 0.
absl::StatusOr<ConstantNumbers> FoldNumbers(const std::string& operation,
                                            const nlohmann::json& args,
                                            const nlohmann::json& kwargs, const KnownInput& input);

}  // namespace paracord
