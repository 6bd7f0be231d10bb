// The interface of a layer: shapes, variables, and for each batch size a kernel that computes
// forward and backward with the operations of ops.h. layers.cc has a table of all layers. The graph
// (keras/graph.h) owns the layers and kernels and makes all calls: building asks OutputShape first,
// then the properties; Prepare makes the kernels; each run calls the kernels. A layer does not
// change after building, and several nodes may share a layer; the state of a call is in the node's
// kernel. Used by one thread at a time. Building and preparing return errors; a kernel's runs
// report errors by Device::Finish.
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

// The error for a mask that does not fit the input's shape.
absl::Status WrongMask(const Shape& mask, const Shape& input);

// The index in `input` of the first of `axes`. Keras counts axes from the batch on, or backwards
// from the end; `axes` must be the last axes, or an error is returned.
absl::StatusOr<size_t> FirstOfLastAxes(std::vector<int64_t> axes, const Shape& input);

int64_t VariableElements(const VariableSpec& variable);

// Rounds up to a multiple of a cache line's floats.
inline int64_t RoundUp(int64_t floats) { return (floats + 15) / 16 * 16; }

// Returns an error if no device could hold the number of elements.
absl::Status CheckElements(const Shape& shape);

// The arguments of Kernel::Forward. Tensors are in the device's memory, one example after another.
struct ForwardCall {
  std::span<const ConstTensor> inputs;       // (batch, input shape)
  std::span<const float* const> parameters;  // in the order of Layer::variables()
  // The bfloat16 copy of each parameter (Ops::Convert), or null; empty if there are no copies at
  // all.
  std::span<const uint16_t* const> rounded;
  ConstTensor Parameter(size_t i) const {
    return {parameters[i], rounded.empty() ? nullptr : rounded[i]};
  }
  Tensor output;          // (batch, output shape)
  bool training = false;  // the run's mode, unless fixed by the call in the model
  uint64_t key = 0;       // seeds the random numbers of the batch and node
  // Index of the first example within the batch, because a batch may run in slices.
  int64_t first_example = 0;
};

// The arguments of Kernel::Backward: those of the last Forward, and the gradients' destinations. A
// kernel overwrites d_inputs and d_parameters and never adds; skip null entries.
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
  float share = 1;      // the slice's part of the batch's examples
  int later_calls = 0;  // later calls of the layer in this run
};

// A variant of a kernel requested by the graph: a fused activation, and the types of tensors.
struct KernelForm {
  // An activation fused into the end of the kernel. Backward then gets the gradient of the
  // activation's output.
  std::optional<Activation> ends_in = {};
  bool input_bfloat16 = false;  // type of the first input
  bool output_bfloat16 = false;
};

// The computation of a node for a fixed batch size. Made, called and destroyed by the graph.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Forward(const ForwardCall& call) = 0;
  // Computes the gradients of the last Forward, run in training mode.
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
  // declares the variables; a call for another node must need equal variables. Errors do not name
  // the layer, because the graph does.
  virtual absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) = 0;

  // An activation added by the graph after this layer, as a node of its own.
  virtual std::optional<Activation> activation_after() const { return std::nullopt; }
  // True if a call with more than two inputs is computed pairwise from the left, as calls with two.
  virtual bool folds() const { return false; }
  // An activation after folding `count` inputs, such as the division of an average.
  virtual std::optional<Activation> after_folding(size_t /*count*/) const { return std::nullopt; }

  // The most tensors of a call, for a layer that does not fold.
  virtual size_t most_inputs() const { return 1; }
  // The shape, in every example, of a constant of the model file (without a batch), as input
  // `input` of a call whose other inputs have at most `rank` axes. An error if the layer cannot
  // take a constant there.
  virtual absl::StatusOr<Shape> ConstantShape(size_t input, const Shape& constant,
                                              size_t rank) const;

  // Asked before OutputShape: true if the layer stores the call's constant, which then is no input.
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
  // The arguments of a call that may be masks. "mask" is the first input's mask, or a list.
  virtual std::vector<std::string_view> mask_arguments() const {
    return takes_masks() ? std::vector<std::string_view>{"mask"} : std::vector<std::string_view>();
  }
  // False if a call with this many inputs gets only masks named in the call.
  virtual bool masks_come_along(size_t /*inputs*/) const { return true; }
  // True if a call removes its inputs' masks for all later layers.
  virtual bool removes_masks() const { return false; }
  // Makes a layer that computes the output's mask, from the inputs and their masks as with
  // takes_masks. Null: the output has no mask.
  virtual std::unique_ptr<Layer> MakeMaskLayer(std::span<const Shape> /*inputs*/) const {
    return nullptr;
  }
  // Set if the input is ids, whole numbers from 0 to below the result.
  virtual std::optional<int64_t> ids_below() const { return std::nullopt; }
  // True if all calls of the layer must have equal modes, or fix none.
  virtual bool one_mode() const { return false; }
  // False if the layer blocks gradients.
  virtual bool differentiable() const { return true; }
  // Set if the layer is nothing but an activation, to let a loss use the logits before it.
  virtual std::optional<Activation> activation() const { return std::nullopt; }

  // The shapes of a call's outputs, if several; otherwise empty. The kernel writes an example's
  // outputs one after another. Valid after OutputShape.
  virtual std::vector<Shape> parts() const { return {}; }

  // The precision to which products may round operands; nullopt means the inputs' precision.
  std::optional<Operands> operands() const { return operands_; }
  // True if the variable is an operand of a product, which may read its bfloat16 copy
  // (ForwardCall::Parameter).
  bool is_operand(size_t index) const {
    return index < variable_operands_.size() && variable_operands_[index];
  }

  // True if the output is the input's memory seen with another shape; then there is no kernel.
  virtual bool is_view() const { return false; }

  // Makes the kernel for a batch size. Fails if the device lacks memory or cannot compute the
  // shape.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                             std::span<const Shape> inputs) = 0;
  // True if MakeKernelOf can fuse the activation.
  virtual bool ends_in(const Activation& /*activation*/) const { return false; }
  // Whether kernels can read inputs and write the output as bfloat16. kIfComputed: yes, unless the
  // tensor was computed without variables, because a model's inputs may be ids or other numbers
  // beyond bfloat16's precision.
  enum class Bfloat16 { kNever, kIfComputed, kTaken };
  virtual Bfloat16 TakesBfloat16(Ops& /*ops*/, std::span<const Shape> /*inputs*/) const {
    return Bfloat16::kNever;
  }
  // Makes a kernel of the given form. Layers without fused forms ignore the form.
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
  // Freezes the layer as part of a frozen model: no variable gets gradients or penalties, but
  // moving averages go on.
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
  // Makes a layer that is a part of `like`, with the name of `like`.
  Layer(const Layer& like)
      : name_(like.name_),
        class_name_(like.class_name_),
        trainable_(like.trainable_),
        operands_(like.operands_) {}
  bool trainable() const { return trainable_; }
  void SetActivity(ActivityPenalty penalty) { activity_ = penalty; }

  // Declares a variable in the first OutputShape; later calls check for equality.
  absl::Status Declare(size_t index, const std::string& variable, const Shape& shape,
                       const Initializer& initializer);
  // Takes over the variables and regularizers of inner layers.
  void Adopt(std::initializer_list<const Layer*> layers);
  // Freezes adopted variables: no gradients, but moving averages go on.
  void FreezeAdopted();
  void MakeOperand(size_t index) {
    variable_operands_.resize(std::max(variable_operands_.size(), index + 1));
    variable_operands_[index] = true;
  }
  // Makes the last declared variable untrained: constant, or a moving average that keeps the share
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

// Makes the layer, or the operation on tensors, described in a model file. The error names the
// layer, the key, and the supported values.
absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(LayerConfig& config, bool operation);

}  // namespace paracord
