// Plans a graph's memory: which gradients are computed, and which gradients share memory.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "keras/graph.h"
#include "keras/layers/layers.h"
#include "keras/layers/table_layer.h"
#include "tensor/row_ids.h"

namespace paracord {

std::optional<Graph::Value> Graph::LogitsOf(Value value, bool of_sigmoid) const {
  while (true) {
    const Node& last = nodes_[value];
    if (last.layer == nullptr) return std::nullopt;
    const auto activation = last.layer->activation();
    if (!activation.has_value()) return std::nullopt;
    value = last.inputs[0];
    const ActivationKind kind = activation->kind;
    if (kind == ActivationKind::kSigmoid) return value;
    if (kind == ActivationKind::kSoftmax && !of_sigmoid) return value;
    if (kind != ActivationKind::kLinear) return std::nullopt;  // linear passes its tensor on
  }
}

// Fuses an activation into the previous layer, if supported and if nothing else reads the layer's
// output. Saves a pass over memory in each direction.
void Graph::FoldActivations() {
  std::vector<int> readers(storages_.size(), 0);
  const auto read = [&](Value value) {
    if (value != kNone) ++readers[nodes_[value].storage];
  };
  for (const Node& node : nodes_) std::for_each(node.inputs.begin(), node.inputs.end(), read);
  std::for_each(outputs_.begin(), outputs_.end(), read);
  std::for_each(output_masks_.begin(), output_masks_.end(), read);
  for (const PenaltyOnValue& on : activities_) read(on.value);
  std::vector<Storage> kept;
  for (Node& node : nodes_) {
    const auto activation = node.layer == nullptr ? std::nullopt : node.layer->activation();
    if (!activation.has_value() || IsView(node)) continue;
    Node& before = nodes_[node.inputs[0]];
    if (before.layer == nullptr || IsView(before) || readers[before.storage] > 1) continue;
    if (!before.layer->ends_in(*activation)) continue;
    before.ends_in = *activation;
    node.in_place = true;
  }
  for (Node& node : nodes_) {
    if (node.layer != nullptr && IsView(node)) {
      node.storage = nodes_[node.inputs[0]].storage;
      continue;
    }
    kept.push_back(std::move(storages_[node.storage]));
    node.storage = kept.size() - 1;
  }
  storages_ = std::move(kept);
}

// Makes tensors between layers bfloat16 where products take bfloat16 and every writer and reader
// supports the type. Halves the memory traffic, and saves the products' rounding.
void Graph::ShortenStorages(std::span<const Value> loss_values) {
  if (!ops_.has_bfloat16()) return;
  const auto keep = [&](Value value) {
    if (value != kNone) storages_[nodes_[value].storage].bfloat16 = false;
  };
  for (Storage& storage : storages_) storage.bfloat16 = !storage.input.has_value();
  std::vector<Layer::Bfloat16> takes(nodes_.size(), Layer::Bfloat16::kNever);
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (node.layer == nullptr || IsView(node)) continue;
    ops_.AllowOperands(OperandsOf(node));
    if (OperandsOf(node) == Operands::kBfloat16) {
      takes[n] = node.layer->TakesBfloat16(ops_, node.input_shapes);
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (takes[n] == Layer::Bfloat16::kNever || i >= node.data_inputs) keep(node.inputs[i]);
    }
  }
  std::for_each(outputs_.begin(), outputs_.end(), keep);
  std::for_each(output_masks_.begin(), output_masks_.end(), keep);
  std::for_each(loss_values.begin(), loss_values.end(), keep);
  for (const PenaltyOnValue& on : activities_) keep(on.value);
  std::vector<bool> computed(nodes_.size(), false);  // depends on variables
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (node.layer == nullptr) continue;
    const auto inputs = std::span(node.inputs).first(node.data_inputs);
    computed[n] = !node.layer->variables().empty() ||
                  std::any_of(inputs.begin(), inputs.end(), [&](Value v) { return computed[v]; });
    const bool may = takes[n] == Layer::Bfloat16::kTaken ||
                     (takes[n] == Layer::Bfloat16::kIfComputed && computed[n]);
    if (!IsView(node) && !may) storages_[node.storage].bfloat16 = false;
  }
}

absl::StatusOr<Graph::Value> Graph::Duplicate(Value value) {
  const Layer* of = nodes_[value].layer;
  if (of == nullptr) return absl::InvalidArgumentError("a loss is taken of an input of the model");
  layers_.push_back(MakeActivationLayer(*of, {ActivationKind::kAffine, 1, 0, 0}));
  return AddCall(*layers_.back(), {value}, 1);
}

std::optional<int64_t> Graph::ids_below(size_t input) const {
  std::optional<int64_t> least;
  for (const Node& node : nodes_) {
    if (node.layer == nullptr || !node.layer->ids_below().has_value()) continue;
    if (storages_[nodes_[node.inputs[0]].storage].input != input) continue;
    least = std::min(least.value_or(*node.layer->ids_below()), *node.layer->ids_below());
  }
  return least;
}

absl::Status Graph::CheckLargeTables() const {
  const auto is_large = [](const Node& node) {
    return node.layer != nullptr && node.layer->ids_below().value_or(0) > kPlainRowsMax;
  };
  const auto refuse = [](const Node& node, const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat(LayerTitle(node.layer->class_name(), node.layer->name()), ": ", what));
  };
  std::set<size_t> ids;  // storages
  for (const Node& node : nodes_) {
    if (!is_large(node)) continue;
    const int64_t rows = *node.layer->ids_below();
    if (rows > kTableRowsMax) {
      return refuse(node, absl::StrCat("has ", rows, " rows, more than ", kTableRowsMax));
    }
    const size_t storage = nodes_[node.inputs[0]].storage;
    if (!storages_[storage].input.has_value()) {
      return refuse(node,
                    absl::StrCat("has ", rows,
                                 " rows, and its ids are computed by the model in "
                                 "float32, which tells 2^24 apart; its ids must be an input of the "
                                 "model or what a preprocessing layer (Hashing, StringLookup, ...) "
                                 "gives"));
    }
    ids.insert(storage);
  }
  for (const Node& node : nodes_) {
    if (node.layer == nullptr || is_large(node) || node.layer->is_view()) continue;
    if (dynamic_cast<const IdMask*>(node.layer) != nullptr) continue;
    for (const Value input : node.inputs) {
      if (input == kNone || !ids.contains(nodes_[input].storage)) continue;
      return refuse(node, absl::StrCat("reads the ids of an embedding of more than 2^24 rows, "
                                       "which float32 does not tell apart; give it an input of "
                                       "its own"));
    }
  }
  for (const Value output : outputs_) {
    if (!ids.contains(nodes_[output].storage)) continue;
    return absl::InvalidArgumentError(
        "an output of the model is the ids of an embedding of more than 2^24 rows");
  }
  return absl::OkStatus();
}

// The number of passes over the node in a training step: forward, for variables, for inputs.
int64_t Graph::PassesOver(const Node& node) const {
  if (!node.needs_gradient) return 1;
  const auto& variables = node.layer->variables();
  const auto data = std::span(node.inputs).first(node.data_inputs);
  return 1 +
         std::any_of(variables.begin(), variables.end(),
                     [](const VariableSpec& v) { return v.trainable(); }) +
         std::any_of(data.begin(), data.end(), [&](Value v) { return nodes_[v].needs_gradient; });
}

std::vector<LayerRow> Graph::Describe() const {
  std::vector<LayerRow> rows;
  std::vector<bool> counted(variables_.size(), false);
  for (const Node& node : nodes_) {
    if (node.layer == nullptr || node.cast) continue;
    LayerRow row{node.layer->name(), node.layer->class_name(), node.shape};
    for (size_t v = 0; v < node.layer->variables().size(); ++v) {
      const size_t at = node.first_variable + v;
      // A growing table's shape has its shards, and it begins without rows.
      if (!counted[at] && !IsGrowing(variables_[at])) {
        row.parameters += VariableElements(variables_[at]);
      }
      counted[at] = true;
    }
    if (!IsView(node)) {
      row.multiply_adds = node.layer->Arithmetic(node.input_shapes, node.shape);
      row.training_multiply_adds = row.multiply_adds * PassesOver(node);
      row.floats = storages_[node.storage].floats();
    }
    // An activation belongs to its layer's row.
    if (!rows.empty() && rows.back().name == row.name && row.parameters == 0) {
      rows.back().output = row.output;
      rows.back().multiply_adds += row.multiply_adds;
      rows.back().training_multiply_adds += row.training_multiply_adds;
      rows.back().floats += row.floats;
    } else {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

size_t Graph::TakeSlot(int64_t size, std::vector<size_t>& free) {
  // Takes the best-fitting slot; growing a slot beats adding one.
  auto best = free.end();
  for (auto it = free.begin(); it != free.end(); ++it) {
    if (best == free.end() ||
        std::abs(slots_[*it].size - size) < std::abs(slots_[*best].size - size)) {
      best = it;
    }
  }
  size_t slot = slots_.size();
  if (best == free.end()) {
    slots_.emplace_back();
  } else {
    slot = *best;
    free.erase(best);
  }
  slots_[slot].size = std::max(slots_[slot].size, size);
  return slot;
}

// Computes the scratch memory of Backward: for a node's gradients already written by other nodes.
void Graph::PlanScratch() {
  std::vector<bool> storage_written(storages_.size(), false);
  std::vector<bool> variable_written(variables_.size(), scratch_.adds);
  for (const Value value : loss_values_) storage_written[nodes_[value].storage] = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    const Node& node = nodes_[i];
    for (const PenaltyOnValue& on : activities_) {
      if (on.value == i && node.in_backward) storage_written[node.storage] = true;
    }
    if (!node.in_backward || node.layer == nullptr || IsView(node)) continue;
    int64_t inputs = 0, parameters = 0;
    for (size_t k = 0; k < node.data_inputs; ++k) {
      const size_t storage = nodes_[node.inputs[k]].storage;
      if (node.observes || !nodes_[node.inputs[k]].needs_gradient) continue;
      if (storage_written[storage]) inputs += RoundUp(storages_[storage].floats());
      storage_written[storage] = true;
    }
    for (size_t v = 0; v < node.layer->variables().size(); ++v) {
      const size_t at = node.first_variable + v;
      if (variable_written[at]) parameters += RoundUp(FloatsOf(at));
      variable_written[at] = true;
    }
    if (!InStage(i)) continue;
    scratch_.inputs = std::max(scratch_.inputs, inputs);
    scratch_.parameters = std::max(scratch_.parameters, parameters);
  }
}

// True if the layer keeps moving averages, which observe every training call.
bool Graph::Observes(const Node& node) {
  if (node.layer == nullptr) return false;
  const std::vector<VariableSpec>& variables = node.layer->variables();
  return std::any_of(variables.begin(), variables.end(),
                     [](const VariableSpec& v) { return v.moving_average() > 0; });
}

void Graph::MarkTraining(std::span<const Value> loss_values, std::span<const Value> measured) {
  for (Node& node : nodes_) node.in_training = Observes(node);
  for (const Value value : measured) nodes_[value].in_training = true;
  for (const Value value : loss_values) {
    nodes_[value].in_training = true;
    nodes_[value].in_backward = nodes_[value].needs_gradient;
  }
  for (const PenaltyOnValue& on : activities_) {
    nodes_[on.value].in_training = true;
    nodes_[on.value].in_backward = nodes_[on.value].needs_gradient;
  }
  for (const Value mask : output_masks_) {  // losses leave out hidden rows
    if (mask != kNone) nodes_[mask].in_training = true;
  }
  for (size_t i = nodes_.size(); i-- > 0;) {
    const Node& node = nodes_[i];
    if (!node.in_training) continue;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] == kNone) continue;
      Node& input = nodes_[node.inputs[k]];
      input.in_training = true;
      if (node.in_backward && k < node.data_inputs && input.needs_gradient) {
        input.in_backward = true;
      }
    }
  }
  std::vector<size_t> order(nodes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return nodes_[a].turn < nodes_[b].turn; });
  std::map<const Layer*, int> calls;
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[order[i]];
    node.later_calls = calls[node.layer]++;
    node.observes = !node.in_backward && Observes(node);
    node.in_backward = node.in_backward || node.observes;
  }
}

void Graph::PlanTraining(std::span<const Value> loss_values, bool add,
                         std::span<const Value> measured) {
  loss_values_.assign(loss_values.begin(), loss_values.end());
  ShortenStorages(loss_values);
  MarkTraining(loss_values, measured);
  std::vector<size_t> free;
  const auto take = [&](Value value) {
    Storage& storage = storages_[nodes_[value].storage];
    if (!storage.gradient_slot.has_value()) {
      storage.gradient_slot = TakeSlot(storage.floats(), free);
    }
  };
  for (const Value value : loss_values) take(value);
  // In the order of Backward: a gradient is live from its first write, by the value's last reader,
  // to the node that made the value.
  for (size_t i = nodes_.size(); i-- > 0;) {
    const Node& node = nodes_[i];
    if (!node.in_backward || node.layer == nullptr) continue;
    if (node.observes) take(i);
    for (const PenaltyOnValue& on : activities_) {
      if (on.value == i) take(i);
    }
    for (size_t k = 0; k < node.data_inputs; ++k) {
      if (!node.observes && nodes_[node.inputs[k]].needs_gradient) take(node.inputs[k]);
    }
    const Storage& own = storages_[node.storage];
    if (!IsView(node) && own.gradient_slot.has_value()) {
      free.push_back(*own.gradient_slot);
    }
  }
  scratch_.adds = add;
  PlanScratch();
  last_writer_.assign(variables_.size(), kNone);
  for (size_t i = nodes_.size(); i-- > 0;) {
    const Node& node = nodes_[i];
    if (!node.in_backward || node.layer == nullptr || IsView(node)) continue;
    for (size_t v = 0; v < node.layer->variables().size(); ++v) {
      last_writer_[node.first_variable + v] = i;
    }
  }
}

}  // namespace paracord
