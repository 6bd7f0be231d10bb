// The outputs of the calls of a Functional model's layers, found by the references of Keras' files,
// and the reasons for unresolvable references. Owned by the reader of a model.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keras/calls.h"

namespace paracord {

// A call with inputs not yet made.
struct PendingCall {
  size_t layer = 0;  // index in the model's list
  std::string name;  // the layer's
  size_t index = 0;  // number of the call among the layer's calls
  CallSpec call;
  size_t turn = 0;  // position among all calls in Keras' order
};

class CallResults {
 public:
  using Call = std::pair<std::string, size_t>;  // the layer's name and the call's number
  void Set(const std::string& layer, size_t call, std::vector<size_t> nodes) {
    made_[{layer, call}] = std::move(nodes);
  }
  // In Keras 2 the calls of an inner model count from 1, except for a Sequential that begins
  // without an InputLayer. Finds the models that count from 1: those with references beyond the
  // last call. `inner` has the number of calls of each inner model.
  void FindCounting(const std::map<std::string, size_t>& inner,
                    const std::vector<PendingCall>& calls, const std::vector<NamedRef>& outputs);
  // For each call, its position in Keras' order of calls, which matters for the moving averages of
  // a layer called several times. Calls furthest from an output come first, unneeded calls last.
  std::vector<size_t> KerasTurns(const std::vector<PendingCall>& calls,
                                 const std::vector<NamedRef>& outputs) const;
  // The nodes of the call in `ref`; null if not made yet, or never.
  const size_t* Find(const TensorRef& ref) const;
  // The first missing tensor of the call; null if all are present.
  const TensorRef* FirstMissing(const CallSpec& call) const;
  // The call in the notation of the file's references.
  Call Written(const std::string& layer, size_t call) const { return {layer, call + Shift(layer)}; }

  // Explains why calls that wait for each other will never have their inputs: returns the index of
  // the layer to blame and its error. `calls` has the number of calls of each layer.
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
