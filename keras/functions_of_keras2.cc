// Lists the functions of TensorFlow that a model of Keras 2 may call.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "keras/calls.h"

namespace paracord {
namespace {

// Pairs of a TensorFlow function and its Keras 3 name.
constexpr std::pair<const char*, const char*> kOperationsOfKeras2[] = {
    {"__operators__.add", "Add"},
    {"__operators__.getitem", "GetItem"},
    {"broadcast_to", "BroadcastTo"},
    {"cast", "Cast"},
    {"clip_by_value", "Clip"},
    {"compat.v1.floor_div", "FloorDivide"},
    {"compat.v1.gather", "Take"},
    {"compat.v1.math.l2_normalize", "Normalize"},
    {"compat.v1.norm", "Norm"},
    {"compat.v1.pad", "Pad"},
    {"compat.v1.rank", "Rank"},
    {"compat.v1.shape", "Shape"},
    {"compat.v1.size", "Size"},
    {"compat.v1.squeeze", "Squeeze"},
    {"compat.v1.transpose", "Transpose"},
    {"compat.v1.where_v2", "Where"},
    {"concat", "Concatenate"},
    {"ensure_shape", "EnsureShape"},
    {"expand_dims", "ExpandDims"},
    {"fill", "Fill"},
    {"gather", "Take"},
    {"identity", "ConvertToTensor"},
    {"linalg.matmul", "Matmul"},
    {"linalg.norm", "Norm"},
    {"math.abs", "Absolute"},
    {"math.add", "Add"},
    {"math.add_n", "AddN"},
    {"math.argmax", "Argmax"},
    {"math.argmin", "Argmin"},
    {"math.atan", "Arctan"},
    {"math.ceil", "Ceil"},
    {"math.cos", "Cos"},
    {"math.cosh", "Cosh"},
    {"math.cumsum", "Cumsum"},
    {"math.divide", "Divide"},
    {"math.equal", "Equal"},
    {"math.erf", "Erf"},
    {"math.exp", "Exp"},
    {"math.expm1", "Expm1"},
    {"math.floor", "Floor"},
    {"math.floordiv", "FloorDivide"},
    {"math.floormod", "Mod"},
    {"math.greater", "Greater"},
    {"math.greater_equal", "GreaterEqual"},
    {"math.l2_normalize", "Normalize"},
    {"math.less", "Less"},
    {"math.less_equal", "LessEqual"},
    {"math.log", "Log"},
    {"math.log1p", "Log1p"},
    {"math.log_sigmoid", "LogSigmoid"},
    {"math.logical_and", "LogicalAnd"},
    {"math.logical_not", "LogicalNot"},
    {"math.logical_or", "LogicalOr"},
    {"math.maximum", "Maximum"},
    {"math.minimum", "Minimum"},
    {"math.multiply", "Multiply"},
    {"math.negative", "Negative"},
    {"math.not_equal", "NotEqual"},
    {"math.pow", "Power"},
    {"math.reciprocal", "Reciprocal"},
    {"math.reduce_all", "All"},
    {"math.reduce_any", "Any"},
    {"math.reduce_logsumexp", "Logsumexp"},
    {"math.reduce_max", "Max"},
    {"math.reduce_mean", "Mean"},
    {"math.reduce_min", "Min"},
    {"math.reduce_prod", "Prod"},
    {"math.reduce_std", "Std"},
    {"math.reduce_sum", "Sum"},
    {"math.reduce_variance", "Var"},
    {"math.round", "Round"},
    {"math.rsqrt", "Rsqrt"},
    {"math.sigmoid", "Sigmoid"},
    {"math.sign", "Sign"},
    {"math.sin", "Sin"},
    {"math.sinh", "Sinh"},
    {"math.softplus", "Softplus"},
    {"math.sqrt", "Sqrt"},
    {"math.square", "Square"},
    {"math.subtract", "Subtract"},
    {"math.tan", "Tan"},
    {"math.tanh", "Tanh"},
    {"math.truediv", "Divide"},
    {"nn.elu", "Elu"},
    {"nn.gelu", "Gelu"},
    {"nn.leaky_relu", "LeakyRelu"},
    {"nn.log_softmax", "LogSoftmax"},
    {"nn.relu", "Relu"},
    {"nn.relu6", "Relu6"},
    {"nn.selu", "Selu"},
    {"nn.silu", "Silu"},
    {"nn.softmax", "Softmax"},
    {"nn.softplus", "Softplus"},
    {"nn.softsign", "Softsign"},
    {"norm", "Norm"},
    {"one_hot", "OneHot"},
    {"ones", "Ones"},
    {"ones_like", "OnesLike"},
    {"pad", "Pad"},
    {"range", "Range"},
    {"rank", "Rank"},
    {"repeat", "Repeat"},
    {"reshape", "Reshape"},
    {"reverse", "Flip"},
    {"roll", "Roll"},
    {"sequence_mask", "SequenceMask"},
    {"shape", "Shape"},
    {"size", "Size"},
    {"slice", "Slice"},
    {"split", "Split"},
    {"squeeze", "Squeeze"},
    {"stack", "Stack"},
    {"stop_gradient", "StopGradient"},
    {"tile", "Tile"},
    {"transpose", "Transpose"},
    {"unstack", "Unstack"},
    {"where", "Where"},
    {"zeros", "Zeros"},
    {"zeros_like", "ZerosLike"},
};

}  // namespace

std::string OperationOfKeras2(const std::string& function) {
  for (const auto& [name, operation] : kOperationsOfKeras2) {
    if (function == name) return operation;
  }
  return "";
}

std::string SupportedOfKeras2() {
  return absl::StrJoin(kOperationsOfKeras2, ", ", [](std::string* text, const auto& entry) {
    absl::StrAppend(text, entry.first);
  });
}

}  // namespace paracord
