// A model on a device: layers, the order of their calls, shapes, buffers between layers, and the
// passes forward and backward over all layers. Owned by the program (keras_program.h), like the
// Ops; used by one thread at a time. Use: Build, PlanTraining, then Prepare, Forward and Backward
// for each run, over a batch or a slice of a batch. Knows nothing of the kinds of losses, of data
// or of Keras' files. A graph may compute only one stage of the model, and hold the values of
// several runs at a time (keras/stage_program.h).
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

// Callbacks by which a run reports its uses of each variable, by the variable's index. Called on
// the run's thread. Each may be empty.
struct VariableCallbacks {
  // Called once in each Forward for every variable of the stage: before the first operation that
  // reads the variable, or at the end if none does.
  std::function<void(size_t)> needed;
  // Called once for every variable with a gradient, in the Backward of a run with `last`, after the
  // last write of the gradient was issued; variables near the losses come first.
  std::function<void(size_t)> final;
};

// The arguments of a run over some examples; pointers are to the device's memory.
struct GraphCall {
  int64_t batch = 0;
  std::span<const float* const> inputs;      // one for each input of the graph
  std::span<const float* const> parameters;  // one for each variable
  uint64_t key = 0;                          // the batch's key, for dropout
  int64_t first_example = 0;                 // index of the first example within the batch
  float share = 1;                           // the run's examples divided by the batch's
  bool last = true;         // the batch's last run on this device: gradients become final
  bool regularizes = true;  // with `last`: Backward adds the regularizers' gradients
  const VariableCallbacks* callbacks = nullptr;
};

// What a stage of a model hands on in a run: values of nodes to the next stage, or the gradients of
// such values to the previous stage.
struct StageTensors {
  // The index of each value's storage in the graph; equal in all stages.
  std::vector<size_t> storages;
  std::vector<std::vector<float>> arrays;
};

// A layer's row in the table that `paracord validate` prints.
struct LayerRow {
  std::string name, class_name;
  Shape output;
  int64_t parameters = 0;     // elements of variables that no earlier row has counted
  int64_t multiply_adds = 0;  // forward, for one example
  // Forward and backward, for one example: the forward count again if a variable of the layer is
  // trainable, and again if an input needs a gradient.
  int64_t training_multiply_adds = 0;
  int64_t floats = 0;  // memory of the layer's output, for one example
};

// A use of the device's memory.
struct MemoryRow {
  enum class Kind { kParameters, kBatch, kValues, kGradients, kLayers, kWork, kCode };
  Kind kind = Kind::kValues;
  std::string what;
  int64_t bytes = 0;
};

class Graph {
 public:
  using Value = size_t;  // the index of a node, which stands for the node's output
  static constexpr Value kNone = SIZE_MAX;
  static constexpr Value kUnknown = SIZE_MAX - 1;  // used only while a graph is built

  // Builds the graph of a model. `data` has, for each input of the model, the shape of the data's
  // examples, or nullopt if unknown. Each layer that cannot be built adds a problem, and later
  // layers are checked as far as possible. Returns null if the shape of an output stays unknown.
  static std::unique_ptr<Graph> Build(Ops& ops, const ModelSpec& model,
                                      std::span<const std::optional<Shape>> data,
                                      Problems& problems);

  // Returns the shape that an InputLayer gives to examples of shape `data`. INVALID_ARGUMENT names
  // the layer if `data` does not fit.
  static absl::StatusOr<Shape> InputShape(const LayerSpec& layer, bool keras2, const Shape& data);

  const std::vector<VariableSpec>& variables() const { return variables_; }
  std::span<const Value> outputs() const { return outputs_; }
  const Shape& shape(Value value) const { return nodes_[value].shape; }
  // The mask of output number `output` of the model; kNone if the output has none.
  Value mask(size_t output) const { return output_masks_[output]; }
  // If the last step of `value` is a softmax or a sigmoid, returns the logits, as Keras finds them;
  // otherwise nullopt. With `of_sigmoid` only a sigmoid counts.
  std::optional<Value> LogitsOf(Value value, bool of_sigmoid) const;
  std::vector<LayerRow> Describe() const;
  // Set if input number `input` holds ids for embeddings: the least number of rows of these
  // embeddings. Above kPlainRowsMax (2^24) the caller passes ids in the form of RowToFloat
  // (row_ids.h).
  std::optional<int64_t> ids_below(size_t input) const;
  // Makes the variable of the Embedding `layer`, if trained, a table: runs may have only some of
  // the rows. A growing table takes any ids, and axis 0 of its shape has size `shards`.
  void SetTable(const std::string& layer, const TableSpec& table, uint64_t shards = 0);
  // A call that reads rows by ids from an input of the graph. `weights` and `mask` are inputs as
  // well, or nullopt: ids of weight 0, and ids hidden by the mask, have no effect.
  struct IdReader {
    size_t input = 0;
    std::optional<size_t> weights = {};
    std::optional<size_t> mask = {};
  };
  // The inputs with a table's ids, ascending; the number of ids of an example in all these inputs;
  // and the calls that read the ids.
  struct TableInputs {
    std::vector<size_t> inputs;
    int64_t ids = 0;
    std::vector<IdReader> readers;
  };
  TableInputs InputsOfTable(size_t variable) const;
  // Makes masks that the model computes from a table's ids (`ids != 0`) read the ids' numbers in a
  // run (NumberedRows). Called before PlanTraining.
  void TakeIdMasks();
  // Sets the number of rows of each variable that is a table in the following runs; empty: all
  // rows.
  void UseRows(std::vector<int64_t> rows);
  // Gives the following runs all rows of tables, and reserves the memory to train with them. Called
  // after PlanTraining.
  absl::Status ReserveAllRows();
  // The number of floats of a variable in the following runs.
  int64_t FloatsOf(size_t variable) const;
  // Checks that ids of embeddings with more than kPlainRowsMax rows come from inputs without other
  // readers than embeddings and masks. INVALID_ARGUMENT names the layer.
  absl::Status CheckLargeTables() const;

  // Called once, before the first Prepare. `losses` are the values on which losses are computed, no
  // two in the same memory; `add` says whether calls of Backward will add. Plans the memory of
  // gradients, for runs with at most the rows of UseRows. In training, Forward also computes the
  // `measured` values, even if no loss needs them: a loss often takes an output's logits instead.
  void PlanTraining(std::span<const Value> losses, bool add, std::span<const Value> measured);
  // True if two values share memory: then only one may have a loss.
  bool SameMemory(Value a, Value b) const { return nodes_[a].storage == nodes_[b].storage; }
  // Adds a copy of the value with its own memory. Called before PlanTraining. INVALID_ARGUMENT: the
  // value is an input of the model.
  absl::StatusOr<Value> Duplicate(Value value);
  // Makes the kernels and buffers for runs of `batch` examples, unless they exist. After an error
  // (RESOURCE_EXHAUSTED, or a layer's) the next run needs another Prepare.
  absl::Status Prepare(int64_t batch) { return Prepare(batch, 0); }
  // The same, and has the following runs keep values in place `held`. Between the Forward and the
  // Backward of a place, other places may have runs.
  absl::Status Prepare(int64_t batch, size_t held);

  // The functions from here to ReceiveGradients are in graph_stages.cc.
  // Returns the layers in the order of their first calls, for CutStages.
  std::vector<StageLayer> StageLayers() const;
  // Limits all later runs to the nodes [begin, end), or from `begin` on if `end` is kNone. Each run
  // then receives values and gradients from other stages. Called after PlanTraining and before the
  // first Prepare.
  void KeepToStage(Value begin, Value end);
  // Whether a layer of this stage has the variable.
  bool OwnsVariable(size_t variable) const;
  // Whether a node of this stage reads the graph's input, or, in the last stage, the input is an
  // output of the model.
  bool ReadsInput(size_t input) const;
  // Called after Forward of `call`. Returns the values, of this and earlier stages, that later
  // stages take. The arrays are complete after Device::Finish.
  StageTensors SendValues(const GraphCall& call, bool training);
  // Called before Forward of `call`, with the values that the previous stage sent.
  void ReceiveValues(const GraphCall& call, const StageTensors& values);
  // Called after Backward of `call`. Returns the gradients of earlier stages' values, summed over
  // the readers in this and later stages. The arrays are complete after Device::Finish.
  StageTensors SendGradients(const GraphCall& call);
  // Called before each Backward, with the gradients that the next stage sent.
  void ReceiveGradients(const GraphCall& call, const StageTensors& gradients);
  // True if a layer's precision allows fewer bits, but the device computes in float32 anyway.
  bool PrecisionInVain() const;
  // Memory lists the uses of the device's memory. Release frees all of it: the next run needs
  // another Prepare.
  std::vector<MemoryRow> Memory() const;
  void Release();

  // Computes the outputs (inference), or everything that losses, measured values and moving
  // averages need (training). Prepare must have been called for the call's batch size.
  void Forward(const GraphCall& call, bool training);
  // The tensor of an output or of a value with a loss, after Forward.
  const float* value(Value value) const { return Data(value); }
  // Where the caller writes the gradient of a loss value before Backward.
  float* loss_gradient(Value loss_value) { return Gradient(loss_value); }
  // Computes the gradients after a training Forward of `call`. `d_parameters` has null for unwanted
  // gradients. With `add`, adds to the gradients that are there. If the call regularizes, adds the
  // weight regularizers' part of the loss to `loss`.
  void Backward(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                PendingSum& loss);
  // Adds the activity regularizers' part of the loss to `loss`, after Forward of `call`. Backward
  // adds the gradients of this part.
  void ActivityPenalties(const GraphCall& call, PendingSum& loss);
  // The two halves of Backward: the gradients that nodes write, and the variables whose gradient no
  // node writes.
  void BackwardNodes(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                     PendingSum& loss);
  void EndUnread(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                 PendingSum& loss);
  // Adds the weight regularizers' part of the loss to `loss`; for runs without Backward.
  void Penalties(const GraphCall& call, PendingSum& loss);

 private:
  struct Node {
    Layer* layer = nullptr;     // null: an input of the graph
    std::vector<Value> inputs;  // the call's inputs, then masks; kNone: no mask
    size_t data_inputs = 0;     // the number of inputs that are no masks
    std::vector<Shape> input_shapes;
    Shape shape;
    Operands operands = Operands::kFloat32;
    bool cast = false;                  // adapts an input; Describe shows no row for it
    std::optional<Activation> ends_in;  // the next node's activation, fused into this node
    bool in_place = false;              // an activation that was fused into the node before it
    size_t storage = 0;                 // index in storages_; a view has its input's
    size_t first_variable = 0;
    uint64_t salt = 0;  // distinguishes the random numbers of nodes
    CallMode mode = CallMode::kOfRun;
    std::vector<size_t> turn;     // Keras' order of calls, see NodeSpec
    bool needs_gradient = false;  // the node or a node before it has a trainable variable
    bool in_training = false;     // a loss, a measured value or a moving average needs the node
    bool in_backward = false;     // Backward calls the node's kernel
    bool observes = false;        // no loss needs the node: Backward only updates moving averages
    int later_calls = 0;          // calls of the same layer that come later in Keras' order
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
    int64_t size = 0;             // elements per example
    bool bfloat16 = false;        // the type of the values and of their gradient; false: float32
    std::optional<size_t> input;  // set: this input of the graph, in the caller's memory
    // Index in slots_. Storages whose gradients are not needed at the same time share a slot.
    std::optional<size_t> gradient_slot;
    // The floats of memory that an example takes.
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
    std::vector<int64_t> bytes;  // memory that each node's kernel allocated
  };
  struct KernelCache {
    std::map<int64_t, Kernels> of_batch;  // keyed by batch size
    uint64_t uses = 0;
    Kernels* current = nullptr;
  };
  // The memory of a run's values, from its Forward to its Backward.
  struct Held {
    int64_t capacity = 0;  // in examples
    // Indexed by storage; null: an input of the graph, or a value that this stage does not touch.
    std::vector<DeviceArray> data;
    KernelCache kernels;
  };
  // Memory for gradients that are then added to others: of a node's inputs, then of its variables.
  struct Scratch {
    bool adds = false;       // PlanTraining's `add`
    int64_t capacity = 0;    // in examples; the slots_ have the same
    int64_t inputs = 0;      // floats per example, for the gradients of a node's inputs
    int64_t parameters = 0;  // floats, for the gradients of a node's variables
    DeviceArray data;
  };
  // The nodes that runs compute, and the values that come from other stages.
  struct Stage {
    Value begin = 0, end = kNone;  // kNone: to the last node
    std::vector<bool> owned;       // indexed by variable; empty: the stage has all variables
    // Indexed by storage: its first node, and its last reader (kNone: a loss or an output). Empty:
    // runs compute all nodes.
    std::vector<std::pair<Value, Value>> lives;
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
  // The end of the nodes that runs compute, and whether a node is among them.
  Value stage_end() const { return std::min(stage_.end, nodes_.size()); }
  bool InStage(Value node) const { return stage_.begin <= node && node < stage_end(); }
  // Whether this stage computes, reads or hands on the storage's value.
  bool TouchesStorage(size_t storage) const;
  bool TouchesSlot(size_t slot) const;
  // The floats of memory that a storage takes for the call's examples.
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
  // The precision of a node's products: the layer's, or TF32 with tf32_ in place of float32.
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
  bool frozen_ = false;  // ModelSpec::frozen
  bool tf32_ = false;    // ModelSpec::tf32
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Node> nodes_;
  std::vector<Storage> storages_;
  std::vector<Slot> slots_;
  std::vector<VariableSpec> variables_;
  std::vector<int64_t> rows_there_;  // the argument of the last UseRows
  std::map<const Layer*, size_t> first_variable_;
  std::vector<PenaltyOn> penalties_;
  std::vector<PenaltyOnValue> activities_;
  std::vector<Value> outputs_, output_masks_;
  std::vector<Value> loss_values_;
  // Indexed by variable: the node that is the last to write its gradient, or kNone.
  std::vector<size_t> last_writer_;
  std::vector<Held> held_{1};
  size_t at_ = 0;  // the place of the last Prepare, an index in held_
  Stage stage_;
  RoundedVariables rounded_;
  // The state of the current run.
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
