// A model on a device: layers, the order of calls, shapes, the buffers between layers, and forward
// and backward over all of them. Owned by the program (keras_program.h), like the Ops; used by one
// thread at a time. Use: Build, PlanTraining, then for each run Prepare, Forward, Backward. Knows
// nothing of losses, data or Keras' files. A graph may compute a single stage of its nodes and hold
// the values of several runs at a time (keras/stage_program.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/json_fields.h"
#include "keras/json.h"
#include "keras/layers/layer.h"
#include "keras/pending_sum.h"
#include "keras/rounded_variables.h"
#include "keras/stage_cut.h"
#include "tensor/ops.h"

namespace paracord {

// Callbacks by which a run reports its uses of each variable (by number). Either may be empty. They
// run on the run's thread.
struct VariableCallbacks {
  // Called once a run, before Forward issues the first operation that reads the variable; at the
  // end of Forward for unread variables.
  std::function<void(size_t)> needed;
  // Called once a run, after Backward has issued the last write of the variable's gradient;
  // variables near the losses come first. Variables without a gradient are left out.
  std::function<void(size_t)> final;
};

// The arguments of a run over some examples; pointers are to the device's memory.
struct GraphCall {
  int64_t batch = 0;
  std::span<const float* const> inputs;      // one for each input of the graph
  std::span<const float* const> parameters;  // one for each variable
  uint64_t key = 0;                          // the batch's key, for dropout
  int64_t first_example = 0;                 // index within the batch
  float share = 1;                           // the run's part of the batch's examples
  bool last = true;                          // last slice on this device: gradients become final
  // The batch's last slice also adds the regularizers' gradients.
  bool regularizes = true;
  const VariableCallbacks* callbacks = nullptr;
};

// The values, or their gradients, handed from one stage of a graph to another in a run.
struct StageTensors {
  std::vector<size_t> storages;  // indices in the graph
  std::vector<std::vector<float>> arrays;
};

// A row in the table of `paracord validate`.
struct LayerRow {
  std::string name, class_name;
  Shape output;
  int64_t parameters = 0;     // 0 if counted in an earlier row
  int64_t multiply_adds = 0;  // forward, for one example
  // Forward and backward for one example: the forward count again for the variables' gradients, and
  // again for the inputs' gradients, where needed.
  int64_t training_multiply_adds = 0;
  int64_t floats = 0;  // memory kept for one example
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
  static constexpr Value kUnknown = SIZE_MAX - 1;  // only while a graph with problems is built

  // Builds the graph of a model. `data` has the examples' shape for each input of the model by
  // position, or nullopt if unknown. Each layer that cannot be built adds a problem of its own, and
  // the layers behind are checked as far as possible. Returns null if the shape of an output is
  // unknown, because of a problem or of missing data.
  static std::unique_ptr<Graph> Build(Ops& ops, const ModelSpec& model,
                                      std::span<const std::optional<Shape>> data,
                                      Problems& problems);

  // The shape given by an InputLayer to examples of shape `data`. The error names the layer.
  static absl::StatusOr<Shape> InputShape(const LayerSpec& layer, bool keras2, const Shape& data);

  const std::vector<VariableSpec>& variables() const { return variables_; }
  std::span<const Value> outputs() const { return outputs_; }
  const Shape& shape(Value value) const { return nodes_[value].shape; }
  // The mask of an output of the model; kNone if it has none.
  Value mask(size_t output) const { return output_masks_[output]; }
  // If the last step of `value` is a softmax or a sigmoid, returns its logits, as found by Keras.
  // With `of_sigmoid` only a sigmoid counts.
  std::optional<Value> LogitsOf(Value value, bool of_sigmoid) const;
  std::vector<LayerRow> Describe() const;
  // Set if an input holds ids for an embedding with a number of rows, returned here. Beyond
  // kPlainRowsMax the caller passes ids in the form of RowToFloat (row_ids.h).
  std::optional<int64_t> ids_below(size_t input) const;
  // Makes a trained Embedding's variable a table: runs may have only some of its rows. A growing
  // table has `shards` on axis 0, and any ids.
  void SetTable(const std::string& layer, const TableSpec& table, uint64_t shards = 0);
  // A call that reads rows by ids from an input of the graph. Ids with weight 0, or hidden by a
  // mask of the ids, have no effect; weights and mask are inputs, too.
  struct IdReader {
    size_t input = 0;
    std::optional<size_t> weights = {};
    std::optional<size_t> mask = {};
  };
  // The inputs with a table's ids, ascending, the number of ids in an example, and the calls that
  // read the ids.
  struct TableInputs {
    std::vector<size_t> inputs;
    int64_t ids = 0;
    std::vector<IdReader> readers;
  };
  TableInputs InputsOfTable(size_t variable) const;
  // Makes masks computed by the model from ids (`ids != 0`) read the tables' local numbers instead.
  // Called before PlanTraining.
  void TakeIdMasks();
  // The following runs have these numbers of table rows, by variable; empty: all rows.
  void UseRows(std::vector<int64_t> rows);
  // Reserves memory for training with all rows. Called after PlanTraining.
  absl::Status ReserveAllRows();
  // The floats of a variable in the following runs.
  int64_t FloatsOf(size_t variable) const;
  // Checks that ids of embeddings beyond kPlainRowsMax come from inputs without other readers. An
  // error names the layer.
  absl::Status CheckLargeTables() const;

  // Called once, before the first Prepare. Fixes the values on which losses are computed, which
  // must not share memory, and whether Backward will add. Plans the memory of gradients, for runs
  // with at most the rows of UseRows. Forward computes the `measured` values in training as well,
  // even if no loss needs them: a loss often takes the logits of an output instead.
  void PlanTraining(std::span<const Value> losses, bool add, std::span<const Value> measured);
  // True if two values share memory; then only one may be a loss value.
  bool SameMemory(Value a, Value b) const { return nodes_[a].storage == nodes_[b].storage; }
  // Adds a copy of the value with its own memory. Called before PlanTraining.
  absl::StatusOr<Value> Duplicate(Value value);
  // Makes the kernels and buffers for runs of `batch` examples, unless present. On failure
  // (RESOURCE_EXHAUSTED) nothing is prepared.
  absl::Status Prepare(int64_t batch) { return Prepare(batch, 0); }
  // Makes the following runs use place `held` for their values: a Backward may then follow the
  // Forward of other places.
  absl::Status Prepare(int64_t batch, size_t held);

  // The functions from here to ReceiveGradients are in graph_stages.cc.
  // The layers, in order, for dividing into stages.
  std::vector<StageLayer> StageLayers() const;
  // From now on runs compute only the nodes [begin, end), or from `begin` on if `end` is kNone, on
  // values and gradients received for each run. Called after PlanTraining and before the first
  // Prepare.
  void KeepToStage(Value begin, Value end);
  // Whether a layer of this stage has the variable.
  bool OwnsVariable(size_t variable) const;
  // Whether a node of this stage, or an output in the last stage, is or reads the caller's input.
  bool ReadsInput(size_t input) const;
  // Returns the values, of this stage and earlier stages, taken by later nodes, losses or outputs;
  // after Forward of the call. The device's Finish completes the arrays.
  StageTensors SendValues(const GraphCall& call, bool training);
  // Takes the values sent by the previous stage; before Forward of the call.
  void ReceiveValues(const GraphCall& call, const StageTensors& values);
  // Returns the gradients of earlier stages' values, with the parts of this stage and later stages
  // added; after Backward of the call. The device's Finish completes the arrays.
  StageTensors SendGradients(const GraphCall& call);
  // Takes the gradients sent by the next stage; before each Backward.
  void ReceiveGradients(const GraphCall& call, const StageTensors& gradients);
  // True if the precision of a layer allows fewer bits but the device computes in float32 anyway.
  bool PrecisionInVain() const;
  // The uses of the device's memory, and giving all of it back; then nothing is prepared.
  std::vector<MemoryRow> Memory() const;
  void Release();

  // Computes the outputs (inference), or everything needed by losses and moving averages
  // (training). The batch size must be prepared.
  void Forward(const GraphCall& call, bool training);
  // The tensor of an output or a loss value, after Forward.
  const float* value(Value value) const { return Data(value); }
  // Where the caller puts the gradient of the loss value before Backward.
  float* loss_gradient(Value loss_value) { return Gradient(loss_value); }
  // Computes the gradients after a training Forward of `call`. d_parameters has null for unwanted
  // gradients. With `add`, gradients are added to the present contents. The regularizers' part of
  // the loss goes into `loss`.
  void Backward(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                PendingSum& loss);
  // Adds the activity regularizers' part of the loss to `loss`, after Forward of `call`. Backward
  // adds their gradient.
  void ActivityPenalties(const GraphCall& call, PendingSum& loss);
  // The two halves of Backward: gradients written by nodes, and variables without a writing node.
  void BackwardNodes(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                     PendingSum& loss);
  void EndUnread(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                 PendingSum& loss);
  // Adds the regularizers' part of the loss to `loss`; for runs without Backward.
  void Penalties(const GraphCall& call, PendingSum& loss);

 private:
  struct Node {
    Layer* layer = nullptr;     // null: an input of the graph
    std::vector<Value> inputs;  // kNone: an absent mask
    size_t data_inputs = 0;     // the inputs behind are masks
    std::vector<Shape> input_shapes;
    Shape shape;
    Operands operands = Operands::kFloat32;
    bool cast = false;                  // an adapter of an input, shown as part of the next layer
    std::optional<Activation> ends_in;  // the next node's activation, fused into this node
    bool in_place = false;              // the input's kernel does the work
    size_t storage = 0;                 // views share their input's storage
    size_t first_variable = 0;
    uint64_t salt = 0;  // distinguishes the node's random numbers
    CallMode mode = CallMode::kOfRun;
    std::vector<size_t> turn;     // Keras' order of calls, see NodeSpec
    bool needs_gradient = false;  // the node or an ancestor has a trainable variable
    bool in_training = false;     // needed by a loss value or a moving average
    bool in_backward = false;     // the node's gradient is computed
    bool observes = false;        // zero gradient; only moving averages are updated in backward
    int later_calls = 0;          // later calls of the layer, in Keras' order
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
    int64_t size = 0;                     // elements per example
    bool bfloat16 = false;                // type of the values and of the gradient
    std::optional<size_t> input;          // set: the memory of the caller's input
    std::optional<size_t> gradient_slot;  // gradients with disjoint lives share slots
    // Floats of memory per example.
    int64_t floats() const { return bfloat16 ? (size + 1) / 2 : size; }
    Tensor In(float* memory) const { return TensorIn(memory, bfloat16); }
  };
  struct Slot {
    int64_t size = 0;  // floats per example
    DeviceArray data;
  };
  struct Kernels {
    uint64_t last_used = 0;
    std::vector<std::unique_ptr<Kernel>> nodes;
    std::vector<int64_t> bytes;  // bytes allocated by each kernel
  };
  struct KernelCache {
    std::map<int64_t, Kernels> of_batch;  // keyed by batch size
    uint64_t uses = 0;
    Kernels* current = nullptr;
  };
  // The values of a run, from Forward to Backward.
  struct Held {
    int64_t capacity = 0;  // capacity in examples
    // Indexed by storage; null: a caller's input, or another stage's.
    std::vector<DeviceArray> data;
    KernelCache kernels;
  };
  // Memory for gradients to be added: of inputs, then of variables.
  struct Scratch {
    bool adds = false;       // the argument of PlanTraining
    int64_t capacity = 0;    // capacity in examples, also of the slots
    int64_t inputs = 0;      // floats per example
    int64_t parameters = 0;  // floats
    DeviceArray data;
  };
  // The nodes computed by runs, and where they need values of other stages.
  struct Stage {
    Value begin = 0, end = kNone;  // kNone: to the last node
    std::vector<bool> owned;       // indexed by variable; empty: all
    // Indexed by storage: the first node and the last reader, or kNone for losses and outputs.
    std::vector<std::pair<Value, Value>> lives;  // empty: all nodes are computed
    std::vector<size_t> received;  // storages whose gradients come from the next stage
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
  std::optional<size_t> InputOf(Value value) const {
    return storages_[nodes_[value].storage].input;
  }
  IdReader ReaderOf(Value reader) const;
  std::optional<size_t> MaskHiding(Value steps) const;
  void FoldActivations();
  void ShortenStorages(std::span<const Value> loss_values);
  void MarkTraining(std::span<const Value> loss_values, std::span<const Value> measured);
  absl::Status Reserve(int64_t batch);
  absl::Status ReserveGradients(int64_t batch);
  // The nodes computed by runs.
  Value stage_end() const { return std::min(stage_.end, nodes_.size()); }
  bool InStage(Value node) const { return stage_.begin <= node && node < stage_end(); }
  // Whether a storage is made, read or handed on in this stage.
  bool TouchesStorage(size_t storage) const;
  bool TouchesSlot(size_t slot) const;
  // The floats of memory that hold a storage's elements for the call's examples.
  int64_t FloatsSent(const GraphCall& call, size_t storage) const;
  void Send(const GraphCall& call, size_t storage, const float* data, StageTensors& sent);
  Kernel* KernelOf(Value node) const { return held_[at_].kernels.current->nodes[node].get(); }
  void AddKernelRows(const KernelCache& cache, std::vector<MemoryRow>& rows) const;
  absl::Status MakeKernels(int64_t batch, Kernels& kernels);
  void DropKernels(int64_t but);
  absl::Status NoMemory(const absl::Status& status, size_t storage, int64_t batch) const;
  std::string StorageTitle(size_t storage, int64_t batch) const;
  void PlanScratch();
  int64_t PassesOver(const Node& node) const;
  size_t TakeSlot(int64_t size, std::vector<size_t>& free);
  ConstTensor Data(Value value) const;
  Tensor Gradient(Value value) const;
  // The layer's precision, or the job's if the layer says nothing.
  Operands OperandsOf(const Node& node) const {
    return tf32_ && node.operands == Operands::kFloat32 ? Operands::kTf32 : node.operands;
  }
  absl::Status ReserveRounded();
  // The entries of `all` (one for each variable) for the node's variables.
  template <class Pointer>
  static std::span<const Pointer> Of(const std::vector<Pointer>& all, const Node& node) {
    if (all.empty()) return {};
    return std::span(all).subspan(node.first_variable, node.layer->variables().size());
  }
  std::vector<std::pair<Value, Value>> LivesOfStorages() const;
  void Need(size_t variable, const GraphCall& call);
  void EndVariable(size_t variable, const GraphCall& call, std::span<float* const> d_parameters,
                   PendingSum& loss);
  void AddActivityGradients(size_t index, const GraphCall& call);
  void BackwardNode(size_t index, const GraphCall& call, std::span<float* const> d_parameters);

  Ops& ops_;
  bool frozen_ = false;  // see ModelSpec::frozen
  bool tf32_ = false;    // all products may use TF32, with or without a mixed policy
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Node> nodes_;
  std::vector<Storage> storages_;
  std::vector<Slot> slots_;
  std::vector<VariableSpec> variables_;
  std::vector<int64_t> rows_there_;  // indexed by variable; empty: all rows
  std::map<const Layer*, size_t> first_variable_;
  std::vector<PenaltyOn> penalties_;
  std::vector<PenaltyOnValue> activities_;
  std::vector<Value> outputs_, output_masks_;
  std::vector<Value> loss_values_;
  // Indexed by variable: the last node to write its gradient, or kNone.
  std::vector<size_t> last_writer_;
  std::vector<Held> held_{1};
  size_t at_ = 0;  // the place in held_ of the present run
  Stage stage_;
  RoundedVariables rounded_;
  // State of a run.
  std::span<const float* const> inputs_;
  std::vector<const float*> parameters_;
  std::vector<ConstTensor> call_inputs_;
  std::vector<Tensor> call_d_inputs_;
  std::vector<float*> call_d_parameters_;
  std::vector<bool> storage_written_, variable_written_, variable_needed_;
  std::vector<Sum> sums_;
  Scratch scratch_;
};

}  // namespace paracord
