// What a layer is: shapes, variables, and for a batch size a kernel that computes forward and
// backward over the operations of ops.h. A layer of Keras is one entry in the table of layers
// (layers.cc). A layer is constant once built, so that several nodes of a graph may share it; what
// a call needs to remember is in the kernel of its node. Used by one thread at a time.
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

absl::Status WrongMask(const Shape& mask, const Shape& input);

// The place in `input` of the first of `axes`, which Keras counts from the batch on or back from
// the end, and which must be the last ones.
absl::StatusOr<size_t> FirstOfLastAxes(std::vector<int64_t> axes, const Shape& input);

int64_t VariableElements(const VariableSpec& variable);

// To a multiple of a cache line's floats.
inline int64_t RoundUp(int64_t floats) { return (floats + 15) / 16 * 16; }

// An error if the number of elements is beyond what any device holds.
absl::Status CheckElements(const Shape& shape);

// One call of a kernel. Pointers are of the device.
struct ForwardCall {
  std::span<const ConstTensor> inputs;       // (batch, input shape)
  std::span<const float* const> parameters;  // in the order of Layer::variables()
  // By parameter: what Ops::Convert made of it, or null. Or empty.
  std::span<const uint16_t* const> rounded;
  ConstTensor Parameter(size_t i) const {
    return {parameters[i], rounded.empty() ? nullptr : rounded[i]};
  }
  Tensor output;              // (batch, output shape)
  bool training = false;      // the run's mode, or what the call asks for instead
  uint64_t key = 0;           // of this batch and this node
  int64_t first_example = 0;  // place within the batch, which may be computed in slices
};

// The gradients a kernel writes; it never adds. Null where one is not wanted.
struct BackwardCall {
  std::span<const ConstTensor> inputs;
  std::span<const float* const> parameters;
  std::span<const uint16_t* const> rounded;
  ConstTensor Parameter(size_t i) const {
    return {parameters[i], rounded.empty() ? nullptr : rounded[i]};
  }
  ConstTensor output;
  Tensor d_output;  // may be overwritten
  std::span<const Tensor> d_inputs;
  std::span<float* const> d_parameters;
  uint64_t key = 0;
  int64_t first_example = 0;
  float share = 1;      // of these examples in the batch, which may be computed in slices
  int later_calls = 0;  // of the same layer, in this run
};

// What else a kernel may be asked to do, and of which type its tensors are.
struct KernelForm {
  // Computed last, and the gradient that it gets is by that.
  std::optional<Activation> ends_in = {};
  bool input_bfloat16 = false;  // the first
  bool output_bfloat16 = false;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Forward(const ForwardCall& call) = 0;
  // Of the last Forward, which was of a training step.
  virtual void Backward(const BackwardCall& call) = 0;
};

class Layer {
 public:
  virtual ~Layer() = default;

  const std::string& name() const { return name_; }
  const std::string& class_name() const { return class_name_; }
  // Valid after the first OutputShape. Names have the layer's in front.
  const std::vector<VariableSpec>& variables() const { return variables_; }

  // The output for inputs of these shapes; the first call declares the variables, a later one must
  // find the same. Errors do not name the layer: the graph does.
  virtual absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) = 0;

  // An activation that the graph computes after this layer, as a node of its own.
  virtual std::optional<Activation> activation_after() const { return std::nullopt; }
  // True: more inputs than two are taken two by two, from the left.
  virtual bool folds() const { return false; }
  // Set: ReduceMean and the like, computed after `count` inputs were folded.
  virtual std::optional<Activation> after_folding(size_t /*count*/) const { return std::nullopt; }

  // How many tensors a call of a layer that does not fold may have.
  virtual size_t most_inputs() const { return 1; }
  // A constant has no batch. The shape that it has in every example as input `input` of a call
  // whose other inputs have at most `rank` axes; an error where it has none.
  virtual absl::StatusOr<Shape> ConstantShape(size_t input, const Shape& constant,
                                              size_t rank) const;

  // True: the layer keeps that constant of its call, which is no input then. Before OutputShape.
  virtual bool Keeps(const NumberArray& /*constant*/) { return false; }

  // What becomes of the masks of the inputs. A mask is a tensor of ones and zeros, an element a
  // step, as Keras propagates it.
  enum class MaskRule {
    kStop,
    kPass,     // that of the first input
    kOr,       // of all, if all have one; in Keras 2 "and" of those that have
    kCompute,  // by MakeMaskLayer
  };
  virtual MaskRule mask_rule() const { return MaskRule::kStop; }
  // True: after the inputs come as many masks, null (and of shape ()) for those without.
  virtual bool takes_masks() const { return false; }
  // The arguments of a call that may be masks. "mask" is the first input's, or a list.
  virtual std::vector<std::string_view> mask_arguments() const {
    return takes_masks() ? std::vector<std::string_view>{"mask"} : std::vector<std::string_view>();
  }
  // False: a call with so many inputs gets only the masks that it names.
  virtual bool masks_come_along(size_t /*inputs*/) const { return true; }
  // True: a call takes the masks off its inputs, for whatever is computed of them later.
  virtual bool removes_masks() const { return false; }
  // A layer that computes the mask of the output from the inputs and their masks, given as for
  // takes_masks. Null: there is none.
  virtual std::unique_ptr<Layer> MakeMaskLayer(std::span<const Shape> /*inputs*/) const {
    return nullptr;
  }
  // Set: its input is ids, which must be whole numbers from 0 to below this.
  virtual std::optional<int64_t> ids_below() const { return std::nullopt; }
  // True: all its calls must ask for the same mode, or for none.
  virtual bool one_mode() const { return false; }
  // False: no gradient goes through it.
  virtual bool differentiable() const { return true; }
  // Set if the layer is nothing but this activation: a loss may ask for what comes before it.
  virtual std::optional<Activation> activation() const { return std::nullopt; }

  // Not empty: a call has so many outputs, and what the kernel writes for an example is all of
  // them, one after the other. Valid after OutputShape.
  virtual std::vector<Shape> parts() const { return {}; }

  // What its products may take of their operands; nullopt: as those that its inputs come from.
  std::optional<Operands> operands() const { return operands_; }
  // True: products take the variable, as ForwardCall::Parameter gives it.
  bool is_operand(size_t index) const {
    return index < variable_operands_.size() && variable_operands_[index];
  }

  // True: the output is the input seen with another shape, and there is no kernel.
  virtual bool is_view() const { return false; }

  virtual absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                             std::span<const Shape> inputs) = 0;
  // Whether there is such a kernel.
  virtual bool ends_in(const Activation& /*activation*/) const { return false; }
  // Whether kernels take any of their inputs as bfloat16, and give the output so. kIfComputed: of
  // what was computed with variables; what the model is given may be numbers of another kind.
  enum class Bfloat16 { kNever, kIfComputed, kTaken };
  virtual Bfloat16 TakesBfloat16(Ops& /*ops*/, std::span<const Shape> /*inputs*/) const {
    return Bfloat16::kNever;
  }
  // For a layer whose kernels have to know it.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelOf(const KernelForm& /*form*/, Ops& ops,
                                                               int64_t batch,
                                                               std::span<const Shape> inputs) {
    return MakeKernel(ops, batch, inputs);
  }

  // Multiply-adds of a forward pass over one example.
  virtual int64_t Arithmetic(std::span<const Shape> /*inputs*/, const Shape& output) const {
    return Elements(output);
  }

  const std::vector<Regularizer>& regularizers() const { return regularizers_; }
  const std::optional<ActivityPenalty>& activity() const { return activity_; }
  // As part of a model that is frozen as a whole: no variable takes gradients or penalties, but
  // averages go on moving.
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
  // A part of another layer, with its name.
  Layer(const Layer& like)
      : name_(like.name_),
        class_name_(like.class_name_),
        trainable_(like.trainable_),
        operands_(like.operands_) {}
  bool trainable() const { return trainable_; }
  void SetActivity(ActivityPenalty penalty) { activity_ = penalty; }

  // Declares a variable, or checks that an earlier call declared the same.
  absl::Status Declare(size_t index, const std::string& variable, const Shape& shape,
                       const Initializer& initializer);
  // The variables, and their regularizers, are those of layers within.
  void Adopt(std::initializer_list<const Layer*> layers);
  // Of what was adopted: no variable takes gradients, averages go on moving.
  void FreezeAdopted();
  void MakeOperand(size_t index) {
    variable_operands_.resize(std::max(variable_operands_.size(), index + 1));
    variable_operands_[index] = true;
  }
  // The variable just declared takes no gradients: it is constant, or a moving average that keeps
  // so much at each update.
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
