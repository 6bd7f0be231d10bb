// The interface of a layer: shapes, variables, and for each batch size a kernel that computes
// forward and backward with the operations of tensor/ops.h. layers.cc has a table of all layers.
// The graph (keras/graph.h) owns layers and kernels and makes all calls: building the graph asks
// OutputShape first, then the properties; Graph::Prepare makes the kernels; each run calls the
// kernels. After building, a layer changes only by TableLayer::UseRows. Several nodes of a graph
// may share a layer; the state of a call is in the node's kernel. Used by one thread at a time.
// Building and preparing return errors; a kernel's runs report errors by Device::Finish.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/shape.h"
#include "keras/layers/layer_config.h"
#include "proto/paracord.pb.h"
#include "tensor/ops.h"

namespace paracord {

struct NumberArray;

// Returns the error for a mask that does not fit the input's shape.
absl::Status WrongMask(const Shape& mask, const Shape& input);

// Returns the index in `input`, which lacks the batch, of the first of `axes`. Keras counts axes
// from the batch on, or backwards from the end. INVALID_ARGUMENT unless `axes` are the last axes.
absl::StatusOr<size_t> FirstOfLastAxes(std::vector<int64_t> axes, const Shape& input);

int64_t VariableElements(const VariableSpec& variable);

// Rounds up to a multiple of a cache line's floats.
inline int64_t RoundUp(int64_t floats) { return (floats + 15) / 16 * 16; }

// INVALID_ARGUMENT if the shape has more than 2^40 elements, which no device could hold.
absl::Status CheckElements(const Shape& shape);

// The arguments of Kernel::Forward. Tensors are in the device's memory, one example after another.
struct ForwardCall {
  std::span<const ConstTensor> inputs;       // (batch, input shape)
  std::span<const float* const> parameters;  // in the order of Layer::variables()
  // The bfloat16 copy of each parameter (Ops::Convert), or null; empty: no parameter has a copy.
  std::span<const uint16_t* const> rounded;
  ConstTensor Parameter(size_t i) const {
    return {parameters[i], rounded.empty() ? nullptr : rounded[i]};
  }
  Tensor output;          // (batch, output shape)
  bool training = false;  // the run's mode, unless the model file fixes a mode for the call
  uint64_t key = 0;       // seeds the random numbers; differs by batch and by node
  // Index of the first example within the batch, of which the run may compute only a slice.
  int64_t first_example = 0;
};

// The arguments of Kernel::Backward: those of the last Forward, and the gradients' destinations. A
// kernel overwrites d_inputs and d_parameters, never adds to them, and skips null entries.
struct BackwardCall {
  std::span<const ConstTensor> inputs;
  std::span<const float* const> parameters;
  std::span<const uint16_t* const> rounded;
  ConstTensor Parameter(size_t i) const {
    return {parameters[i], rounded.empty() ? nullptr : rounded[i]};
  }
  ConstTensor output;
  Tensor d_output;  // the output's gradient; the kernel may overwrite d_output
  std::span<const Tensor> d_inputs;
  std::span<float* const> d_parameters;
  uint64_t key = 0;
  int64_t first_example = 0;
  float share = 1;      // the run's examples divided by the batch's
  int later_calls = 0;  // calls of the layer in this run that come later in Keras' order
};

// A variant of a kernel that the graph asks for: with a fused activation, or with bfloat16 tensors.
struct KernelForm {
  // An activation fused into the end of the kernel. Backward then gets the gradient of the
  // activation's output.
  std::optional<Activation> ends_in = {};
  bool input_bfloat16 = false;   // true: the first input is bfloat16
  bool output_bfloat16 = false;  // true: the output is bfloat16
};

// The computation of a node for a fixed batch size. Made, called and destroyed by the graph.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Forward(const ForwardCall& call) = 0;
  // Computes the gradients of the last Forward, which must have run in training mode.
  virtual void Backward(const BackwardCall& call) = 0;
};

class Layer {
 public:
  virtual ~Layer() = default;

  const std::string& name() const { return name_; }
  const std::string& class_name() const { return class_name_; }
  // The variables, named "<layer's name>/...". Valid after the first OutputShape.
  const std::vector<VariableSpec>& variables() const { return variables_; }

  // Returns the shape of the output, without the batch, for inputs of these shapes. The first call
  // declares the variables; a call for another node must need equal variables, or returns an error.
  // Errors do not name the layer, because the graph does.
  virtual absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) = 0;

  // An activation that the graph adds after this layer, as a node of its own.
  virtual std::optional<Activation> activation_after() const { return std::nullopt; }
  // True if a call with more than two inputs is computed pairwise from the left, as calls with two.
  virtual bool folds() const { return false; }
  // The activation that the graph adds after folding `count` inputs, such as an average's division.
  virtual std::optional<Activation> after_folding(size_t /*count*/) const { return std::nullopt; }

  // The most tensors of a call, for a layer that does not fold.
  virtual size_t most_inputs() const { return 1; }
  // Returns the shape that a constant of the model file (without a batch) has in every example, as
  // input number `input` of a call whose other inputs have at most `rank` axes. INVALID_ARGUMENT if
  // the layer cannot take a constant there.
  virtual absl::StatusOr<Shape> ConstantShape(size_t input, const Shape& constant,
                                              size_t rank) const;

  // Asked before OutputShape. Returns true if the layer stores the constant instead of an input.
  virtual bool Keeps(const NumberArray& /*constant*/) { return false; }

  // How the output's mask follows from the inputs' masks. A mask is a tensor of ones and zeros with
  // an element for each time step, propagated as in Keras.
  enum class MaskRule {
    kStop,     // the output has no mask
    kPass,     // the first input's mask
    kOr,       // the "or" of the masks if all inputs have one; Keras 2: the "and" of existing masks
    kCompute,  // computed by the layer of MakeMaskLayer
  };
  virtual MaskRule mask_rule() const { return MaskRule::kStop; }
  // How many outputs, from the first on, carry the mask of mask_rule() if a call has several.
  virtual size_t masked_outputs() const { return 1; }
  // True if the kernel gets, after the inputs, a mask for each input; a missing mask is null, with
  // shape ().
  virtual bool takes_masks() const { return false; }
  // The names of a call's arguments that may be masks. "mask" is the first input's mask, or a list.
  virtual std::vector<std::string_view> mask_arguments() const {
    return takes_masks() ? std::vector<std::string_view>{"mask"} : std::vector<std::string_view>();
  }
  // False if a call with this many inputs gets only masks that the call names.
  virtual bool masks_come_along(size_t /*inputs*/) const { return true; }
  // True if a call removes its inputs' masks for all later layers.
  virtual bool removes_masks() const { return false; }
  // Makes a layer that computes the output's mask. Its inputs are this layer's inputs, then a mask
  // for each input, as with takes_masks. Null: the output has no mask.
  virtual std::unique_ptr<Layer> MakeMaskLayer(std::span<const Shape> /*inputs*/) const {
    return nullptr;
  }
  // Set if the first input is ids: whole numbers from 0 to below the result.
  virtual std::optional<int64_t> ids_below() const { return std::nullopt; }
  // True if all calls of the layer must have equal CallModes.
  virtual bool one_mode() const { return false; }
  // False if the layer blocks gradients.
  virtual bool differentiable() const { return true; }
  // Set if the layer is nothing but an activation. A loss may then use the logits before it.
  virtual std::optional<Activation> activation() const { return std::nullopt; }

  // The shapes of a call's outputs, if there are several; otherwise empty. The kernel writes an
  // example's outputs one after another. Valid after OutputShape.
  virtual std::vector<Shape> parts() const { return {}; }

  // The precision to which products may round operands; nullopt: the precision of the inputs.
  std::optional<Operands> operands() const { return operands_; }
  // True if the variable is an operand of a product that may read the bfloat16 copy
  // (ForwardCall::Parameter).
  bool is_operand(size_t index) const {
    return index < variable_operands_.size() && variable_operands_[index];
  }

  // True if the output is the input's memory with another shape; then there is no kernel.
  virtual bool is_view() const { return false; }

  // Makes the kernel for a batch size. RESOURCE_EXHAUSTED: the device lacks memory. Other errors:
  // the device cannot compute the shape.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                             std::span<const Shape> inputs) = 0;
  // True if MakeKernelOf can fuse the activation.
  virtual bool ends_in(const Activation& /*activation*/) const { return false; }
  // Whether kernels can read inputs and write the output as bfloat16. kIfComputed: yes, but write
  // bfloat16 only if the output depends on variables, because a model's inputs may be ids or other
  // numbers beyond bfloat16's precision.
  enum class Bfloat16 { kNever, kIfComputed, kTaken };
  virtual Bfloat16 TakesBfloat16(Ops& /*ops*/, std::span<const Shape> /*inputs*/) const {
    return Bfloat16::kNever;
  }
  // Makes a kernel of the given form. Layers without fused or bfloat16 forms ignore the form.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelOf(const KernelForm& /*form*/, Ops& ops,
                                                               int64_t batch,
                                                               std::span<const Shape> inputs) {
    return MakeKernel(ops, batch, inputs);
  }

  // The multiply-adds of a forward pass over one example.
  virtual int64_t Arithmetic(std::span<const Shape> /*inputs*/, const Shape& output) const {
    return Elements(output);
  }

  const std::vector<Regularizer>& regularizers() const { return regularizers_; }
  const std::optional<ActivityPenalty>& activity() const { return activity_; }
  // Freezes the layer as part of a frozen model: no variable gets gradients or regularizers, but
  // moving averages are still updated.
  void Freeze() {
    FreezeAdopted();
    regularizers_.clear();
  }

 protected:
  explicit Layer(const LayerConfig& config)
      : name_(config.name()),
        class_name_(config.class_name()),
        trainable_(config.trainable()),
        operands_(config.operands()),
        regularizers_(config.regularizers()),
        constraints_(config.constraints()),
        activity_(config.activity()) {}
  // Makes a part of the layer `like`, with the name of `like`.
  Layer(const Layer& like)
      : name_(like.name_),
        class_name_(like.class_name_),
        trainable_(like.trainable_),
        operands_(like.operands_) {}
  bool trainable() const { return trainable_; }
  void SetActivity(ActivityPenalty penalty) { activity_ = penalty; }

  // Declares variable `index` in the first OutputShape; later calls check that the shape is equal.
  absl::Status Declare(size_t index, const std::string& variable, const Shape& shape,
                       const Initializer& initializer);
  // Replaces this layer's variables and regularizers by those of inner layers.
  void Adopt(std::initializer_list<const Layer*> layers);
  // Freezes all variables: no gradients, but moving averages are still updated.
  void FreezeAdopted();
  void MakeOperand(size_t index) {
    variable_operands_.resize(std::max(variable_operands_.size(), index + 1));
    variable_operands_[index] = true;
  }
  // Make variable number `index` untrained: a constant, or a moving average that keeps the share
  // `keep` of its value at each update.
  void MakeConstant(size_t index) { variables_[index].set_trainable(false); }
  void MakeMoving(size_t index, double keep) { variables_[index].set_moving_average(keep); }

 private:
  const std::string name_;
  const std::string class_name_;
  const bool trainable_;
  const std::optional<Operands> operands_;
  std::vector<Regularizer> regularizers_;
  const std::vector<Constraint> constraints_;
  std::optional<ActivityPenalty> activity_;
  std::vector<VariableSpec> variables_;
  std::vector<bool> variable_operands_;
};

// Makes the layer, or with `operation` the operation on tensors, that a model file describes.
// INVALID_ARGUMENT names the layer, the key, and the supported values.
absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(LayerConfig& config, bool operation);

}  // namespace paracord
