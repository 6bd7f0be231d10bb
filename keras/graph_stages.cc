// A graph limited to a stage of its nodes: the values and gradients exchanged with other stages.
#include <algorithm>
#include <map>
#include <set>

#include "keras/graph.h"

namespace paracord {

std::vector<StageLayer> Graph::StageLayers() const {
  std::vector<StageLayer> layers;
  std::set<std::string> names;
  std::map<size_t, size_t> first_calls;  // keyed by first variable: its layer
  std::optional<Value> waiting;          // the next layer's first node
  for (Value n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (node.layer == nullptr || node.cast) {
      if (!waiting.has_value()) waiting = n;
      continue;
    }
    if (names.insert(node.layer->name()).second) {
      layers.push_back({.name = node.layer->name(), .begin = waiting.value_or(n)});
      if (layers.size() == 1) layers[0].begin = 0;
    }
    waiting.reset();
    StageLayer& layer = layers.back();
    if (!IsView(node)) {
      layer.multiply_adds +=
          node.layer->Arithmetic(node.input_shapes, node.shape) * PassesOver(node);
    }
    if (node.layer->variables().empty()) continue;
    const auto [first, is_new] = first_calls.emplace(node.first_variable, layers.size() - 1);
    if (!is_new) {
      if (first->second != layers.size() - 1) layer.shares.push_back(first->second);
      continue;
    }
    const size_t count = node.layer->variables().size();
    for (size_t v = node.first_variable; v < node.first_variable + count; ++v) {
      layer.bytes += VariableElements(variables_[v]) * static_cast<int64_t>(sizeof(float));
      layer.table = layer.table || variables_[v].has_table();
    }
  }
  return layers;
}

std::vector<std::pair<Graph::Value, Graph::Value>> Graph::LivesOfStorages() const {
  std::vector<std::pair<Value, Value>> lives(storages_.size(), {kNone, 0});
  const auto taken = [&](Value value, Value by) {
    if (value == kNone) return;
    Value& last = lives[nodes_[value].storage].second;
    last = std::max(last, by);
  };
  for (Value n = 0; n < nodes_.size(); ++n) {
    Value& first = lives[nodes_[n].storage].first;
    first = std::min(first, n);
    taken(n, n);
    for (const Value input : nodes_[n].inputs) taken(input, n);
  }
  for (const std::vector<Value>* values : {&outputs_, &output_masks_, &loss_values_}) {
    for (const Value value : *values) taken(value, kNone);
  }
  return lives;
}

void Graph::KeepToStage(Value begin, Value end) {
  stage_.begin = begin;
  stage_.end = std::min(end, nodes_.size());
  stage_.lives = LivesOfStorages();
  stage_.owned.assign(variables_.size(), false);
  for (Value n = begin; n < stage_.end; ++n) {
    if (nodes_[n].layer == nullptr) continue;
    const size_t first = nodes_[n].first_variable;
    for (size_t v = first; v < first + nodes_[n].layer->variables().size(); ++v) {
      stage_.owned[v] = true;
    }
  }
  scratch_.inputs = scratch_.parameters = 0;
  PlanScratch();
}

bool Graph::OwnsVariable(size_t variable) const {
  return stage_.owned.empty() || stage_.owned[variable];
}

bool Graph::ReadsInput(size_t input) const {
  if (stage_.lives.empty()) return true;
  const auto is_input = [&](Value value) { return value != kNone && InputOf(value) == input; };
  for (Value n = stage_.begin; n < stage_end(); ++n) {
    if (std::ranges::any_of(nodes_[n].inputs, is_input)) return true;
  }
  if (stage_end() < nodes_.size()) return false;
  return std::ranges::any_of(outputs_, is_input) || std::ranges::any_of(output_masks_, is_input);
}

bool Graph::TouchesStorage(size_t storage) const {
  if (stage_.lives.empty()) return true;
  const auto& [first, last] = stage_.lives[storage];
  return first < stage_end() && last >= stage_.begin;
}

bool Graph::TouchesSlot(size_t slot) const {
  for (size_t s = 0; s < storages_.size(); ++s) {
    if (storages_[s].gradient_slot == slot && TouchesStorage(s)) return true;
  }
  return false;
}

int64_t Graph::FloatsSent(const GraphCall& call, size_t storage) const {
  const int64_t elements = call.batch * storages_[storage].size;
  return storages_[storage].bfloat16 ? (elements + 1) / 2 : elements;
}

void Graph::Send(const GraphCall& call, size_t storage, const float* data, StageTensors& sent) {
  const int64_t n = FloatsSent(call, storage);
  sent.storages.push_back(storage);
  ops_.Download(n, data, sent.arrays.emplace_back(static_cast<size_t>(n)).data());
}

StageTensors Graph::SendValues(const GraphCall& call, bool training) {
  StageTensors sent;
  for (size_t s = 0; s < storages_.size(); ++s) {
    if (storages_[s].input.has_value()) continue;
    const auto& [first, last] = stage_.lives[s];
    if (first >= stage_.end || last < stage_.end) continue;
    if (training && !nodes_[first].in_training) continue;
    Send(call, s, held_[at_].data[s].get(), sent);
  }
  return sent;
}

void Graph::ReceiveValues(const GraphCall& call, const StageTensors& values) {
  for (size_t i = 0; i < values.storages.size(); ++i) {
    const size_t s = values.storages[i];
    ops_.Upload(FloatsSent(call, s), values.arrays[i].data(), held_[at_].data[s].get());
  }
}

StageTensors Graph::SendGradients(const GraphCall& call) {
  StageTensors sent;
  for (size_t s = 0; s < storages_.size(); ++s) {
    if (!storages_[s].gradient_slot.has_value() || !storage_written_[s]) continue;
    if (stage_.lives[s].first >= stage_.begin) continue;
    Send(call, s, slots_[*storages_[s].gradient_slot].data.get(), sent);
  }
  return sent;
}

void Graph::ReceiveGradients(const GraphCall& call, const StageTensors& gradients) {
  stage_.received = gradients.storages;
  for (size_t i = 0; i < gradients.storages.size(); ++i) {
    const size_t s = gradients.storages[i];
    ops_.Upload(FloatsSent(call, s), gradients.arrays[i].data(),
                slots_[*storages_[s].gradient_slot].data.get());
  }
}

}  // namespace paracord
