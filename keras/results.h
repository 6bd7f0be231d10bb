// The nodes made for calls of a Functional model's layers, found by the references in Keras' files,
// and the reasons why a reference finds no node. Owned by the reader of a model.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keras/calls.h"

namespace paracord {

// A call without a node, because inputs are missing.
struct PendingCall {
  size_t layer = 0;  // index in the model's list of layers
  std::string name;  // the layer's name
  size_t index = 0;  // the call's number among the layer's calls
  CallSpec call;
  size_t turn = 0;  // position in Keras' order of calls (KerasTurns)
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
  // Returns the position of each call in Keras' order of calls, which matters for the moving
  // averages of a layer with several calls. Calls furthest from an output come first, unneeded
  // calls last.
  std::vector<size_t> KerasTurns(const std::vector<PendingCall>& calls,
                                 const std::vector<NamedRef>& outputs) const;
  // Returns the node of `ref`; null if the node is not made yet, or never will be.
  const size_t* Find(const TensorRef& ref) const;
  // Returns the first tensor of the call without a node; null if all have one.
  const TensorRef* FirstMissing(const CallSpec& call) const;
  // Returns a call in the numbering of the file's references.
  Call Written(const std::string& layer, size_t call) const { return {layer, call + Shift(layer)}; }

  // Explains why calls that wait for each other will never have their inputs. Returns the index of
  // the layer at fault, and an error. `calls` has the number of calls of each layer.
  std::pair<size_t, std::string> WhyStuck(const std::vector<PendingCall>& waiting,
                                          const std::map<std::string, size_t>& calls) const;

 private:
  size_t Shift(const std::string& layer) const { return from_one_.count(layer); }
  std::string WhyNever(const TensorRef& ref, const std::map<std::string, size_t>& calls) const;

  std::map<Call, std::vector<size_t>> made_;
  std::set<std::string> from_one_;
};

// Returns, by layer name, how many outputs of a call the model uses.
std::map<std::string, size_t> CountOutputs(const std::vector<PendingCall>& calls,
                                           const std::vector<NamedRef>& outputs);

}  // namespace paracord
