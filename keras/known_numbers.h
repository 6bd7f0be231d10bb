// Numbers that a model of Keras 2 computes from shapes alone (tf.shape(x)[1] * 2, tf.range,
// tf.zeros). They are known when the graph is built, except for factors of the batch's size. Pure.
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

struct KnownNumbers {
  Shape shape;
  std::vector<double> values;  // row-major
  std::vector<bool> of_batch;  // of each value: it is this times the size of the batch
};

KnownNumbers KnownArray(const NumberArray& array);
// Returns the result of tf.shape for a tensor whose examples have this shape.
KnownNumbers KnownShape(const Shape& example);

// Returns the numbers as an argument: a number or lists of them, with null for the size of the
// batch.
absl::StatusOr<nlohmann::json> KnownLiteral(const KnownNumbers& numbers);
// Returns the numbers as an operand. An error if they depend on the size of the batch.
absl::StatusOr<NumberArray> KnownOperand(const KnownNumbers& numbers);

// Returns the known numbers of a tensor among a call's arguments.
using KnownInput = std::function<absl::StatusOr<KnownNumbers>(const nlohmann::json& tensor)>;

// Whether FoldNumbers can compute the operation.
bool FoldsNumbers(const std::string& operation);
// Whether the operation makes numbers of sizes: Zeros, Ones, Fill, Range.
bool MakesNumbers(const std::string& operation);
// Computes the operation. If it has several outputs, they are all in the result, along axis 0.
absl::StatusOr<KnownNumbers> FoldNumbers(const std::string& operation, const nlohmann::json& args,
                                         const nlohmann::json& kwargs, const KnownInput& input);

}  // namespace paracord
