// Numbers that a model of Keras 2 computes of shapes alone (tf.shape(x)[1] * 2, tf.range,
// tf.zeros): they are known when the graph is built, but for the size of the batch, of which some
// are a multiple. Pure.
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
// What tf.shape gives of a tensor whose examples have this shape.
KnownNumbers KnownShape(const Shape& example);

// As an argument: numbers, lists of them, and null for the size of the batch.
absl::StatusOr<nlohmann::json> KnownLiteral(const KnownNumbers& numbers);
// As an operand, which does not depend on the batch.
absl::StatusOr<NumberArray> KnownOperand(const KnownNumbers& numbers);

// The numbers of the i-th input of the call.
using KnownInput = std::function<absl::StatusOr<KnownNumbers>(const nlohmann::json& tensor)>;

// Whether an operation can be computed of known numbers.
bool FoldsNumbers(const std::string& operation);
// Whether the operation makes numbers of sizes: Zeros, Ones, Fill, Range.
bool MakesNumbers(const std::string& operation);
// Computes it; of an operation with several outputs all of them, along axis 0.
absl::StatusOr<KnownNumbers> FoldNumbers(const std::string& operation, const nlohmann::json& args,
                                         const nlohmann::json& kwargs, const KnownInput& input);

}  // namespace paracord
