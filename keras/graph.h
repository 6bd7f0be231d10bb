// A model on a device: its layers, the order of their calls, the shapes, the buffers between them,
// and forward and backward over all of it. Owned by the program (keras_program.h), which also owns
// the Ops; used by one thread at a time. Use: Build, PlanTraining, then for each run Prepare,
// Forward, Backward. It knows nothing of losses, data or Keras' files. A graph may compute one
// stage of its nodes alone and hold the values of several runs at a time (keras/stage_program.h).
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

// Callbacks by which a run tells when it uses each variable (by its number). Either may be empty.
// They run on the thread of the run.
struct VariableCallbacks {
  // Called before Forward issues the first operation that reads the variable, once for each run.
  // The variables that nothing reads are reported at the end of Forward.
  std::function<void(size_t)> needed;
  // Called after Backward has issued the last operation that writes the variable's gradient, once
  // for each run, for variables near the losses first. Variables without a gradient are left out.
  std::function<void(size_t)> final;
};

// The arguments of a run over some examples; pointers are to the device's memory.
struct GraphCall {
  int64_t batch = 0;
  std::span<const float* const> inputs;      // one for each input of the graph
  std::span<const float* const> parameters;  // one for each variable
  uint64_t key = 0;                          // of the batch, for dropout
  int64_t first_example = 0;                 // index within the batch
  float share = 1;                           // the part of the batch's examples that this run has
  bool last = true;  // this is the last slice computed here, so that its gradients are final
  // This is the batch's last slice, whose gradients include the regularizers'.
  bool regularizes = true;
  const VariableCallbacks* callbacks = nullptr;
};

// The values, or their gradients, that one stage of a graph hands to another for a run.
struct StageTensors {
  std::vector<size_t> storages;  // where the graph has them
  std::vector<std::vector<float>> arrays;
};

// A row of the table that `paracord validate` prints.
struct LayerRow {
  std::string name, class_name;
  Shape output;
  int64_t parameters = 0;     // 0 if an earlier row has them
  int64_t multiply_adds = 0;  // forward, for one example
  // Forward and backward for one example: as many again for the gradients of variables, and for
  // those of inputs, where these are wanted.
  int64_t training_multiply_adds = 0;
  int64_t floats = 0;  // memory kept for one example
};

// One use of the device's memory, in bytes.
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

  // Builds the graph of a model. `data` has, for each input of the model by position, the shape of
  // the examples, or nullopt if it is not known. Each layer that cannot be built adds a problem of
  // its own, and the layers after it are checked as far as possible. Returns null if the shape of
  // an output is unknown, because of a problem or of missing data.
  static std::unique_ptr<Graph> Build(Ops& ops, const ModelSpec& model,
                                      std::span<const std::optional<Shape>> data,
                                      Problems& problems);

  // The shape that an InputLayer gives to examples of shape `data`. The error names the layer.
  static absl::StatusOr<Shape> InputShape(const LayerSpec& layer, bool keras2, const Shape& data);

  const std::vector<VariableSpec>& variables() const { return variables_; }
  std::span<const Value> outputs() const { return outputs_; }
  const Shape& shape(Value value) const { return nodes_[value].shape; }
  // The mask of an output of the model; kNone if it has none.
  Value mask(size_t output) const { return output_masks_[output]; }
  // If the last step of `value` is a softmax or a sigmoid, returns the logits it is applied to, as
  // Keras finds them. With `of_sigmoid` only a sigmoid counts.
  std::optional<Value> LogitsOf(Value value, bool of_sigmoid) const;
  std::vector<LayerRow> Describe() const;
  // Set if an input of the model is ids for an embedding of so many rows. Beyond kPlainRowsMax
  // they are to be given as RowToFloat (row_ids.h) makes them.
  std::optional<int64_t> ids_below(size_t input) const;
  // Makes the Embedding's variable a table, if it is trained: runs may have some of its rows alone.
  // A growing one has `shards` on axis 0, and its ids may be any.
  void SetTable(const std::string& layer, const TableSpec& table, uint64_t shards = 0);
  // A call that reads rows by the ids of an input of the graph. An id has no part in what the call
  // computes where its weight is 0, or where the mask of its id hides it; these are inputs, too.
  struct IdReader {
    size_t input = 0;
    std::optional<size_t> weights = {};
    std::optional<size_t> mask = {};
  };
  // The inputs of the graph that have a table's ids, ascending, how many ids these are of one
  // example, and the calls that read them.
  struct TableInputs {
    std::vector<size_t> inputs;
    int64_t ids = 0;
    std::vector<IdReader> readers;
  };
  TableInputs InputsOfTable(size_t variable) const;
  // Has masks that the model file computes of ids (`ids != 0`) take what tables take for ids.
  // Called before PlanTraining.
  void TakeIdMasks();
  // The following runs have so many rows of each table, by variable; empty: all rows.
  void UseRows(std::vector<int64_t> rows);
  // Training has all rows, which takes more memory. Called after PlanTraining.
  absl::Status ReserveAllRows();
  // The floats of a variable in these runs.
  int64_t FloatsOf(size_t variable) const;
  // The ids of embeddings beyond kPlainRowsMax are inputs that nothing else reads. An error names
  // the layer.
  absl::Status CheckLargeTables() const;

  // Called once, before the first Prepare: fixes the values that losses are computed on, which must
  // not share memory, and whether Backward will be asked to add. It plans the memory of gradients,
  // for runs that have at most the rows of UseRows. Forward computes the `measured` values in
  // training, too, which no loss may need: a loss often takes the logits of an output.
  void PlanTraining(std::span<const Value> losses, bool add, std::span<const Value> measured);
  // True if two values share memory, so that only one of them can be a loss value.
  bool SameMemory(Value a, Value b) const { return nodes_[a].storage == nodes_[b].storage; }
  // Adds a copy of the value in memory of its own. Called before PlanTraining.
  absl::StatusOr<Value> Duplicate(Value value);
  // Makes the kernels and buffers for runs of `batch` examples, unless they exist. On failure
  // (RESOURCE_EXHAUSTED) nothing is prepared.
  absl::Status Prepare(int64_t batch) { return Prepare(batch, 0); }
  // The runs that follow have the values of place `held`, so that a Backward may follow the Forward
  // of other places.
  absl::Status Prepare(int64_t batch, size_t held);

  // The functions from here to ReceiveGradients are in graph_stages.cc.
  // The layers in their order, as they may be divided into stages.
  std::vector<StageLayer> StageLayers() const;
  // From now on runs compute the nodes [begin, end) alone, or from `begin` on if `end` is kNone, on
  // the values and gradients that are received for each run. Called after PlanTraining and before
  // the first Prepare.
  void KeepToStage(Value begin, Value end);
  // Whether a layer of this stage has the variable.
  bool OwnsVariable(size_t variable) const;
  // Returns the values of this stage, and of earlier stages, that later nodes, losses or outputs
  // take; after Forward of the same call.
  StageTensors SendValues(const GraphCall& call, bool training) const;
  // Takes what the stage before this one has sent; before Forward of the same call.
  void ReceiveValues(const GraphCall& call, const StageTensors& values);
  // Returns the gradients of earlier stages' values, to which this stage and later stages have
  // added their parts; after Backward of the same call.
  StageTensors SendGradients(const GraphCall& call) const;
  // Takes what the stage after this one has sent; before Backward of the same call, and again
  // before the next one.
  void ReceiveGradients(const GraphCall& call, const StageTensors& gradients);
  // True if the precision of a layer allows fewer bits but the device computes in float32 anyway.
  bool PrecisionInVain() const;
  // The uses of the device's memory, and giving all of it back; then nothing is prepared.
  std::vector<MemoryRow> Memory() const;
  void Release();

  // Computes the outputs (inference), or what the losses and moving averages depend on (training).
  // The batch size must be prepared.
  void Forward(const GraphCall& call, bool training);
  // The tensor of an output or a loss value, after Forward.
  const float* value(Value value) const { return Data(value); }
  // The tensor in which the caller puts the gradient of the loss value before Backward.
  float* loss_gradient(Value loss_value) { return Gradient(loss_value); }
  // Computes the gradients after a Forward in training mode of the same call. d_parameters has null
  // where none is wanted. With `add`, gradients are added to what is there. The regularizers' part
  // of the loss goes into `loss`.
  void Backward(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                PendingSum& loss);
  // Adds the activity regularizers' part of the loss to `loss`, after a Forward of the same call.
  // Backward adds its gradient.
  void ActivityPenalties(const GraphCall& call, PendingSum& loss);
  // The two halves of Backward: the gradients that nodes write, and the variables for which no node
  // writes one.
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
    size_t data_inputs = 0;     // the inputs after these are masks
    std::vector<Shape> input_shapes;
    Shape shape;
    Operands operands = Operands::kFloat32;
    bool cast = false;                  // an adapter of an input, shown as part of the next layer
    std::optional<Activation> ends_in;  // a fused activation: that of the next node
    bool in_place = false;              // the input's kernel does this node's work
    size_t storage = 0;                 // views share their input's storage
    size_t first_variable = 0;
    uint64_t salt = 0;  // makes the node's random numbers differ from other nodes'
    CallMode mode = CallMode::kOfRun;
    std::vector<size_t> turn;     // as in NodeSpec
    bool needs_gradient = false;  // the node or one before it has a trainable variable
    bool in_training = false;     // a loss value or a moving average depends on it
    bool in_backward = false;     // its gradient is computed
    bool observes = false;  // its gradient is zero, but its moving averages are updated in backward
    int later_calls = 0;    // calls of its layer that come later in Keras' order
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
    int64_t size = 0;                     // elements of one example
    bool bfloat16 = false;                // type of the values and of the gradient
    std::optional<size_t> input;          // set: the memory of the caller's input
    std::optional<size_t> gradient_slot;  // gradients share slots when their lives do not overlap
    // Floats of memory for one example.
    int64_t floats() const { return bfloat16 ? (size + 1) / 2 : size; }
    Tensor In(float* memory) const { return TensorIn(memory, bfloat16); }
  };
  struct Slot {
    int64_t size = 0;  // floats for one example
    DeviceArray data;
  };
  struct Kernels {
    uint64_t last_used = 0;
    std::vector<std::unique_ptr<Kernel>> nodes;
    std::vector<int64_t> bytes;  // bytes that each kernel allocated
  };
  struct KernelCache {
    std::map<int64_t, Kernels> of_batch;  // by batch size
    uint64_t uses = 0;
    Kernels* current = nullptr;
  };
  // The values of a run, from its Forward to its Backward.
  struct Held {
    int64_t capacity = 0;           // number of examples that the arrays hold
    std::vector<DeviceArray> data;  // by storage; null: a caller's input, or of another stage
    KernelCache kernels;
  };
  // Memory for gradients that must be added to others: of inputs, then of variables.
  struct Scratch {
    bool adds = false;       // as PlanTraining was told
    int64_t capacity = 0;    // number of examples for which this and the slots have memory
    int64_t inputs = 0;      // floats for one example
    int64_t parameters = 0;  // floats
    DeviceArray data;
  };
  // The nodes that runs compute, and where the values of others are needed.
  struct Stage {
    Value begin = 0, end = kNone;  // kNone: to the last node
    std::vector<bool> owned;       // by variable; empty: all
    // By storage: its first node and the last one that takes it, or kNone for losses and outputs.
    std::vector<std::pair<Value, Value>> lives;  // empty: all nodes are computed
    std::vector<size_t> received;  // storages whose gradients the stage after this one has begun
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
  // The nodes that runs compute.
  Value stage_end() const { return std::min(stage_.end, nodes_.size()); }
  bool InStage(Value node) const { return stage_.begin <= node && node < stage_end(); }
  // Whether a storage has a life in this stage: it is made, taken or handed on here.
  bool TouchesStorage(size_t storage) const;
  bool TouchesSlot(size_t slot) const;
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
  // The part of `all` (one entry for each variable) that belongs to the node's variables.
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
  bool frozen_ = false;  // as ModelSpec::frozen
  bool tf32_ = false;    // all products may use TF32, not only those of a mixed policy
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Node> nodes_;
  std::vector<Storage> storages_;
  std::vector<Slot> slots_;
  std::vector<VariableSpec> variables_;
  std::vector<int64_t> rows_there_;  // by variable; empty: all
  std::map<const Layer*, size_t> first_variable_;
  std::vector<PenaltyOn> penalties_;
  std::vector<PenaltyOnValue> activities_;
  std::vector<Value> outputs_, output_masks_;
  std::vector<Value> loss_values_;
  // By variable: the last node that writes its gradient, or kNone.
  std::vector<size_t> last_writer_;
  std::vector<Held> held_{1};
  size_t at_ = 0;  // the place in held_ of the present run
  Stage stage_;
  RoundedVariables rounded_;
  // State of one run.
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
