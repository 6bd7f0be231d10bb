// A model on a device: its layers, the order of their calls, the shapes, the buffers between them,
// and forward and backward over all of it. Owned by the program (keras_program.h), which owns the
// Ops too; used by one thread at a time. Knows nothing of losses, data or Keras' files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/keras_json.h"
#include "worker/layer.h"
#include "worker/ops.h"

namespace paracord {

// What one run over some examples needs; pointers are of the device.
struct GraphCall {
  int64_t batch = 0;
  std::span<const float* const> inputs;      // one for each input of the graph
  std::span<const float* const> parameters;  // one for each variable
  uint64_t key = 0;                          // of the batch, for dropout
  int64_t first_example = 0;                 // place within the batch
};

class Graph {
 public:
  using Value = size_t;  // the output of a node

  // `data` has the shape of the examples for each input of the model, by position.
  static absl::StatusOr<std::unique_ptr<Graph>> Build(Ops& ops, const ModelSpec& model,
                                                      std::span<const Shape> data);

  const std::vector<VariableSpec>& variables() const { return variables_; }
  Value output() const { return output_; }
  const Shape& shape(Value value) const { return nodes_[value].shape; }
  // What the output is `kind` of, if its last step is that activation.
  std::optional<Value> Before(ActivationKind kind) const;

  // Fixes the value that a loss is taken of, and whether Backward will be asked to add. Once,
  // before Prepare.
  void PlanTraining(Value loss_value, bool add);
  // Makes kernels and buffers for runs of so many examples, unless they are there.
  absl::Status Prepare(int64_t batch);

  // Inference computes the output and all before it, training what the loss needs. The batch size
  // must be prepared.
  void Forward(const GraphCall& call, bool training);
  const float* value(Value value) const { return Data(value); }
  // Where the gradient of the loss by the loss value goes before Backward.
  float* loss_gradient() { return Gradient(loss_value_); }
  // After a Forward in training mode of the same call. d_parameters has null for what is not
  // wanted; `add`: the gradients are added to what is there.
  void Backward(const GraphCall& call, std::span<float* const> d_parameters, bool add);

 private:
  struct Node {
    Layer* layer = nullptr;  // null: an input of the graph
    std::vector<Value> inputs;
    std::vector<Shape> input_shapes;
    Shape shape;
    size_t storage = 0;  // views share that of their input
    size_t first_variable = 0;
    uint64_t salt = 0;            // sets the node's random numbers apart
    bool needs_gradient = false;  // a trainable variable lies before it or in it
    bool in_training = false;     // the loss value depends on it
  };
  // Of one storage, in floats an example.
  struct Storage {
    int64_t size = 0;
    std::optional<size_t> input;  // of the graph: the caller's memory
    DeviceArray data;
    std::optional<size_t> gradient_slot;  // gradients share slots when their lives do not overlap
  };
  struct Slot {
    int64_t size = 0;
    DeviceArray data;
  };
  struct Kernels {
    uint64_t last_used = 0;
    std::vector<std::unique_ptr<Kernel>> nodes;
  };

  struct Sum {
    int64_t n = 0;
    const float* from = nullptr;
    float* to = nullptr;
  };

  explicit Graph(Ops& ops) : ops_(ops) {}
  absl::Status AddInput(const LayerSpec& layer, bool keras2, const Shape& data);
  absl::Status AddCall(Layer& layer, std::vector<Value> inputs);
  absl::Status Reserve(int64_t batch);
  void PlanScratch(bool add);
  size_t TakeSlot(int64_t size, std::vector<size_t>& free);
  const float* Data(Value value) const;
  float* Gradient(Value value) const;
  void BackwardNode(size_t index, const GraphCall& call, std::span<float* const> d_parameters);

  Ops& ops_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Node> nodes_;
  std::vector<Storage> storages_;
  std::vector<Slot> slots_;
  std::vector<VariableSpec> variables_;
  std::map<const Layer*, size_t> first_variable_;
  Value output_ = 0;
  Value loss_value_ = 0;
  int64_t capacity_ = 0;                // examples that the buffers hold
  std::map<int64_t, Kernels> kernels_;  // by batch size
  uint64_t uses_ = 0;
  Kernels* current_ = nullptr;
  // Of a run.
  std::span<const float* const> inputs_;
  std::vector<const float*> call_inputs_;
  std::vector<float*> call_d_inputs_, call_d_parameters_;
  std::vector<bool> storage_written_, variable_written_;
  std::vector<Sum> sums_;
  // Gradients to be added to others: of inputs (floats an example), then of variables.
  int64_t scratch_inputs_ = 0, scratch_parameters_ = 0;
  DeviceArray scratch_;
};

}  // namespace paracord
