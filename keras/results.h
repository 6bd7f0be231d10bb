// The outputs of the calls of a Functional model's layers, found by the references of Keras' files,
// and the reasons why references cannot be resolved. Owned by the reader of one model.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keras/calls.h"

namespace paracord {

// A call whose inputs are not all known yet.
struct PendingCall {
  size_t layer = 0;  // index in the model's list
  std::string name;  // the layer's
  size_t index = 0;  // number of the call among the layer's calls
  CallSpec call;
  size_t turn = 0;  // position among all calls in Keras' order
};

class CallResults {
 public:
  using Call = std::pair<std::string, size_t>;  // the layer's name and the number of its call
  void Set(const std::string& layer, size_t call, std::vector<size_t> nodes) {
    made_[{layer, call}] = std::move(nodes);
  }
  // In Keras 2 the calls of an inner model count from 1, unless it is a Sequential that begins
  // without an InputLayer. This finds out which ones do: those with references beyond the last
  // call. `inner` has the number of calls of each inner model.
  void FindCounting(const std::map<std::string, size_t>& inner,
                    const std::vector<PendingCall>& calls, const std::vector<NamedRef>& outputs);
  // For each call, its position in the order in which Keras makes the calls; the moving averages of
  // a layer that is called several times depend on it. Calls furthest from an output come first,
  // calls that no output needs last.
  std::vector<size_t> KerasTurns(const std::vector<PendingCall>& calls,
                                 const std::vector<NamedRef>& outputs) const;
  // The nodes of the call that `ref` refers to; null if it is not made yet, or never.
  const size_t* Find(const TensorRef& ref) const;
  // The first tensor that the call takes and that is not there; null if all are.
  const TensorRef* FirstMissing(const CallSpec& call) const;
  // The call as references in the file write it.
  Call Written(const std::string& layer, size_t call) const { return {layer, call + Shift(layer)}; }

  // Explains why these calls, which wait for each other, will never have their inputs: returns the
  // index of the layer to blame and what is wrong with it. `calls` has the number of calls of each
  // layer.
  std::pair<size_t, std::string> WhyStuck(const std::vector<PendingCall>& waiting,
                                          const std::map<std::string, size_t>& calls) const;

 private:
  size_t Shift(const std::string& layer) const { return from_one_.count(layer); }
  std::string WhyNever(const TensorRef& ref, const std::map<std::string, size_t>& calls) const;

  std::map<Call, std::vector<size_t>> made_;
  std::set<std::string> from_one_;
};

// The number of outputs that the model uses of each layer.
std::map<std::string, size_t> CountOutputs(const std::vector<PendingCall>& calls,
                                           const std::vector<NamedRef>& outputs);

}  // namespace paracord
