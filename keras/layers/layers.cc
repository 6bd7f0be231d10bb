#include "keras/layers/layers.h"

#include <algorithm>
#include <set>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "config/nearest.h"
#include "config/unknown_name.h"
#include "keras/preprocessing/step.h"

namespace paracord {
namespace {

struct LayerEntry {
  std::string_view class_name;
  std::unique_ptr<Layer> (*make)(LayerConfig&);
};

constexpr LayerEntry kLayers[] = {
    {"Activation", MakeActivation},
    {"ActivityRegularization", MakeActivityRegularization},
    {"Add", MakeMerge},
    {"AdditiveAttention", MakeScoreAttention},
    {"AlphaDropout", MakeDropout},
    {"Attention", MakeScoreAttention},
    {"Average", MakeMerge},
    {"AveragePooling1D", MakePooling},
    {"AveragePooling2D", MakePooling},
    {"AveragePooling3D", MakeVolumePooling},
    {"BatchNormalization", MakeBatchNormalization},
    {"Bidirectional", MakeBidirectional},
    {"CenterCrop", MakeImageSize},
    {"Concatenate", MakeConcatenate},
    {"Conv1D", MakeConv},
    {"Conv1DTranspose", MakeConvTranspose},
    {"Conv2D", MakeConv},
    {"Conv2DTranspose", MakeConvTranspose},
    {"Conv3D", MakeVolumeConv},
    {"Cropping1D", MakeFrame},
    {"Cropping2D", MakeFrame},
    {"Cropping3D", MakeFrame},
    {"Custom>CustomScaleLayer", MakeCustomScaleLayer},  // its name in Keras 2
    {"CustomScaleLayer", MakeCustomScaleLayer},
    {"Dense", MakeDense},
    {"DepthwiseConv1D", MakeConv},
    {"DepthwiseConv2D", MakeConv},
    {"Dot", MakeDot},
    {"DotInteraction", MakeDotInteraction},
    {"Dropout", MakeDropout},
    {"ELU", MakeActivation},
    {"EinsumDense", MakeEinsumDense},
    {"EmbedReduce", MakeEmbedReduce},
    {"Embedding", MakeEmbedding},
    {"FeatureCross", MakeFeatureCross},
    {"Flatten", MakeFlatten},
    {"GaussianDropout", MakeDropout},
    {"GaussianNoise", MakeDropout},
    {"GRU", MakeRecurrent},
    {"GroupNormalization", MakeGroupNormalization},
    {"GlobalAveragePooling1D", MakeGlobalPooling},
    {"GlobalAveragePooling2D", MakeGlobalPooling},
    {"GlobalAveragePooling3D", MakeGlobalPooling},
    {"GlobalMaxPooling1D", MakeGlobalPooling},
    {"GlobalMaxPooling2D", MakeGlobalPooling},
    {"GlobalMaxPooling3D", MakeGlobalPooling},
    {"Identity", MakeIdentity},
    {"LSTM", MakeRecurrent},
    {"LayerNormalization", MakeLayerNormalization},
    {"LayerScale", MakeLayerScale},
    {"LeakyReLU", MakeActivation},
    {"Masking", MakeMasking},
    {"MaxPooling1D", MakePooling},
    {"MaxPooling2D", MakePooling},
    {"MaxPooling3D", MakeVolumePooling},
    {"Maximum", MakeMerge},
    {"Minimum", MakeMerge},
    {"MultiHeadAttention", MakeAttention},
    {"Multiply", MakeMerge},
    {"Normalization", MakeNormalization},
    {"PReLU", MakePRelu},
    {"Permute", MakePermute},
    {"RMSNormalization", MakeRmsNormalization},
    {"RandomBrightness", MakeImageColour},
    {"RandomContrast", MakeImageColour},
    {"RandomCrop", MakeImageSize},
    {"RandomFlip", MakeImageMap},
    {"RandomRotation", MakeImageMap},
    {"RandomTranslation", MakeImageMap},
    {"RandomZoom", MakeImageMap},
    {"ReLU", MakeActivation},
    {"RepeatVector", MakeRepeatVector},
    {"Rescaling", MakeRescaling},
    {"Reshape", MakeReshape},
    {"Resizing", MakeImageSize},
    {"SeparableConv1D", MakeConv},
    {"SeparableConv2D", MakeConv},
    {"SimpleRNN", MakeRecurrent},
    {"Softmax", MakeSoftmax},
    {"SpatialDropout1D", MakeDropout},
    {"SpatialDropout2D", MakeDropout},
    {"SpatialDropout3D", MakeDropout},
    {"Subtract", MakeMerge},
    {"TimeDistributed", MakeTimeDistributed},
    {"ThresholdedReLU", MakeActivation},
    {"UnitNormalization", MakeRmsNormalization},
    {"UpSampling1D", MakeUpSampling},
    {"UpSampling2D", MakeUpSampling},
    {"UpSampling3D", MakeUpSampling},
    {"ZeroPadding1D", MakeFrame},
    {"ZeroPadding2D", MakeFrame},
    {"ZeroPadding3D", MakeFrame},
};

// Operations on tensors, such as x * y, ops.exp(x), x[:, 1:].
constexpr LayerEntry kOperations[] = {
    {"Absolute", MakeUnary},
    {"Add", MakeOperator},
    {"AddN", MakeOperator},
    {"All", MakeReduce},
    {"Amax", MakeReduce},
    {"Amin", MakeReduce},
    {"Any", MakeReduce},
    {"Arctan", MakeUnary},
    {"Argmax", MakeArgExtreme},
    {"Argmin", MakeArgExtreme},
    {"Average", MakeReduce},
    {"BroadcastTo", MakeRearrangement},
    {"Cast", MakeUnary},
    {"Ceil", MakeUnary},
    {"Celu", MakeUnary},
    {"Clip", MakeUnary},
    {"Concatenate", MakeConcatenate},
    {"ConvertToTensor", MakeUnary},
    {"Cos", MakeUnary},
    {"Cosh", MakeUnary},
    {"Cumsum", MakeCumsum},
    {"Divide", MakeOperator},
    {"Einsum", MakeEinsumOperation},
    {"Elu", MakeUnary},
    {"EnsureShape", MakeUnary},
    {"Equal", MakeOperator},
    {"Erf", MakeUnary},
    {"Exp", MakeUnary},
    {"ExpandDims", MakeAxisView},
    {"Expm1", MakeUnary},
    {"Flip", MakeRearrangement},
    {"Floor", MakeUnary},
    {"FloorDivide", MakeOperator},
    {"Gelu", MakeUnary},
    {"GetItem", MakeSlice},
    {"Glu", MakeUnary},
    {"Greater", MakeOperator},
    {"GreaterEqual", MakeOperator},
    {"HardShrink", MakeUnary},
    {"HardSigmoid", MakeUnary},
    {"HardSilu", MakeUnary},
    {"HardTanh", MakeUnary},
    {"LeakyRelu", MakeUnary},
    {"Less", MakeOperator},
    {"LessEqual", MakeOperator},
    {"Log", MakeUnary},
    {"Log10", MakeUnary},
    {"Log1p", MakeUnary},
    {"Log2", MakeUnary},
    {"LogSigmoid", MakeUnary},
    {"LogSoftmax", MakeUnary},
    {"LogicalAnd", MakeOperator},
    {"LogicalNot", MakeUnary},
    {"LogicalOr", MakeOperator},
    {"Logsumexp", MakeReduce},
    {"Matmul", MakeMatmulOperation},
    {"Max", MakeReduce},
    {"Maximum", MakeOperator},
    {"Mean", MakeReduce},
    {"Min", MakeReduce},
    {"Minimum", MakeOperator},
    {"Mod", MakeOperator},
    {"Moveaxis", MakeRearrangement},
    {"Multiply", MakeOperator},
    {"Negative", MakeUnary},
    {"Norm", MakeReduce},
    {"Normalize", MakeNormalize},
    {"NotEqual", MakeOperator},
    {"OneHot", MakeOneHot},
    {"OnesLike", MakeUnary},
    {"Pad", MakeRearrangement},
    {"Power", MakeOperator},
    {"Reciprocal", MakeUnary},
    {"Relu", MakeUnary},
    {"Relu6", MakeUnary},
    {"Repeat", MakeRearrangement},
    {"Reshape", MakeReshape},
    {"Roll", MakeRoll},
    {"Round", MakeUnary},
    {"Rsqrt", MakeUnary},
    {"Selu", MakeUnary},
    {"SequenceMask", MakeSequenceMask},
    {"Sigmoid", MakeUnary},
    {"Sign", MakeUnary},
    {"Silu", MakeUnary},
    {"Sin", MakeUnary},
    {"Sinh", MakeUnary},
    {"Slice", MakeSlice},
    {"SoftShrink", MakeUnary},
    {"Softmax", MakeUnary},
    {"Softplus", MakeUnary},
    {"Softsign", MakeUnary},
    {"SparsePlus", MakeUnary},
    {"SparseSigmoid", MakeUnary},
    {"Sparsemax", MakeUnary},
    {"Split", MakeSplit},
    {"Sqrt", MakeUnary},
    {"Square", MakeUnary},
    {"Squareplus", MakeUnary},
    {"Squeeze", MakeAxisView},
    {"Stack", MakeConcatenate},
    {"Std", MakeReduce},
    {"StopGradient", MakeStopGradient},
    {"Subtract", MakeOperator},
    {"Sum", MakeReduce},
    {"Swapaxes", MakeRearrangement},
    {"Take", MakeRearrangement},
    {"Tan", MakeUnary},
    {"Tanh", MakeUnary},
    {"TanhShrink", MakeUnary},
    {"Tile", MakeRearrangement},
    {"Transpose", MakePermute},
    {"TrueDivide", MakeOperator},
    {"Trunc", MakeUnary},
    {"Unstack", MakeSplit},
    {"Var", MakeReduce},
    {"Where", MakeWhere},
    {"ZerosLike", MakeUnary},
};

// The limit of a tensor's elements, whatever a model file says; products below do not overflow.
constexpr int64_t kElementsMax = int64_t{1} << 40;

}  // namespace

size_t AxesOfName(const std::string& class_name) {
  return class_name.ends_with("3D") ? 3 : class_name.ends_with("2D") ? 2 : 1;
}

int64_t VariableElements(const VariableSpec& variable) {
  int64_t product = 1;
  for (const uint64_t dim : variable.shape()) product *= static_cast<int64_t>(dim);
  return product;
}

absl::Status WrongMask(const Shape& mask, const Shape& input) {
  return absl::InvalidArgumentError(
      absl::StrCat("a mask of ", ShapeName(mask), " does not fit an input of ", ShapeName(input)));
}

absl::StatusOr<size_t> FirstOfLastAxes(std::vector<int64_t> axes, const Shape& input) {
  const auto rank = static_cast<int64_t>(input.size()) + 1;
  for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  bool last = !axes.empty() && axes[0] >= 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    last = last && axes[i] == rank - static_cast<int64_t>(axes.size() - i);
  }
  if (last) return static_cast<size_t>(axes[0] - 1);
  return absl::InvalidArgumentError(
      absl::StrCat("key \"axis\": must be the last axes of ", ShapeName(input)));
}

absl::Status CheckElements(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) {
    if (dim < 0 || (dim != 0 && product > kElementsMax / dim)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ShapeName(shape), " is beyond ", kElementsMax, " elements"));
    }
    product *= dim;
  }
  return absl::OkStatus();
}

namespace {

absl::Status Constrain(const Constraint& constraint, VariableSpec& spec) {
  spec.set_constraint(constraint.axes.empty() ? "non_neg" : "norm");
  if (constraint.axes.empty()) return absl::OkStatus();
  std::set<int64_t> axes;
  const int64_t rank = spec.shape_size();
  for (const int64_t axis : constraint.axes) {
    if (axis < -rank || axis >= rank) {
      return absl::InvalidArgumentError(absl::StrCat("key \"", constraint.variable,
                                                     "_constraint\": axis ", axis, " is none of ",
                                                     rank, " axes"));
    }
    axes.insert(axis < 0 ? axis + rank : axis);
  }
  NormConstraint& norm = *spec.mutable_norm();
  norm.set_least(constraint.least);
  norm.set_most(constraint.most);
  norm.set_rate(constraint.rate);
  for (const int64_t axis : axes) norm.add_axes(static_cast<uint32_t>(axis));
  return absl::OkStatus();
}

}  // namespace

absl::Status Layer::Declare(size_t index, const std::string& variable, const Shape& shape,
                            const Initializer& initializer) {
  RETURN_IF_ERROR(CheckElements(shape));
  if (index < variables_.size()) {
    const auto& have = variables_[index].shape();
    if (std::equal(have.begin(), have.end(), shape.begin(), shape.end(),
                   [](uint64_t a, int64_t b) { return a == static_cast<uint64_t>(b); })) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("is called with inputs that need ", variable, " to be ", ShapeName(shape),
                     ", but an earlier call made it (", absl::StrJoin(have, ", "), ")"));
  }
  VariableSpec spec;
  spec.set_name(absl::StrCat(name_, "/", variable));
  for (const int64_t dim : shape) spec.add_shape(static_cast<uint64_t>(dim));
  spec.set_dtype(FLOAT32);
  *spec.mutable_initializer() = initializer;
  spec.set_trainable(trainable_);
  for (const Constraint& constraint : constraints_) {
    if (!spec.name().ends_with("/" + constraint.variable)) continue;
    RETURN_IF_ERROR(Constrain(constraint, spec));
  }
  variables_.push_back(std::move(spec));
  return absl::OkStatus();
}

void Layer::Adopt(std::initializer_list<const Layer*> layers) {
  variables_.clear();
  regularizers_.clear();
  variable_operands_.clear();
  for (const Layer* layer : layers) {
    for (size_t v = 0; v < layer->variables_.size(); ++v) {
      variable_operands_.push_back(layer->is_operand(v));
    }
    for (const VariableSpec& variable : layer->variables_) {
      variables_.push_back(variable);
      for (const Regularizer& r : layer->regularizers_) {
        if (!variable.name().ends_with("/" + r.variable)) continue;
        regularizers_.push_back({variable.name().substr(name_.size() + 1), r.l1, r.l2});
      }
    }
  }
}

void Layer::FreezeAdopted() {
  for (VariableSpec& variable : variables_) {
    if (variable.moving_average() == 0) variable.set_trainable(false);
  }
}

absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(LayerConfig& config, bool operation) {
  std::vector<std::string_view> known;
  if (!operation) known.push_back("InputLayer");
  const std::span<const LayerEntry> table =
      operation ? std::span<const LayerEntry>(kOperations) : std::span<const LayerEntry>(kLayers);
  for (const LayerEntry& entry : table) {
    if (entry.class_name == config.class_name()) {
      if (operation) config.FollowInputs();
      if (!operation) {
        ASSIGN_OR_RETURN(std::unique_ptr<Layer> moved, MakeMoved(config));
        if (moved != nullptr) return moved;
      }
      std::unique_ptr<Layer> layer = entry.make(config);
      RETURN_IF_ERROR(config.Finish());
      return layer;
    }
    known.push_back(entry.class_name);
  }
  if (!operation && IsPreprocessingLayer(config.class_name())) {
    return absl::InvalidArgumentError(
        absl::StrCat(LayerTitle(config.class_name(), config.name()),
                     ": takes inputs of the model and outputs of preprocessing layers, not what "
                     "other layers compute"));
  }
  const auto more = PreprocessingLayerNames();
  if (!operation) known.insert(known.end(), more.begin(), more.end());
  const std::string title = LayerTitle(config.class_name(), config.name());
  if (operation) {  // Keras wrote the name: no misspelling
    return absl::InvalidArgumentError(
        absl::StrCat(title, " as an operation on tensors is not supported", kExportInstead,
                     "; supported: ", JoinNames(known)));
  }
  // The remedy comes before the long list.
  const std::string wrong = NotSupported(config.class_name(), known);
  const size_t list = wrong.find("; supported: ");
  return absl::InvalidArgumentError(
      absl::StrCat(title, wrong.substr(0, list), kExportInstead, wrong.substr(list)));
}

}  // namespace paracord
