// Builds a Graph from a ModelSpec. A private part of graph.h, for the files that build graphs.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keras/constant_numbers.h"
#include "keras/graph.h"
#include "keras/layers/number_array.h"

namespace paracord {

// The key, in Builder::Masks, of a mask that is a call's second positional argument. No named
// argument of Keras has this name.
inline constexpr const char* kSecondArgument = "/";

// Returns `status` with the layer's name and class in front of the message.
absl::Status AtLayer(const Layer& layer, const absl::Status& status);

// Adds the nodes of a ModelSpec to a graph, in their order.
class Graph::Builder {
 public:
  Builder(Graph& graph, const ModelSpec& model, Problems& problems)
      : graph_(graph),
        model_(model),
        problems_(problems),
        layers_(model.layers.size(), nullptr),
        failed_(model.layers.size()) {}

  // Adds all nodes. `data` has the shapes of the inputs, as in Graph::Build. Returns true if all
  // outputs of the model were built.
  bool Add(std::span<const std::optional<Shape>> data);

 private:
  void Problem(const absl::Status& status);
  Value AddInput(size_t input, const std::optional<Shape>& data);
  absl::StatusOr<Layer*> LayerOf(const NodeSpec& node);
  bool InputsKnown(const NodeSpec& node) const;
  absl::StatusOr<Value> AddCallOf(const NodeSpec& node);
  absl::StatusOr<Value> AddCallWith(const NodeSpec& node);  // after WithNumbers, if needed
  // The functions from here to WithNumbers are in constant_folding.cc.
  std::optional<ConstantNumbers> KnownOf(size_t input) const;
  bool MayFold(const NodeSpec& node) const;
  absl::StatusOr<ConstantNumbers> Fold(const NodeSpec& node) const;
  // Returns the shape, the size or the rank of an input; `operation` is Shape, Size or Rank.
  absl::StatusOr<ConstantNumbers> SizesOf(const std::string& operation, size_t input) const;
  // If the model's next node is to be computed from known numbers alone, computes it and returns
  // kNone, or kUnknown if an input could not be built. Nullopt: the graph has to compute the node.
  absl::StatusOr<std::optional<Value>> FoldCall(const NodeSpec& node);
  bool TakesNumbers(const NodeSpec& node) const;
  const NumberArray* ConstantOf(size_t input) const;  // null: the input is not constant
  absl::StatusOr<NodeSpec> WithNumbers(const NodeSpec& node) const;
  absl::StatusOr<Value> AddNode(const NodeSpec& node, Layer& layer);
  absl::StatusOr<Value> AddPart(const NodeSpec& node);
  absl::StatusOr<Value> AddFolded(Layer& layer, std::span<const Value> inputs);
  absl::Status CheckCall(const NodeSpec& node, const Layer& layer) const;
  absl::StatusOr<std::vector<Value>> InputsOf(const NodeSpec& node, Layer& layer);
  absl::StatusOr<Value> AddConstant(const Layer& layer, const NumberArray& array,
                                    const absl::StatusOr<Shape>& shape);
  absl::StatusOr<Value> AddHandingMask(const NodeSpec& node);
  // The functions from here to OutputMask are in graph_masks.cc.
  using Masks = std::map<std::string, Value>;  // keyed by the name of the mask's argument
  absl::StatusOr<Masks> NamedMasks(const NodeSpec& node, const Layer& layer);
  std::vector<Value> MasksOf(const NodeSpec& node, const Masks& named, const Layer& layer,
                             std::span<const Value> inputs) const;
  absl::StatusOr<Value> AddMaskedProduct(Layer& layer, std::vector<Value> inputs,
                                         std::span<const Value> masks, Value output_mask);
  absl::StatusOr<Value> AddMaskedExtreme(Layer& layer, std::span<const Value> inputs,
                                         std::span<const Value> masks);
  absl::StatusOr<Value> AddChoice(Layer& layer, Value mask, Value x, Value other);
  absl::StatusOr<Value> AndMask(const Layer& layer, std::span<const Value> masks);
  absl::StatusOr<Value> OutputMask(const NodeSpec& node, Layer& layer, const Masks& named,
                                   std::span<const Value> inputs);
  absl::StatusOr<Value> AddActivation(Layer& layer, Activation activation, Value input);
  void SetMask(Value value, Value mask) {
    masks_.resize(graph_.nodes_.size(), kNone);
    masks_[value] = mask;
  }
  Value MaskOf(Value value) const { return value < masks_.size() ? masks_[value] : kNone; }
  Layer& Own(std::unique_ptr<Layer> layer) {
    graph_.layers_.push_back(std::move(layer));
    return *graph_.layers_.back();
  }

  Graph& graph_;
  const ModelSpec& model_;
  Problems& problems_;
  std::vector<Layer*> layers_;
  std::vector<bool> failed_;                       // indexed by layer: whether making it failed
  std::map<size_t, const NodeSpec*> first_calls_;  // keyed by layer
  std::vector<Value> values_;                      // indexed by node of the model
  struct Whole {
    Value value = kNone;  // all outputs of the call, concatenated
    Value mask = kNone;   // the mask of the call's first Layer::masked_outputs() outputs
  };
  std::map<size_t, Whole> whole_;  // keyed by node of the model, for calls with several outputs
  std::vector<Value> masks_;       // indexed by value: the mask of the value
  // Keyed by node of the model: numbers computed from shapes alone, which have no value in the
  // graph.
  std::map<size_t, ConstantNumbers> known_;
  std::map<size_t, ConstantNumbers> known_parts_;  // keyed by the node of an Unstack: its input
  std::map<size_t, NumberArray> operands_;         // keyed by node: KnownOperand of known_
  std::deque<NodeSpec> calls_;                     // the results of WithNumbers
};

}  // namespace paracord
