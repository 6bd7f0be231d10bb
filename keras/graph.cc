#include "keras/graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

// How many batch sizes keep their kernels: the usual size, an epoch's last, slices of both, and
// again for the test data.
constexpr size_t kBatchSizesMax = 8;

// The floats of memory for the variable as bfloat16.
int64_t Bfloat16Floats(const VariableSpec& variable) {
  return (VariableElements(variable) + 1) / 2;
}

constexpr char kGradientsTitle[] = "gradients between layers";

}  // namespace

absl::Status Graph::NoMemory(const absl::Status& status, size_t storage, int64_t batch) const {
  return absl::Status(status.code(),
                      absl::StrCat(StorageTitle(storage, batch), ": ", status.message()));
}

absl::Status Graph::Reserve(int64_t batch) {
  Held& held = held_[at_];
  if (batch <= held.capacity) return absl::OkStatus();
  held.data.resize(storages_.size());
  for (size_t s = 0; s < storages_.size(); ++s) {
    const Storage& storage = storages_[s];
    if (storage.input.has_value() || !TouchesStorage(s)) continue;
    RETURN_IF_ERROR(CheckElements({batch, storage.size}));
    absl::StatusOr<DeviceArray> data = ops_.Allocate(batch * storage.floats());
    if (!data.ok()) return NoMemory(data.status(), s, batch);
    held.data[s] = *std::move(data);
  }
  RETURN_IF_ERROR(ReserveGradients(batch));
  held.capacity = batch;
  return absl::OkStatus();
}

absl::Status Graph::ReserveGradients(int64_t batch) {
  if (batch <= scratch_.capacity) return absl::OkStatus();
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (!TouchesSlot(s)) continue;
    absl::StatusOr<DeviceArray> data = ops_.Allocate(batch * slots_[s].size);
    if (!data.ok()) {
      return absl::Status(data.status().code(),
                          absl::StrCat(kGradientsTitle, ": ", data.status().message()));
    }
    slots_[s].data = *std::move(data);
  }
  const int64_t scratch = RoundUp(batch * scratch_.inputs) + scratch_.parameters;
  if (scratch > 0) {
    ASSIGN_OR_RETURN(scratch_.data, ops_.Allocate(scratch));
  }
  scratch_.capacity = batch;
  return absl::OkStatus();
}

bool Graph::PrecisionInVain() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    if (node.layer == nullptr) return false;
    const Operands operands = OperandsOf(node);
    return operands == Operands::kBfloat16 ? !ops_.has_bfloat16()
                                           : operands != Operands::kFloat32 && ops_.host_memory();
  });
}

// Allocates bfloat16 copies of the variables that speed up products.
absl::Status Graph::ReserveRounded() {
  if (!rounded_.empty() || !ops_.has_bfloat16()) return absl::OkStatus();
  rounded_.Resize(variables_.size());
  for (Value n = stage_.begin; n < stage_end(); ++n) {
    const Node& node = nodes_[n];
    if (node.layer == nullptr || OperandsOf(node) != Operands::kBfloat16) continue;
    for (size_t v = 0; v < node.layer->variables().size(); ++v) {
      if (!node.layer->is_operand(v)) continue;
      const size_t variable = node.first_variable + v;
      RETURN_IF_ERROR(rounded_.Reserve(ops_, variable, Bfloat16Floats(variables_[variable])));
    }
  }
  return absl::OkStatus();
}

absl::Status Graph::MakeKernels(int64_t batch, Kernels& kernels) {
  std::vector<std::unique_ptr<Kernel>> made(nodes_.size());
  kernels.bytes.assign(nodes_.size(), 0);
  for (Value i = stage_.begin; i < stage_end(); ++i) {
    const Node& node = nodes_[i];
    if (node.layer == nullptr || IsView(node)) continue;
    ops_.AllowOperands(OperandsOf(node));
    const int64_t before = ops_.allocated_bytes();
    const KernelForm form{.ends_in = node.ends_in,
                          .input_bfloat16 = !node.inputs.empty() &&
                                            storages_[nodes_[node.inputs[0]].storage].bfloat16,
                          .output_bfloat16 = storages_[node.storage].bfloat16};
    absl::StatusOr<std::unique_ptr<Kernel>> kernel =
        node.layer->MakeKernelOf(form, ops_, batch, node.input_shapes);
    if (!kernel.ok()) {
      return absl::Status(kernel.status().code(),
                          absl::StrCat(LayerTitle(node.layer->class_name(), node.layer->name()),
                                       ": ", kernel.status().message()));
    }
    made[i] = *std::move(kernel);
    kernels.bytes[i] = ops_.allocated_bytes() - before;
  }
  kernels.nodes = std::move(made);
  return absl::OkStatus();
}

// Drops the kernels of the least recently used batch size, except `but`.
void Graph::DropKernels(int64_t but) {
  std::map<int64_t, Kernels>& of_batch = held_[at_].kernels.of_batch;
  auto oldest = of_batch.end();
  for (auto it = of_batch.begin(); it != of_batch.end(); ++it) {
    const bool older = oldest == of_batch.end() || it->second.last_used < oldest->second.last_used;
    if (it->first != but && older) oldest = it;
  }
  if (oldest != of_batch.end()) of_batch.erase(oldest);
}

absl::Status Graph::Prepare(int64_t batch, size_t held) {
  if (held >= held_.size()) held_.resize(held + 1);
  at_ = held;
  RETURN_IF_ERROR(Reserve(batch));
  RETURN_IF_ERROR(ReserveRounded());
  KernelCache& cache = held_[at_].kernels;
  cache.current = nullptr;
  Kernels& kernels = cache.of_batch[batch];
  kernels.last_used = ++cache.uses;
  if (cache.of_batch.size() > kBatchSizesMax) DropKernels(batch);
  while (kernels.nodes.empty()) {
    // An unplanned batch size may only use memory of a planned one.
    ops_.KeepToPlan(cache.of_batch.size() > 1);
    absl::Status made = MakeKernels(batch, kernels);
    ops_.KeepToPlan(false);
    if (made.ok()) break;
    if (!absl::IsResourceExhausted(made) || cache.of_batch.size() == 1) {
      cache.of_batch.erase(batch);
      return made;
    }
    DropKernels(batch);
  }
  cache.current = &kernels;
  return absl::OkStatus();
}

std::string Graph::StorageTitle(size_t storage, int64_t batch) const {
  for (const Node& node : nodes_) {
    if (node.storage != storage || node.layer == nullptr) continue;
    return absl::StrCat(LayerTitle(node.layer->class_name(), node.layer->name()), ": its output, ",
                        batch, " examples of shape ", ShapeName(node.shape));
  }
  return "";
}

std::vector<MemoryRow> Graph::Memory() const {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  std::vector<MemoryRow> rows;
  for (const Held& held : held_) {
    for (size_t s = 0; s < held.data.size(); ++s) {
      if (held.data[s] == nullptr) continue;
      rows.push_back({MemoryRow::Kind::kValues, StorageTitle(s, held.capacity),
                      held.capacity * storages_[s].floats() * kFloat});
    }
  }
  for (const Slot& slot : slots_) {
    if (slot.data == nullptr) continue;
    rows.push_back(
        {MemoryRow::Kind::kGradients, kGradientsTitle, scratch_.capacity * slot.size * kFloat});
  }
  if (scratch_.data != nullptr) {
    rows.push_back({MemoryRow::Kind::kGradients, "gradients that are added up",
                    (RoundUp(scratch_.capacity * scratch_.inputs) + scratch_.parameters) * kFloat});
  }
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (!rounded_.Has(v)) continue;
    rows.push_back({MemoryRow::Kind::kParameters, variables_[v].name() + ", as bfloat16",
                    Bfloat16Floats(variables_[v]) * kFloat});
  }
  for (const Held& held : held_) AddKernelRows(held.kernels, rows);
  return rows;
}

void Graph::AddKernelRows(const KernelCache& cache, std::vector<MemoryRow>& rows) const {
  for (const auto& [batch, kernels] : cache.of_batch) {
    for (size_t i = 0; i < kernels.nodes.size(); ++i) {
      if (kernels.nodes[i] == nullptr || kernels.bytes[i] == 0) continue;
      const Layer& layer = *nodes_[i].layer;
      rows.push_back({MemoryRow::Kind::kLayers,
                      absl::StrCat(LayerTitle(layer.class_name(), layer.name()),
                                   ": what it works in, batches of ", batch),
                      kernels.bytes[i]});
    }
  }
}

void Graph::Release() {
  held_ = std::vector<Held>(1);
  at_ = 0;
  for (Slot& slot : slots_) slot.data.reset();
  scratch_.data.reset();
  scratch_.capacity = 0;
  rounded_.Release();
}

ConstTensor Graph::Data(Value value) const {
  if (value == kNone) return nullptr;
  const Storage& storage = storages_[nodes_[value].storage];
  if (storage.input.has_value()) return inputs_[*storage.input];
  return storage.In(held_[at_].data[nodes_[value].storage].get());
}

Tensor Graph::Gradient(Value value) const {
  const Storage& storage = storages_[nodes_[value].storage];
  return storage.In(slots_[*storage.gradient_slot].data.get());
}

void Graph::Forward(const GraphCall& call, bool training) {
  inputs_ = call.inputs;
  parameters_.assign(call.parameters.begin(), call.parameters.end());
  rounded_.BeginRun();
  variable_needed_.assign(variables_.size(), false);
  for (Value i = stage_.begin; i < stage_end(); ++i) {
    const Node& node = nodes_[i];
    Kernel* const kernel = KernelOf(i);
    if (kernel == nullptr || (training && !node.in_training)) continue;
    for (size_t v = 0; v < node.layer->variables().size(); ++v) {
      Need(node.first_variable + v, call);
    }
    call_inputs_.clear();
    for (const Value input : node.inputs) call_inputs_.push_back(Data(input));
    kernel->Forward(
        {.inputs = call_inputs_,
         .parameters = Of(parameters_, node),
         .rounded = Of(rounded_.filled(), node),
         .output = storages_[node.storage].In(held_[at_].data[node.storage].get()),
         .training = node.mode == CallMode::kOfRun ? training : node.mode == CallMode::kTraining,
         .key = Mix64(call.key, node.salt),
         .first_example = call.first_example});
  }
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (OwnsVariable(v)) Need(v, call);
  }
}

void Graph::Need(size_t variable, const GraphCall& call) {
  if (variable_needed_[variable]) return;
  variable_needed_[variable] = true;
  if (call.callbacks != nullptr && call.callbacks->needed) call.callbacks->needed(variable);
  rounded_.Fill(ops_, variable, FloatsOf(variable), call.parameters[variable]);
}

void Graph::Backward(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                     PendingSum& loss) {
  BackwardNodes(call, d_parameters, add, loss);
  EndUnread(call, d_parameters, add, loss);
}

void Graph::BackwardNodes(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                          PendingSum& loss) {
  inputs_ = call.inputs;
  parameters_.assign(call.parameters.begin(), call.parameters.end());
  storage_written_.assign(storages_.size(), false);
  for (const Value value : loss_values_) {
    storage_written_[nodes_[value].storage] = stage_end() == nodes_.size();
  }
  for (const size_t storage : std::exchange(stage_.received, {})) storage_written_[storage] = true;
  variable_written_.assign(variables_.size(), add);
  for (Value i = stage_end(); i-- > stage_.begin;) {
    if (!activities_.empty()) AddActivityGradients(i, call);
    if (!nodes_[i].in_backward || KernelOf(i) == nullptr) continue;
    BackwardNode(i, call, d_parameters);
    const size_t first = nodes_[i].first_variable;
    for (size_t v = first; v < first + nodes_[i].layer->variables().size(); ++v) {
      if (last_writer_[v] == i) EndVariable(v, call, d_parameters, loss);
    }
  }
}

// Ends the variables without a gradient from any node: no loss depends on them.
void Graph::EndUnread(const GraphCall& call, std::span<float* const> d_parameters, bool add,
                      PendingSum& loss) {
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (last_writer_[v] != kNone || !OwnsVariable(v)) continue;
    if (!add && d_parameters[v] != nullptr) ops_.Fill(FloatsOf(v), 0, d_parameters[v]);
    EndVariable(v, call, d_parameters, loss);
  }
}

// Finishes the gradient of a variable after Backward's last write.
void Graph::EndVariable(size_t variable, const GraphCall& call,
                        std::span<float* const> d_parameters, PendingSum& loss) {
  if (!call.last) return;
  for (const PenaltyOn& on : penalties_) {
    if (on.variable != variable || !call.regularizes) continue;
    ops_.Penalty(FloatsOf(variable), on.l1, on.l2, call.parameters[variable], 1,
                 d_parameters[variable], loss.Add(1));
  }
  if (d_parameters[variable] == nullptr || call.callbacks == nullptr) return;
  if (call.callbacks->final) call.callbacks->final(variable);
}

void Graph::ActivityPenalties(const GraphCall& call, PendingSum& loss) {
  for (const PenaltyOnValue& on : activities_) {
    if (!InStage(on.value)) continue;
    ops_.Penalty(call.batch * Elements(nodes_[on.value].shape), on.penalty.l1, on.penalty.l2,
                 Data(on.value), 0, nullptr,
                 loss.Add(static_cast<double>(call.share) / static_cast<double>(call.batch)));
  }
}

// Adds the activity regularizers' gradients to the gradient of a node's output, after all readers
// of the output have written theirs.
void Graph::AddActivityGradients(size_t index, const GraphCall& call) {
  for (const PenaltyOnValue& on : activities_) {
    if (on.value != index || !nodes_[index].in_backward) continue;
    const size_t storage = nodes_[index].storage;
    const int64_t n = call.batch * storages_[storage].size;
    if (!storage_written_[storage]) ops_.Fill(n, 0, Gradient(index));
    storage_written_[storage] = true;
    ops_.Penalty(n, on.penalty.l1, on.penalty.l2, Data(index),
                 call.share / static_cast<float>(call.batch), Gradient(index), nullptr);
  }
}

void Graph::Penalties(const GraphCall& call, PendingSum& loss) {
  for (const PenaltyOn& on : penalties_) {
    if (!OwnsVariable(on.variable)) continue;
    ops_.Penalty(FloatsOf(on.variable), on.l1, on.l2, call.parameters[on.variable], 0, nullptr,
                 loss.Add(1));
  }
}

// Kernels overwrite gradients and never add. If a gradient was already written, the kernel writes
// to scratch memory, added afterwards.
void Graph::BackwardNode(size_t index, const GraphCall& call,
                         std::span<float* const> d_parameters) {
  const Node& node = nodes_[index];
  float* scratch = scratch_.data.get();
  sums_.clear();
  const auto target = [&](int64_t n, Tensor to, std::vector<bool>& written, size_t at) {
    if (to == nullptr) return to;
    if (!written[at]) {
      written[at] = true;
      return to;
    }
    const bool bfloat16 = to.bfloat16 != nullptr;
    const Tensor aside = TensorIn(scratch, bfloat16);
    sums_.push_back({n, aside, to});
    scratch += RoundUp(bfloat16 ? (n + 1) / 2 : n);
    return aside;
  };

  call_inputs_.clear();
  call_d_inputs_.clear();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value input = node.inputs[i];
    call_inputs_.push_back(Data(input));
    Tensor to;
    if (i < node.data_inputs && !node.observes && nodes_[input].needs_gradient) {
      const size_t storage = nodes_[input].storage;
      to = target(call.batch * storages_[storage].size, Gradient(input), storage_written_, storage);
    }
    call_d_inputs_.push_back(to);
  }
  if (node.observes) ops_.Fill(call.batch * Elements(node.shape), 0, Gradient(index));
  const size_t count = node.layer->variables().size();
  call_d_parameters_.clear();
  for (size_t v = node.first_variable; v < node.first_variable + count; ++v) {
    call_d_parameters_.push_back(target(FloatsOf(v), d_parameters[v], variable_written_, v));
  }
  KernelOf(index)->Backward({.inputs = call_inputs_,
                             .parameters = Of(parameters_, node),
                             .rounded = Of(rounded_.filled(), node),
                             .output = Data(index),
                             .d_output = Gradient(index),
                             .d_inputs = call_d_inputs_,
                             .d_parameters = call_d_parameters_,
                             .key = Mix64(call.key, node.salt),
                             .first_example = call.first_example,
                             .share = call.share,
                             .later_calls = node.later_calls});
  for (const Sum& sum : sums_) ops_.Add(sum.n, sum.from, sum.to);
}

}  // namespace paracord
