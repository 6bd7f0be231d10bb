// The interface of a layer: its shapes, its variables, and for each batch size a kernel that
// computes forward and backward with the operations of ops.h. layers.cc has a table of all layers.
// The graph (keras/graph.h) owns the layers and kernels and makes all calls. Its build asks
// OutputShape first, then the properties; Prepare makes the kernels; each run calls them. A layer
// does not change after its build, so several nodes of a graph may share it; the state of a call is
// in the kernel of its node. Used by one thread at a time. Errors are returned while building and
// preparing; a kernel's runs report theirs by Device::Finish.
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

// An error that says why a mask of this shape does not fit an input of that shape.
absl::Status WrongMask(const Shape& mask, const Shape& input);

// The index in `input` of the first of `axes`. Keras counts axes from the batch on, or backwards
// from the end; they must be the last ones, or it is an error.
absl::StatusOr<size_t> FirstOfLastAxes(std::vector<int64_t> axes, const Shape& input);

int64_t VariableElements(const VariableSpec& variable);

// Rounds up to a multiple of a cache line's floats.
inline int64_t RoundUp(int64_t floats) { return (floats + 15) / 16 * 16; }

// Returns an error if the number of elements is beyond what any device holds.
absl::Status CheckElements(const Shape& shape);

// The arguments of Kernel::Forward. Tensors are in the device's memory, one example after another.
struct ForwardCall {
  std::span<const ConstTensor> inputs;       // (batch, input shape)
  std::span<const float* const> parameters;  // in the order of Layer::variables()
  // The bfloat16 copy of each parameter (Ops::Convert), or null for those without; empty if there
  // are no copies at all.
  std::span<const uint16_t* const> rounded;
  ConstTensor Parameter(size_t i) const {
    return {parameters[i], rounded.empty() ? nullptr : rounded[i]};
  }
  Tensor output;          // (batch, output shape)
  bool training = false;  // the run's mode, unless the call in the model fixes its own
  uint64_t key = 0;       // seeds the random numbers of this batch and node
  // Index of the first example within the batch, which may be run in slices.
  int64_t first_example = 0;
};

// The arguments of Kernel::Backward: those of the last Forward, and where the gradients go. A
// kernel overwrites d_inputs and d_parameters and never adds to them; a null entry is not wanted.
struct BackwardCall {
  std::span<const ConstTensor> inputs;
  std::span<const float* const> parameters;
  std::span<const uint16_t* const> rounded;
  ConstTensor Parameter(size_t i) const {
    return {parameters[i], rounded.empty() ? nullptr : rounded[i]};
  }
  ConstTensor output;
  Tensor d_output;  // the gradient of the output; the kernel may overwrite it
  std::span<const Tensor> d_inputs;
  std::span<float* const> d_parameters;
  uint64_t key = 0;
  int64_t first_example = 0;
  float share = 1;      // the part of the batch's examples that is in this slice
  int later_calls = 0;  // calls of the same layer that come later in this run
};

// A variant of a kernel that the graph asks for: a fused activation, and the types of its tensors.
struct KernelForm {
  // An activation that is fused into the end of the kernel. Backward then gets the gradient of the
  // activation's output.
  std::optional<Activation> ends_in = {};
  bool input_bfloat16 = false;  // type of the first input
  bool output_bfloat16 = false;
};

// The computation of one node for a fixed batch size. The graph makes, calls and destroys it.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Forward(const ForwardCall& call) = 0;
  // Computes the gradients of the last Forward, which was one in training mode.
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
  // declares the variables; a later one, for another node, must need the same variables. Errors do
  // not name the layer, because the graph does.
  virtual absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) = 0;

  // An activation that the graph adds after this layer, as a node of its own.
  virtual std::optional<Activation> activation_after() const { return std::nullopt; }
  // True if a call with more than two inputs is computed pairwise from the left, as calls with two.
  virtual bool folds() const { return false; }
  // An activation that follows the folding of `count` inputs, as the division of an average.
  virtual std::optional<Activation> after_folding(size_t /*count*/) const { return std::nullopt; }

  // The number of tensors that a call may have, for a layer that does not fold.
  virtual size_t most_inputs() const { return 1; }
  // The shape that a constant of the model file (without a batch) has in every example, as input
  // `input` of a call whose other inputs have at most `rank` axes. An error if the layer cannot
  // take it there.
  virtual absl::StatusOr<Shape> ConstantShape(size_t input, const Shape& constant,
                                              size_t rank) const;

  // Asked before OutputShape: true if the layer stores this constant of its call, which then is not
  // an input.
  virtual bool Keeps(const NumberArray& /*constant*/) { return false; }

  // How the mask of the output follows from the masks of the inputs. A mask is a tensor of ones and
  // zeros with one element for each time step, as Keras propagates it.
  enum class MaskRule {
    kStop,  // the output has no mask
    kPass,  // the first input's mask
    kOr,    // the "or" of all masks if all inputs have one; in Keras 2 the "and" of those there are
    kCompute,  // the layer of MakeMaskLayer computes it
  };
  virtual MaskRule mask_rule() const { return MaskRule::kStop; }
  // How many outputs, from the first on, carry the mask of mask_rule() if a call has several.
  virtual size_t masked_outputs() const { return 1; }
  // True if the kernel gets, after the inputs, one mask for each of them; a missing one is null and
  // has the shape ().
  virtual bool takes_masks() const { return false; }
  // The arguments of a call that may be masks. "mask" is the first input's, or a list.
  virtual std::vector<std::string_view> mask_arguments() const {
    return takes_masks() ? std::vector<std::string_view>{"mask"} : std::vector<std::string_view>();
  }
  // False if a call with so many inputs gets no propagated masks, only those that it names.
  virtual bool masks_come_along(size_t /*inputs*/) const { return true; }
  // True if a call removes the masks of its inputs for all later layers.
  virtual bool removes_masks() const { return false; }
  // Makes a layer that computes the mask of the output; its inputs are the inputs and their masks,
  // as with takes_masks. Null means that the output has no mask.
  virtual std::unique_ptr<Layer> MakeMaskLayer(std::span<const Shape> /*inputs*/) const {
    return nullptr;
  }
  // Set if the input is ids, which must be whole numbers from 0 to below this.
  virtual std::optional<int64_t> ids_below() const { return std::nullopt; }
  // True if all calls of the layer must have the same mode, or fix none.
  virtual bool one_mode() const { return false; }
  // False if no gradient flows through the layer.
  virtual bool differentiable() const { return true; }
  // Set if the layer does nothing but this activation, so that a loss can use the logits before it.
  virtual std::optional<Activation> activation() const { return std::nullopt; }

  // The shapes of the outputs, if a call has several; empty otherwise. The kernel writes all
  // outputs of an example one after another. Valid after OutputShape.
  virtual std::vector<Shape> parts() const { return {}; }

  // The precision to which products may round their operands; nullopt means the inputs' precision.
  std::optional<Operands> operands() const { return operands_; }
  // True if the variable is the operand of a product, which may read its bfloat16 copy
  // (ForwardCall::Parameter).
  bool is_operand(size_t index) const {
    return index < variable_operands_.size() && variable_operands_[index];
  }

  // True if the output is the input's memory seen with another shape; then there is no kernel.
  virtual bool is_view() const { return false; }

  // Makes the kernel for one batch size. Fails if the device lacks memory or cannot compute the
  // shape.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                             std::span<const Shape> inputs) = 0;
  // True if MakeKernelOf can fuse this activation.
  virtual bool ends_in(const Activation& /*activation*/) const { return false; }
  // Says whether kernels can read their inputs and write their output as bfloat16. kIfComputed
  // means yes, unless the tensor was computed without variables, because a model's inputs may be
  // ids or other numbers that bfloat16 does not hold.
  enum class Bfloat16 { kNever, kIfComputed, kTaken };
  virtual Bfloat16 TakesBfloat16(Ops& /*ops*/, std::span<const Shape> /*inputs*/) const {
    return Bfloat16::kNever;
  }
  // Makes a kernel of the given form. Layers without fused forms ignore it.
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
  // Freezes the layer as part of a model that is frozen as a whole: no variable gets gradients or
  // penalties, but moving averages go on.
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
  // Makes a layer that is a part of another one, with the other's name.
  Layer(const Layer& like)
      : name_(like.name_),
        class_name_(like.class_name_),
        trainable_(like.trainable_),
        operands_(like.operands_) {}
  bool trainable() const { return trainable_; }
  void SetActivity(ActivityPenalty penalty) { activity_ = penalty; }

  // Declares a variable in the first OutputShape; later ones check that it is the same.
  absl::Status Declare(size_t index, const std::string& variable, const Shape& shape,
                       const Initializer& initializer);
  // Takes over the variables and regularizers of the layers inside this one.
  void Adopt(std::initializer_list<const Layer*> layers);
  // Freezes what was adopted: no variable gets gradients, but moving averages go on.
  void FreezeAdopted();
  void MakeOperand(size_t index) {
    variable_operands_.resize(std::max(variable_operands_.size(), index + 1));
    variable_operands_[index] = true;
  }
  // Makes the variable just declared untrained: constant, or a moving average that keeps the share
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

// Makes the layer, or the operation on tensors, that a model file describes. The error names the
// layer, the key, and what is supported.
absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(LayerConfig& config, bool operation);

}  // namespace paracord
