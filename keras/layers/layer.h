// The interface of a layer: shapes, variables, and for each batch size a kernel that computes
// forward and backward with the operations of tensor/ops.h. layers.cc has a table of all layers.
// The graph (keras/graph.h), or a layer that wraps others, owns layers and their kernels, and calls
// them. Graph::Build asks for shapes and properties, Graph::Prepare makes the kernels, and each run
// calls the kernels. Several nodes of a graph may share a layer; the state of a call is in the
// node's kernel. Used by one thread at a time. A kernel reports its errors by Device::Finish.
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

// Returns the index in `input`, which lacks the batch, of the first of `axes`, in which 0 is the
// batch and -1 the last axis. INVALID_ARGUMENT unless `axes` are the last axes of `input`.
absl::StatusOr<size_t> FirstOfLastAxes(std::vector<int64_t> axes, const Shape& input);

int64_t VariableElements(const VariableSpec& variable);

// Rounds up to a multiple of 16, the floats of a cache line.
inline int64_t RoundUp(int64_t floats) { return (floats + 15) / 16 * 16; }

// INVALID_ARGUMENT if the shape has more than 2^40 elements, which no device could hold.
absl::Status CheckElements(const Shape& shape);

// The arguments of Kernel::Forward. Tensors are in the device's memory, one example after another.
struct ForwardCall {
  std::span<const ConstTensor> inputs;       // (batch, input shape)
  std::span<const float* const> parameters;  // in the order of Layer::variables()
  // For each parameter its bfloat16 copy (Ops::Convert), or null; empty: no parameter has a copy.
  std::span<const uint16_t* const> rounded;
  ConstTensor Parameter(size_t i) const {
    return {parameters[i], rounded.empty() ? nullptr : rounded[i]};
  }
  Tensor output;          // (batch, output shape)
  bool training = false;  // the run's mode, unless the model file fixes a mode for the call
  uint64_t key = 0;       // seeds the random numbers; differs by batch and by node
  // The index of the run's first example in the batch: a run may compute only a slice of the batch.
  int64_t first_example = 0;
};

// The arguments of Kernel::Backward: those of the last Forward, and the gradients' addresses. A
// kernel overwrites the memory of d_inputs and d_parameters, and skips null entries.
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
  float share = 1;      // the run's number of examples divided by the batch's
  int later_calls = 0;  // the number of calls of the layer that come later in Keras' order
};

// A variant of a kernel that the graph asks for: with a fused activation, or with bfloat16 tensors.
struct KernelForm {
  // An activation that the kernel applies at its end. Backward then gets the gradient of the
  // activation's output.
  std::optional<Activation> ends_in = {};
  bool input_bfloat16 = false;   // true: the first input is bfloat16
  bool output_bfloat16 = false;  // true: the output is bfloat16
};

// The computation of a node for a fixed batch size.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Forward(const ForwardCall& call) = 0;
  // Computes the gradients for the last Forward, which must have been part of a run of training.
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
  // declares the variables; a later call returns an error if it needs a variable of another shape.
  // Errors do not name the layer, because the graph does.
  virtual absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) = 0;

  // Set if the graph has to add this activation after the layer, as a node of its own.
  virtual std::optional<Activation> activation_after() const { return std::nullopt; }
  // True if the graph computes a call with many inputs by calls with two: first of inputs 0 and 1,
  // then of the result and input 2, and so on.
  virtual bool folds() const { return false; }
  // Set if the graph has to add this activation after folding `count` inputs, as for an average.
  virtual std::optional<Activation> after_folding(size_t /*count*/) const { return std::nullopt; }

  // The most inputs of a call, masks not counted, of a layer that does not fold.
  virtual size_t most_inputs() const { return 1; }
  // Returns the shape that a constant of the model file, of shape `constant`, has in every example
  // if it is input number `input` of a call whose other inputs have at most `rank` axes, the batch
  // not counted. INVALID_ARGUMENT if the layer cannot take a constant there.
  virtual absl::StatusOr<Shape> ConstantShape(size_t input, const Shape& constant,
                                              size_t rank) const;

  // Called before OutputShape for each constant of a call. If the layer stores the constant,
  // returns true, and the kernel does not get it as an input.
  virtual bool Keeps(const NumberArray& /*constant*/) { return false; }

  // How the output's mask follows from the inputs' masks. A mask is a tensor of ones and zeros, as
  // in Keras, with an element for each time step.
  enum class MaskRule {
    kStop,     // the output has no mask
    kPass,     // the output has the first input's mask
    kOr,       // Keras 3: the "or", if all inputs have masks; Keras 2: the "and" of existing masks
    kCompute,  // the layer of MakeMaskLayer computes the mask
  };
  virtual MaskRule mask_rule() const { return MaskRule::kStop; }
  // How many of a call's outputs, from the first on, have the mask of mask_rule().
  virtual size_t masked_outputs() const { return 1; }
  // True if the kernel gets, after the inputs, a mask for each input; a missing mask is null, with
  // shape ().
  virtual bool takes_masks() const { return false; }
  // The names of a call's arguments that may be masks. The argument "mask" is the first input's
  // mask, or a list with a mask for each input.
  virtual std::vector<std::string_view> mask_arguments() const {
    return takes_masks() ? std::vector<std::string_view>{"mask"} : std::vector<std::string_view>();
  }
  // False if a call with this many inputs gets no masks but those that are its arguments.
  virtual bool masks_come_along(size_t /*inputs*/) const { return true; }
  // True if a call removes the masks of its inputs, for all later calls that read these inputs.
  virtual bool removes_masks() const { return false; }
  // For kCompute: makes a layer that computes the output's mask. Its inputs are this layer's
  // inputs, then a mask for each of them, as with takes_masks. Null: the output has no mask.
  virtual std::unique_ptr<Layer> MakeMaskLayer(std::span<const Shape> /*inputs*/) const {
    return nullptr;
  }
  // Set if the first input must be ids: whole numbers from 0 to below the number returned.
  virtual std::optional<int64_t> ids_below() const { return std::nullopt; }
  // True if all calls of the layer must have equal CallModes.
  virtual bool one_mode() const { return false; }
  // False if no gradient goes through the layer to its inputs or variables.
  virtual bool differentiable() const { return true; }
  // Set if the layer does nothing but apply this activation.
  virtual std::optional<Activation> activation() const { return std::nullopt; }

  // If calls have several outputs, returns their shapes after the last OutputShape; otherwise
  // empty. The kernel writes an example's outputs one after another.
  virtual std::vector<Shape> parts() const { return {}; }

  // The precision to which products may round operands; nullopt: that of the layers before.
  std::optional<Operands> operands() const { return operands_; }
  // True if variable `index` is an operand of a product that may read the variable's bfloat16 copy.
  bool is_operand(size_t index) const {
    return index < variable_operands_.size() && variable_operands_[index];
  }

  // True if the output is the first input's memory with another shape; the graph makes no kernel.
  virtual bool is_view() const { return false; }

  // Makes the kernel for a batch size. RESOURCE_EXHAUSTED: the device lacks memory. Other errors:
  // the device cannot compute the shape.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                             std::span<const Shape> inputs) = 0;
  // True if MakeKernelOf can fuse the activation.
  virtual bool ends_in(const Activation& /*activation*/) const { return false; }
  // Whether kernels can read inputs and write the output as bfloat16. kIfComputed: they can, but
  // must write float32 if the output depends on no variable, because inputs of the model may be ids
  // or other numbers that need more than bfloat16's precision.
  enum class Bfloat16 { kNever, kIfComputed, kTaken };
  virtual Bfloat16 TakesBfloat16(Ops& /*ops*/, std::span<const Shape> /*inputs*/) const {
    return Bfloat16::kNever;
  }
  // Makes a kernel of this form, which is one that ends_in and TakesBfloat16 allow.
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
  // Freezes the layer as part of a frozen model: no variable gets gradients or regularizers, except
  // that moving averages are still updated.
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
  // Makes a layer that computes a part of `like`, with the name, the class and the precision of it.
  Layer(const Layer& like)
      : name_(like.name_),
        class_name_(like.class_name_),
        trainable_(like.trainable_),
        operands_(like.operands_) {}
  bool trainable() const { return trainable_; }
  void SetActivity(ActivityPenalty penalty) { activity_ = penalty; }

  // Called by OutputShape for each variable, in the order of `index`. The first OutputShape
  // declares the variable; later ones return an error if its shape differs.
  absl::Status Declare(size_t index, const std::string& variable, const Shape& shape,
                       const Initializer& initializer);
  // Replaces this layer's variables and regularizers by those of `layers`, its inner layers.
  void Adopt(std::initializer_list<const Layer*> layers);
  // Makes all variables untrained, except moving averages, which are still updated.
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

// Makes the layer, or with `operation` the operation on tensors, that `config` describes.
// INVALID_ARGUMENT, which names the layer: a key, a value or the class is not supported.
absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(LayerConfig& config, bool operation);

}  // namespace paracord
