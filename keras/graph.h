// A model on a device: its layers, the order of their calls, the shapes, the buffers between them,
// and forward and backward over all of it. Owned by the program (keras_program.h), which owns the
// Ops too; used by one thread at a time. Knows nothing of losses, data or Keras' files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/json_fields.h"
#include "keras/json.h"
#include "keras/layers/layer.h"
#include "keras/pending_sum.h"
#include "tensor/ops.h"

namespace paracord {

// What a run says of the variables, by number, as it goes. Either may be empty.
struct VariableCallbacks {
  // Forward is about to ask for what reads the variable, for the first time in this run; at its
  // end, of those that it had no use for. Each once a run.
  std::function<void(size_t)> needed;
  // Backward has asked for the last of what writes the variable's gradient. Each once a run, those
  // near the losses first; not those without a gradient.
  std::function<void(size_t)> final;
};

// What one run over some examples needs; pointers are of the device.
struct GraphCall {
  int64_t batch = 0;
  std::span<const float* const> inputs;      // one for each input of the graph
  std::span<const float* const> parameters;  // one for each variable
  uint64_t key = 0;                          // of the batch, for dropout
  int64_t first_example = 0;                 // place within the batch
  float share = 1;                           // of the batch's examples
  bool last = true;         // of the slices that are computed here: gradients are final
  bool regularizes = true;  // the last of the batch's: they get the regularizers' part
  const VariableCallbacks* callbacks = nullptr;
};

// A layer as `paracord validate` shows it.
struct LayerRow {
  std::string name, class_name;
  Shape output;
  int64_t parameters = 0;     // 0 where an earlier row has them
  int64_t multiply_adds = 0;  // forward, one example
  // And backward: as many for the gradients of variables, and for those of inputs, where wanted.
  int64_t training_multiply_adds = 0;
  int64_t floats = 0;  // kept for one example
};

// A use of the device's memory, in bytes.
struct MemoryRow {
  enum class Kind { kParameters, kBatch, kValues, kGradients, kLayers, kWork, kCode };
  Kind kind = Kind::kValues;
  std::string what;
  int64_t bytes = 0;
};

class Graph {
 public:
  using Value = size_t;  // the output of a node
  static constexpr Value kNone = SIZE_MAX;
  static constexpr Value kUnknown = SIZE_MAX - 1;  // while a graph with problems is built

  // `data` has the shape of the examples for each input of the model, by position; nullopt: not
  // known. Each layer that cannot be had is a problem of its own; what comes after it is looked at
  // as far as that goes. Null: because of a problem, or of data, an output's shape is not known.
  static std::unique_ptr<Graph> Build(Ops& ops, const ModelSpec& model,
                                      std::span<const std::optional<Shape>> data,
                                      Problems& problems);

  // As what an InputLayer takes examples of this shape. The error names the layer.
  static absl::StatusOr<Shape> InputShape(const LayerSpec& layer, bool keras2, const Shape& data);

  const std::vector<VariableSpec>& variables() const { return variables_; }
  std::span<const Value> outputs() const { return outputs_; }
  const Shape& shape(Value value) const { return nodes_[value].shape; }
  // The mask of an output of the model, kNone if it has none.
  Value mask(size_t output) const { return output_masks_[output]; }
  // What `value` is the softmax or the sigmoid of, if that is its last step: where Keras finds the
  // logits. `of_sigmoid`: only of a sigmoid.
  std::optional<Value> LogitsOf(Value value, bool of_sigmoid) const;
  std::vector<LayerRow> Describe() const;
  // Set if an input of the model is ids for an embedding of so many rows.
  std::optional<int64_t> ids_below(size_t input) const;

  // Fixes the values that a loss is taken of, of different memory, and whether Backward will be
  // asked to add. Once, before Prepare.
  void PlanTraining(std::span<const Value> loss_values, bool add);
  // True if they share memory, so that a loss can be taken of one of them only.
  bool SameMemory(Value a, Value b) const { return nodes_[a].storage == nodes_[b].storage; }
  // A copy of the value, in memory of its own. Before PlanTraining.
  absl::StatusOr<Value> Duplicate(Value value);
  // Makes kernels and buffers for runs of so many examples, unless they are there.
  absl::Status Prepare(int64_t batch);
  // What it has allocated, and giving that back: then nothing is prepared.
  // Whether a layer may take fewer bits of its operands, and the device takes all.
  bool PrecisionInVain() const;
  std::vector<MemoryRow> Memory() const;
  void Release();

  // Inference computes the outputs and all before them, training what the losses and the moving
  // averages need. The batch size must be prepared.
  void Forward(const GraphCall& call, bool training);
  // Of the outputs and of values that a loss is taken of.
  const float* value(Value value) const { return Data(value); }
  // Where the gradient of the loss by the loss value goes before Backward.
  float* loss_gradient(Value loss_value) { return Gradient(loss_value); }
  // After a Forward in training mode of the same call. d_parameters has null for what is not
  // wanted; `add`: the gradients are added to what is there. The regularizers' part goes into
  // `loss` as well.
  void Backward(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                PendingSum& loss);
  // What layers' activity regularizers add to the loss, after a Forward of the same call; Backward
  // adds the gradient.
  void ActivityPenalties(const GraphCall& call, PendingSum& loss);
  // The regularizers' part of the loss, where there is no Backward.
  void Penalties(const GraphCall& call, PendingSum& loss);

 private:
  struct Node {
    Layer* layer = nullptr;     // null: an input of the graph
    std::vector<Value> inputs;  // kNone: a mask that is not there
    size_t data_inputs = 0;     // the others are masks
    std::vector<Shape> input_shapes;
    Shape shape;
    Operands operands = Operands::kFloat32;
    bool cast = false;                  // of an input, which belongs to the layer that comes next
    std::optional<Activation> ends_in;  // the activation that comes next, which is in place
    bool in_place = false;              // what there is to do is done by the input's kernel
    size_t storage = 0;                 // views share that of their input
    size_t first_variable = 0;
    uint64_t salt = 0;  // sets the node's random numbers apart
    CallMode mode = CallMode::kOfRun;
    std::vector<size_t> turn;     // as in NodeSpec
    bool needs_gradient = false;  // a trainable variable lies before it or in it
    bool in_training = false;     // a loss value or a moving average depends on it
    bool in_backward = false;     // its gradient is computed
    bool observes = false;        // that is zero: only moving averages want to know of it
    int later_calls = 0;          // of its layer, in Keras
  };
  struct PenaltyOn {
    size_t variable = 0;
    float l1 = 0, l2 = 0;
  };
  struct PenaltyOnValue {
    Value value = 0;
    ActivityPenalty penalty;
  };
  class Builder;  // graph_build.cc
  static Tensor TensorIn(float* memory, bool bfloat16) {
    return bfloat16 ? Tensor(reinterpret_cast<uint16_t*>(memory)) : Tensor(memory);
  }
  struct Storage {
    int64_t size = 0;             // elements of an example
    bool bfloat16 = false;        // and so is the gradient
    std::optional<size_t> input;  // of the graph: the caller's memory
    DeviceArray data;
    std::optional<size_t> gradient_slot;  // gradients share slots when their lives do not overlap
    int64_t floats() const { return bfloat16 ? (size + 1) / 2 : size; }  // of memory, an example
    Tensor In(float* memory) const { return TensorIn(memory, bfloat16); }
  };
  struct Slot {
    int64_t size = 0;  // floats an example
    DeviceArray data;
  };
  struct Kernels {
    uint64_t last_used = 0;
    std::vector<std::unique_ptr<Kernel>> nodes;
    std::vector<int64_t> bytes;  // that each has allocated
  };

  struct Sum {
    int64_t n = 0;
    ConstTensor from;
    Tensor to;
  };

  explicit Graph(Ops& ops) : ops_(ops) {}
  absl::StatusOr<Value> AddCall(Layer& layer, std::vector<Value> inputs, size_t data_inputs);
  void AddVariables(Layer& layer, Node& node);
  static bool IsView(const Node& node) { return node.in_place || node.layer->is_view(); }
  static bool Observes(const Node& node);
  void FoldActivations();
  void ShortenStorages(std::span<const Value> loss_values);
  void MarkTraining(std::span<const Value> loss_values);
  absl::Status Reserve(int64_t batch);
  absl::Status MakeKernels(int64_t batch, Kernels& kernels);
  void DropKernels(int64_t but);
  absl::Status NoMemory(const absl::Status& status, size_t storage, int64_t batch) const;
  std::string StorageTitle(size_t storage, int64_t batch) const;
  void PlanScratch(bool add);
  int64_t PassesOver(const Node& node) const;
  size_t TakeSlot(int64_t size, std::vector<size_t>& free);
  ConstTensor Data(Value value) const;
  Tensor Gradient(Value value) const;
  // Those of the job, where the layer's policy says nothing.
  Operands OperandsOf(const Node& node) const {
    return tf32_ && node.operands == Operands::kFloat32 ? Operands::kTf32 : node.operands;
  }
  absl::Status ReserveRounded();
  // Its variables' part of all.
  template <class Pointer>
  static std::span<const Pointer> Of(const std::vector<Pointer>& all, const Node& node) {
    if (all.empty()) return {};
    return std::span(all).subspan(node.first_variable, node.layer->variables().size());
  }
  void Need(size_t variable, const GraphCall& call);
  void EndVariable(size_t variable, const GraphCall& call, std::span<float* const> d_parameters,
                   PendingSum& loss);
  void AddActivityGradients(size_t index, const GraphCall& call);
  void BackwardNode(size_t index, const GraphCall& call, std::span<float* const> d_parameters);

  Ops& ops_;
  bool frozen_ = false;  // as ModelSpec::frozen
  bool tf32_ = false;    // in all products, not only those of a mixed policy
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Node> nodes_;
  std::vector<Storage> storages_;
  std::vector<Slot> slots_;
  std::vector<VariableSpec> variables_;
  std::map<const Layer*, size_t> first_variable_;
  std::vector<PenaltyOn> penalties_;
  std::vector<PenaltyOnValue> activities_;
  std::vector<Value> outputs_, output_masks_;
  std::vector<Value> loss_values_;
  std::vector<size_t> last_writer_;     // node, by variable: of its gradient; or kNone
  int64_t capacity_ = 0;                // examples that the buffers hold
  std::map<int64_t, Kernels> kernels_;  // by batch size
  uint64_t uses_ = 0;
  Kernels* current_ = nullptr;
  // By variable, or empty where there are none: for those that products take as bfloat16.
  std::vector<DeviceArray> rounded_;
  // Of a run.
  std::span<const float* const> inputs_;
  std::vector<const float*> parameters_;
  std::vector<ConstTensor> call_inputs_;
  std::vector<const uint16_t*> operands_;  // as rounded_, once it has the numbers
  std::vector<Tensor> call_d_inputs_;
  std::vector<float*> call_d_parameters_;
  std::vector<bool> storage_written_, variable_written_, variable_needed_;
  std::vector<Sum> sums_;
  // Gradients to be added to others: of inputs (floats an example), then of variables.
  int64_t scratch_inputs_ = 0, scratch_parameters_ = 0;
  DeviceArray scratch_;
};

}  // namespace paracord
