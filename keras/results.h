// What the calls of a Functional model's layers have given so far, found by the references of
// Keras' files, and what is wrong with those that lead nowhere. Owned by the reader of one model.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keras/calls.h"

namespace paracord {

// A call that waits for its inputs.
struct PendingCall {
  size_t layer = 0;  // in the model's list
  std::string name;  // the layer's
  size_t index = 0;  // which call of it
  CallSpec call;
  size_t turn = 0;  // of all, in Keras
};

class CallResults {
 public:
  using Call = std::pair<std::string, size_t>;  // of a layer, and which
  void Set(const std::string& layer, size_t call, std::vector<size_t> nodes) {
    made_[{layer, call}] = std::move(nodes);
  }
  // In Keras 2 the calls of an inner model count from 1 (a Sequential's that begins with no
  // InputLayer do not): known by references that go past the last of `inner`, calls by model.
  void FindCounting(const std::map<std::string, size_t>& inner,
                    const std::vector<PendingCall>& calls, const std::vector<NamedRef>& outputs);
  // By call: when Keras makes it, on which the averages of a layer that is called several times
  // depend. Those that are furthest from an output come first; what no output needs, last.
  std::vector<size_t> KerasTurns(const std::vector<PendingCall>& calls,
                                 const std::vector<NamedRef>& outputs) const;
  // Null if there is none (yet).
  const size_t* Find(const TensorRef& ref) const;
  // The first that a call takes and that is not there; null if all are.
  const TensorRef* FirstMissing(const CallSpec& call) const;
  // As references have it.
  Call Written(const std::string& layer, size_t call) const { return {layer, call + Shift(layer)}; }

  // Why these calls, of which each waits for another, will never have their inputs: the place in
  // the model's list of the layer that is to blame, and what it does. `calls`: by layer.
  std::pair<size_t, std::string> WhyStuck(const std::vector<PendingCall>& waiting,
                                          const std::map<std::string, size_t>& calls) const;

 private:
  size_t Shift(const std::string& layer) const { return from_one_.count(layer); }
  std::string WhyNever(const TensorRef& ref, const std::map<std::string, size_t>& calls) const;

  std::map<Call, std::vector<size_t>> made_;
  std::set<std::string> from_one_;
};

// How many outputs of each layer the model uses.
std::map<std::string, size_t> CountOutputs(const std::vector<PendingCall>& calls,
                                           const std::vector<NamedRef>& outputs);

}  // namespace paracord
