// A model on a device: layers, the order of their calls, shapes, buffers between layers, and the
// passes forward and backward over all layers. The program (keras_program.h) owns the graph and the
// Ops; used by one thread at a time. Use: Build, PlanTraining, then Prepare, Forward and Backward
// for each run, over a batch or a slice of a batch. Knows nothing of the kinds of losses, or of
// where data come from. A graph may compute only one stage of the model, and keep the values of
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

// Called by a run, on its thread, with the index of a variable. A callback may be empty.
struct VariableCallbacks {
  // Called once in each Forward for every variable of the stage: before the first operation that
  // reads the variable, or at the end of Forward if no operation does.
  std::function<void(size_t)> needed;
  // Called once for every variable with a gradient, in the Backward of a run with `last`, after the
  // last write of the gradient was issued; usually for variables near the losses first.
  std::function<void(size_t)> final;
};

// The arguments of a run over some examples; pointers are to the device's memory.
struct GraphCall {
  int64_t batch = 0;
  std::span<const float* const> inputs;      // one for each input; null where ReadsInput is false
  std::span<const float* const> parameters;  // one for each variable
  uint64_t key = 0;                          // the batch's key, for dropout
  int64_t first_example = 0;                 // index of the first example within the batch
  float share = 1;                           // the run's examples divided by the batch's
  bool last = true;         // the batch's last run on this device: Backward completes gradients
  bool regularizes = true;  // with `last`: Backward adds the weight regularizers' gradients
  const VariableCallbacks* callbacks = nullptr;
};

// What a stage of a model sends: outputs of nodes to the next stage, or their gradients to the
// previous stage.
struct StageTensors {
  // For each array, the index of the output's storage, which is equal in the graphs of all stages.
  std::vector<size_t> storages;
  std::vector<std::vector<float>> arrays;
};

// A layer's row in the table that `paracord validate` prints.
struct LayerRow {
  std::string name, class_name;
  Shape output;
  // Elements of the variables that no earlier row has counted; 0 for a growing table.
  int64_t parameters = 0;
  int64_t multiply_adds = 0;           // of the forward pass, for one example
  int64_t training_multiply_adds = 0;  // of a training step, forward and backward, for one example
  int64_t floats = 0;                  // floats of memory for one example of the layer's output
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
  // examples, or nullopt if unknown. A layer that cannot be built adds a problem, and later layers
  // are checked as far as possible. Returns null if the shape of a model's output stays unknown.
  static std::unique_ptr<Graph> Build(Ops& ops, const ModelSpec& model,
                                      std::span<const std::optional<Shape>> data,
                                      Problems& problems);

  // Returns the shape that an InputLayer gives to examples of shape `data`. INVALID_ARGUMENT, which
  // names the layer: `data` does not fit, or the layer's config is wrong.
  static absl::StatusOr<Shape> InputShape(const LayerSpec& layer, bool keras2, const Shape& data);

  const std::vector<VariableSpec>& variables() const { return variables_; }
  std::span<const Value> outputs() const { return outputs_; }
  const Shape& shape(Value value) const { return nodes_[value].shape; }
  // The mask of output number `output` of the model; kNone if the output has none.
  Value mask(size_t output) const { return output_masks_[output]; }
  // If `value` is a softmax or sigmoid of logits, perhaps with linear activations after it, returns
  // the logits; otherwise nullopt. With `of_sigmoid` only a sigmoid counts.
  std::optional<Value> LogitsOf(Value value, bool of_sigmoid) const;
  std::vector<LayerRow> Describe() const;
  // If input number `input` has ids of embeddings that are not growing tables, returns the smallest
  // number of rows of these embeddings; otherwise nullopt. If the number is above kPlainRowsMax
  // (2^24), the caller passes the ids in the form of RowToFloat (row_ids.h).
  std::optional<int64_t> ids_below(size_t input) const;
  // If the first variable of the Embedding or EmbedReduce `layer` is trainable, makes it a table:
  // runs may have only some of its rows. A growing table takes any ids, and axis 0 of its shape has
  // size `shards`.
  void SetTable(const std::string& layer, const TableSpec& table, uint64_t shards = 0);
  // A call of a layer that reads rows of a table. `input` is the input of the graph with the ids.
  // `weights`: the input with a weight for each id, of which 0 means no effect; nullopt: there is
  // none. `mask`: the input with the ids (perhaps `input` itself) of which the model computes a
  // mask (ids != 0) that hides rows from all their readers; nullopt: there is none.
  struct IdReader {
    size_t input = 0;
    std::optional<size_t> weights = {};
    std::optional<size_t> mask = {};
  };
  // `inputs`: the graph's inputs that have a table's ids, ascending. `ids`: how many ids an example
  // has in all these inputs. `readers`: the calls that read the table.
  struct TableInputs {
    std::vector<size_t> inputs;
    int64_t ids = 0;
    std::vector<IdReader> readers;
  };
  TableInputs InputsOfTable(size_t variable) const;
  // Replaces operations `ids != 0` on the ids of embeddings by layers that compute the mask from
  // encoded ids (IdMask in table_layer.h). Called before PlanTraining.
  void TakeIdMasks();
  // Sets for the following runs the number of rows of each table. `rows` has an entry for each
  // variable; empty: all rows.
  void UseRows(std::vector<int64_t> rows);
  // Gives the following runs all rows of tables, and reserves memory to train with all rows. Called
  // after PlanTraining.
  absl::Status ReserveAllRows();
  // The number of floats of a variable in the following runs.
  int64_t FloatsOf(size_t variable) const;
  // INVALID_ARGUMENT if an embedding with more than kPlainRowsMax rows, not a growing table, has
  // more than kTableRowsMax, or has ids that are no input of the graph, or if anything but such
  // embeddings and IdMasks reads the ids.
  absl::Status CheckLargeTables() const;

  // Called once, before the first Prepare. Plans the memory of gradients, for runs with at most the
  // rows of the last UseRows. `losses` are the values on which losses are computed, no two of which
  // share memory; `add` says whether Backward will be called with `add`. In training, Forward also
  // computes the `measured` values, which losses may not need, because they often take logits.
  void PlanTraining(std::span<const Value> losses, bool add, std::span<const Value> measured);
  // True if two values share memory: then PlanTraining accepts only one of them in `losses`.
  bool SameMemory(Value a, Value b) const { return nodes_[a].storage == nodes_[b].storage; }
  // Adds a node that copies the value to memory of its own. Called before PlanTraining.
  // INVALID_ARGUMENT: the value is an input of the model.
  absl::StatusOr<Value> Duplicate(Value value);
  // Makes the kernels and buffers for runs of `batch` examples, unless they exist. After an error
  // (RESOURCE_EXHAUSTED, or an error of a layer's kernel) the next run needs another Prepare.
  absl::Status Prepare(int64_t batch) { return Prepare(batch, 0); }
  // A graph has several sets of buffers for values, numbered from 0. The following runs use set
  // `held`. Between a run's Forward and its Backward, runs that use other sets are allowed.
  absl::Status Prepare(int64_t batch, size_t held);

  // The functions from here to ReceiveGradients are in graph_stages.cc.
  // Returns the layers in the order of their first calls, for CutStages.
  std::vector<StageLayer> StageLayers() const;
  // Limits all later runs to the nodes [begin, end), or from `begin` on if `end` is kNone: a stage.
  // Called at most once, after PlanTraining and before the first Prepare. Without a call of
  // KeepToStage the whole model counts as one stage.
  void KeepToStage(Value begin, Value end);
  // Whether a layer of this stage has the variable.
  bool OwnsVariable(size_t variable) const;
  // Without a call of KeepToStage true; otherwise whether a node of this stage reads the graph's
  // input, or, in the last stage, the input is an output of the model or the mask of an output.
  bool ReadsInput(size_t input) const;
  // Called after Forward of `call`. Returns those values of this and earlier stages that later
  // stages read. The arrays are complete after Device::Finish.
  StageTensors SendValues(const GraphCall& call, bool training);
  // Called before Forward of `call`, with the values that the previous stage sent.
  void ReceiveValues(const GraphCall& call, const StageTensors& values);
  // Called after Backward of `call`. Returns the gradients of earlier stages' values, each a sum
  // over the readers in this and later stages. The arrays are complete after Device::Finish.
  StageTensors SendGradients(const GraphCall& call);
  // Called before each Backward, except in the last stage, with what the next stage sent.
  void ReceiveGradients(const GraphCall& call, const StageTensors& gradients);
  // True if a layer allows less precision than float32, but the device computes in float32.
  bool PrecisionInVain() const;
  // Memory lists the graph's uses of the device's memory. Release frees this memory: the next run
  // needs another Prepare.
  std::vector<MemoryRow> Memory() const;
  void Release();

  // In inference, computes all values of the stage; in training, those that losses, activity
  // regularizers, measured values, moving averages and outputs' masks need. The last Prepare must
  // have been for the call's batch size.
  void Forward(const GraphCall& call, bool training);
  // After Forward: an output of the model, the mask of an output, or a value with a loss.
  const float* value(Value value) const { return Data(value); }
  // Where the caller writes, before Backward, the gradient of a value with a loss.
  float* loss_gradient(Value loss_value) { return Gradient(loss_value); }
  // Computes the gradients after a training Forward of `call`. `d_parameters` has the address of
  // each variable's gradient, or null if it is not wanted. With `add`, adds to the numbers there.
  // If the call is `last` and `regularizes`, adds the loss of the weight regularizers to `loss`.
  void Backward(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                PendingSum& loss);
  // Adds the loss of the activity regularizers to `loss`, after Forward of `call`. Backward adds
  // the gradients of this loss.
  void ActivityPenalties(const GraphCall& call, PendingSum& loss);
  // The two halves of Backward. BackwardNodes computes the gradients that nodes write. EndUnread
  // treats the variables whose gradient no node writes, because no loss depends on them: the
  // gradient becomes 0 (with `add` it stays), plus that of the weight regularizers.
  void BackwardNodes(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                     PendingSum& loss);
  void EndUnread(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                 PendingSum& loss);
  // Adds the loss of the weight regularizers to `loss`; for runs without Backward.
  void Penalties(const GraphCall& call, PendingSum& loss);

 private:
  struct Node {
    Layer* layer = nullptr;     // null: an input of the graph
    std::vector<Value> inputs;  // the call's inputs, then its masks; kNone: a mask that is missing
    size_t data_inputs = 0;     // the number of inputs that are no masks
    std::vector<Shape> input_shapes;
    Shape shape;
    Operands operands = Operands::kFloat32;
    // A constant, or a copy of the input with another mask. Describe has no row for the node.
    bool cast = false;
    std::optional<Activation> ends_in;  // the activation of the next node, fused into this node
    bool in_place = false;              // an activation that was fused into the node before it
    size_t storage = 0;                 // index in storages_; a view has the storage of its input
    size_t first_variable = 0;
    uint64_t salt = 0;  // distinguishes the random numbers of nodes
    CallMode mode = CallMode::kOfRun;
    std::vector<size_t> turn;  // NodeSpec::turn
    // Whether the layer is differentiable, and the layer or a node before has a trainable variable.
    bool needs_gradient = false;
    bool in_training = false;  // Forward computes the node in training
    bool in_backward = false;  // Backward calls the node's kernel
    // No gradient passes the node: its kernel's Backward is called only to update moving averages.
    bool observes = false;
    int later_calls = 0;  // the number of calls of the layer that come later in Keras' order
  };
  struct PenaltyOn {
    size_t variable = 0;
    float l1 = 0, l2 = 0;
  };
  struct PenaltyOnValue {
    Value value = 0;
    ActivityPenalty penalty;
  };
  class Builder;  // graph_builder.h
  static Tensor TensorIn(float* memory, bool bfloat16) {
    return bfloat16 ? Tensor(reinterpret_cast<uint16_t*>(memory)) : Tensor(memory);
  }
  struct Storage {
    int64_t size = 0;             // elements per example
    bool bfloat16 = false;        // the type of the values and of their gradient; false: float32
    std::optional<size_t> input;  // set: this input of the graph, in the caller's memory
    // Index in slots_, for the gradient. Storages whose gradients are never needed at the same time
    // may share a slot.
    std::optional<size_t> gradient_slot;
    // How many floats of memory an example takes.
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
  // A set of buffers: the values of a run, from its Forward to its Backward.
  struct Held {
    int64_t capacity = 0;  // in examples
    // Indexed by storage; null: an input of the graph, or a value that this stage does not touch.
    std::vector<DeviceArray> data;
    KernelCache kernels;
  };
  // Memory in which a node's kernel writes gradients that Backward then adds to gradients written
  // before: first those of the node's inputs, then those of its variables.
  struct Scratch {
    bool adds = false;       // PlanTraining's `add`
    int64_t capacity = 0;    // in examples; also the capacity of the slots_
    int64_t inputs = 0;      // floats per example, for the gradients of a node's inputs
    int64_t parameters = 0;  // floats, for the gradients of a node's variables
    DeviceArray data;
  };
  // The nodes to which KeepToStage limits runs.
  struct Stage {
    Value begin = 0, end = kNone;  // kNone: to the last node
    std::vector<bool> owned;       // indexed by variable; empty: the stage has all variables
    // Indexed by storage: the first node with the storage, and the last node that reads it (kNone:
    // a loss or an output reads it). Empty: runs compute all nodes.
    std::vector<std::pair<Value, Value>> lives;
    std::vector<size_t> received;  // the storages of the last ReceiveGradients
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
  // The end of the nodes that runs compute, and whether `node` is one of the nodes.
  Value stage_end() const { return std::min(stage_.end, nodes_.size()); }
  bool InStage(Value node) const { return stage_.begin <= node && node < stage_end(); }
  // Whether this stage computes, reads or sends on the storage's value.
  bool TouchesStorage(size_t storage) const;
  bool TouchesSlot(size_t slot) const;
  // How many floats of memory a storage takes for the call's examples.
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
  // The precision of a node's products. If tf32_ is set, kTf32 takes the place of kFloat32.
  Operands OperandsOf(const Node& node) const {
    return tf32_ && node.operands == Operands::kFloat32 ? Operands::kTf32 : node.operands;
  }
  absl::Status ReserveRounded();
  // `all` has an entry for each variable. Returns those of the node's variables.
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
  // Indexed by variable: the node that writes the variable's gradient last, or kNone.
  std::vector<size_t> last_writer_;
  std::vector<Held> held_{1};
  size_t at_ = 0;  // the index in held_ of the set of buffers of the last Prepare
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
  Scratch scratch_;  // lasts over runs
};

}  // namespace paracord
