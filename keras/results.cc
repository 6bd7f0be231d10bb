#include "keras/results.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

constexpr size_t kOutputsMax = 1024;  // outputs of a layer's call
constexpr size_t kNamesMax = 8;       // names of a cycle shown in a message

// Visits all tensors taken by a call, including named ones.
template <class Visit>
void VisitRefs(const CallSpec& call, const Visit& visit) {
  for (const TensorRef& ref : call.inputs) visit(ref);
  for (const auto& [name, ref] : call.masks) visit(ref);
}

}  // namespace

void CallResults::FindCounting(const std::map<std::string, size_t>& inner,
                               const std::vector<PendingCall>& calls,
                               const std::vector<NamedRef>& outputs) {
  const auto look = [&](const TensorRef& ref) {
    const auto found = inner.find(ref.layer);
    if (found != inner.end() && ref.call >= found->second) from_one_.insert(ref.layer);
  };
  for (const PendingCall& pending : calls) VisitRefs(pending.call, look);
  for (const NamedRef& ref : outputs) look(ref.tensor);
}

// The order of map_graph in keras/src/ops/function.py, and of _map_graph_network in Keras 2's
// functional.py.
std::vector<size_t> CallResults::KerasTurns(const std::vector<PendingCall>& calls,
                                            const std::vector<NamedRef>& outputs) const {
  std::map<Call, size_t> places;
  for (size_t i = 0; i < calls.size(); ++i) places[Written(calls[i].name, calls[i].index)] = i;
  std::vector<std::vector<size_t>> takes(calls.size());
  const auto add = [&](const TensorRef& ref, std::vector<size_t>& to) {
    const auto found = places.find({ref.layer, ref.call});
    if (!ref.node.has_value() && found != places.end()) to.push_back(found->second);
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    VisitRefs(calls[i].call, [&](const TensorRef& ref) { add(ref, takes[i]); });
  }
  std::vector<size_t> roots, after_inputs;
  for (const NamedRef& output : outputs) add(output.tensor, roots);
  std::vector<bool> met(calls.size(), false);
  for (const size_t root : roots) {
    std::vector<std::pair<size_t, size_t>> path;  // a call, and its number of visited inputs
    const auto enter = [&](size_t call) {
      if (!met[call]) path.emplace_back(call, 0);
      met[call] = true;
    };
    for (enter(root); !path.empty();) {
      const size_t call = path.back().first, input = path.back().second++;
      if (input < takes[call].size()) {
        enter(takes[call][input]);
      } else {
        after_inputs.push_back(call);
        path.pop_back();
      }
    }
  }
  std::vector<size_t> order, depths(calls.size(), 0);
  std::vector<bool> placed(calls.size(), false);
  const auto place = [&](size_t call) {
    if (!placed[call]) order.push_back(call);
    placed[call] = true;
  };
  std::map<size_t, size_t> depth_of;  // keyed by layer: depth of its deepest call so far
  for (auto call = after_inputs.rbegin(); call != after_inputs.rend(); ++call) {
    place(*call);
    size_t& depth = depth_of[calls[*call].layer];
    depths[*call] = depth = std::max(depth, depths[*call]);
    for (const size_t taken : takes[*call]) {
      place(taken);
      depths[taken] = std::max(depths[taken], depth + 1);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return depths[a] > depths[b]; });
  for (size_t i = 0; i < calls.size(); ++i) place(i);
  std::vector<size_t> turns(calls.size());
  for (size_t i = 0; i < order.size(); ++i) turns[order[i]] = i;
  return turns;
}

const size_t* CallResults::Find(const TensorRef& ref) const {
  if (ref.node.has_value()) return &*ref.node;
  const size_t shift = Shift(ref.layer);
  if (ref.call < shift) return nullptr;
  const auto found = made_.find({ref.layer, ref.call - shift});
  if (found == made_.end() || ref.output >= found->second.size()) return nullptr;
  return &found->second[ref.output];
}

// Explains why a reference will never have a value; "" if a waiting call will provide one.
std::string CallResults::WhyNever(const TensorRef& ref,
                                  const std::map<std::string, size_t>& calls) const {
  if (ref.node.has_value()) return "";
  const std::string layer = absl::StrCat("layer \"", ref.layer, "\"");
  const auto known = calls.find(ref.layer);
  if (known == calls.end()) {
    return absl::StrCat("takes an output of ", layer, ", which this model has not");
  }
  const size_t shift = Shift(ref.layer);
  if (ref.call < shift || ref.call - shift >= known->second) {
    return absl::StrCat("takes an output of call ", ref.call, " of ", layer, ", which has ",
                        known->second, ", counted from ", shift);
  }
  const auto made = made_.find({ref.layer, ref.call - shift});
  if (made == made_.end() || ref.output < made->second.size()) return "";
  return absl::StrCat("takes output ", ref.output, " of ", layer, ", which has ",
                      made->second.size(), ", counted from 0");
}

const TensorRef* CallResults::FirstMissing(const CallSpec& call) const {
  const TensorRef* missing = nullptr;
  VisitRefs(call, [&](const TensorRef& ref) {
    if (missing == nullptr && Find(ref) == nullptr) missing = &ref;
  });
  return missing;
}

std::pair<size_t, std::string> CallResults::WhyStuck(
    const std::vector<PendingCall>& waiting, const std::map<std::string, size_t>& calls) const {
  for (const PendingCall& pending : waiting) {
    std::string why;
    VisitRefs(pending.call, [&](const TensorRef& ref) {
      if (why.empty()) why = WhyNever(ref, calls);
    });
    if (!why.empty()) return {pending.layer, why};
  }
  // Each call waits for another waiting call: following them ends in a cycle.
  std::vector<size_t> path;
  size_t now = 0, begin = 0;
  for (;;) {
    begin = static_cast<size_t>(std::find(path.begin(), path.end(), now) - path.begin());
    if (begin < path.size()) break;
    path.push_back(now);
    const TensorRef* next = FirstMissing(waiting[now].call);
    const auto found = std::find_if(waiting.begin(), waiting.end(), [&](const PendingCall& other) {
      return next != nullptr && other.name == next->layer &&
             other.index + Shift(other.name) == next->call;
    });
    if (found == waiting.end()) return {waiting[now].layer, "cannot have its inputs"};
    now = static_cast<size_t>(found - waiting.begin());
  }
  const size_t blamed = waiting[now].layer;
  if (begin + 1 == path.size()) return {blamed, "takes its own output"};
  std::string cycle = absl::StrCat("is part of a cycle: \"", waiting[now].name, "\"");
  for (size_t i = begin + 1; i < path.size() && i < begin + kNamesMax; ++i) {
    absl::StrAppend(&cycle, " takes an output of \"", waiting[path[i]].name, "\", which");
  }
  if (path.size() > begin + kNamesMax) absl::StrAppend(&cycle, " takes one of ... which");
  return {blamed, absl::StrCat(cycle, " takes one of \"", waiting[now].name, "\"")};
}

std::map<std::string, size_t> CountOutputs(const std::vector<PendingCall>& calls,
                                           const std::vector<NamedRef>& outputs) {
  std::map<std::string, size_t> counts;
  const auto look = [&](const TensorRef& ref) {
    size_t& count = counts[ref.layer];
    if (ref.output < kOutputsMax) count = std::max(count, ref.output + 1);
  };
  for (const PendingCall& pending : calls) VisitRefs(pending.call, look);
  for (const NamedRef& ref : outputs) look(ref.tensor);
  return counts;
}

}  // namespace paracord
