// Finds the nodes that were made for calls of a Functional model's layers by the references in
// Keras' files, and the reasons why a reference has no node. Used while a model is read (json.cc).
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keras/calls.h"

namespace paracord {

// A call for which no node was made yet.
struct PendingCall {
  size_t layer = 0;  // index in the model's list of layers
  std::string name;  // the layer's name
  size_t index = 0;  // the call's number among the layer's calls
  CallSpec call;
  size_t turn = 0;  // the result of KerasTurns for the call
};

class CallResults {
 public:
  using Call = std::pair<std::string, size_t>;  // a layer's name, and the number of a call of it
  void Set(const std::string& layer, size_t call, std::vector<size_t> nodes) {
    made_[{layer, call}] = std::move(nodes);
  }
  // In Keras 2 files, references number the calls of an inner model from 1, except for a Sequential
  // that begins without an InputLayer. Finds the inner models whose numbers are from 1, by a
  // reference beyond the last call. `inner` has the number of calls of each inner model.
  void FindCounting(const std::map<std::string, size_t>& inner,
                    const std::vector<PendingCall>& calls, const std::vector<NamedRef>& outputs);
  // Returns the position of each call in the order in which Keras computes calls: those furthest
  // from an output first, and those that no output needs last. The order matters for the moving
  // averages of a layer with several calls.
  std::vector<size_t> KerasTurns(const std::vector<PendingCall>& calls,
                                 const std::vector<NamedRef>& outputs) const;
  // Returns the index of the node of `ref`; null if there is no such node yet.
  const size_t* Find(const TensorRef& ref) const;
  // Returns the first input or mask of the call that has no node yet; null if all have one.
  const TensorRef* FirstMissing(const CallSpec& call) const;
  // Returns the call of `layer` with the number that references in the file give to call `call`.
  Call Written(const std::string& layer, size_t call) const { return {layer, call + Shift(layer)}; }

  // Explains why the calls `waiting` will never have their inputs. Returns the index of the layer
  // at fault, and the text of an error. `calls` has the number of calls of each layer.
  std::pair<size_t, std::string> WhyStuck(const std::vector<PendingCall>& waiting,
                                          const std::map<std::string, size_t>& calls) const;

 private:
  size_t Shift(const std::string& layer) const { return from_one_.count(layer); }
  std::string WhyNever(const TensorRef& ref, const std::map<std::string, size_t>& calls) const;

  std::map<Call, std::vector<size_t>> made_;
  std::set<std::string> from_one_;
};

// Returns, keyed by the name of a layer, how many outputs its calls must have: one more than the
// greatest number of an output in a reference.
std::map<std::string, size_t> CountOutputs(const std::vector<PendingCall>& calls,
                                           const std::vector<NamedRef>& outputs);

}  // namespace paracord
