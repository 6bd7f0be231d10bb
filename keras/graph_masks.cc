// Masks in a graph: the masks of a call, the mask of its output, and layers that compute
// differently under a mask.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/graph_builder.h"
#include "keras/layers/layers.h"
#include "keras/layers/mask_fill.h"

namespace paracord {
namespace {

// The argument for the mask of this input in most layers.
std::string MaskArgument(size_t input) {
  return input == 0 ? "mask" : absl::StrCat("mask/", input);
}

}  // namespace

absl::StatusOr<Graph::Builder::Masks> Graph::Builder::NamedMasks(const NodeSpec& node,
                                                                 const Layer& layer) {
  Masks masks;
  for (const auto& [name, at] : node.masks) {
    masks[name] = values_[at];
    const auto& array = model_.nodes[at].constant;
    if (!array.has_value()) continue;
    // An attention mask is (queries, keys), even without a batch; other masks are (batch, steps).
    const bool whole = name == "attention_mask" && array->shape.size() == 2;
    ASSIGN_OR_RETURN(masks[name], AddConstant(layer, *array,
                                              whole ? absl::StatusOr<Shape>(array->shape)
                                                    : ShapeOfOne(array->shape)));
  }
  return masks;
}

// The mask of each input: the mask named in the call, otherwise the input's propagated mask. For
// query_mask Keras always takes the query's propagated mask.
std::vector<Graph::Value> Graph::Builder::MasksOf(const NodeSpec& node, const Masks& named,
                                                  const Layer& layer,
                                                  std::span<const Value> inputs) const {
  std::vector<Value> masks;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool comes = !node.own_masks && layer.masks_come_along(inputs.size());
    Value mask = comes ? MaskOf(inputs[i]) : kNone;
    const std::string own = i == 1 ? "value_mask" : i == 2 ? "key_mask" : "";
    for (const std::string& name :
         {MaskArgument(i), own, std::string(i == 0 ? kSecondArgument : "")}) {
      if (named.count(name) != 0) mask = named.at(name);
    }
    masks.push_back(mask);
  }
  return masks;
}

// Keras 3's Multiply takes 1 for hidden elements, and gives 0 where all inputs are hidden.
absl::StatusOr<Graph::Value> Graph::Builder::AddMaskedProduct(Layer& layer,
                                                              std::vector<Value> inputs,
                                                              std::span<const Value> masks,
                                                              Value output_mask) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (masks[i] == kNone) continue;
    ASSIGN_OR_RETURN(inputs[i],
                     graph_.AddCall(Own(MakeMaskFill(layer, 1)), {inputs[i], masks[i]}, 1));
  }
  ASSIGN_OR_RETURN(const Value product, AddFolded(layer, inputs));
  if (output_mask == kNone) return product;
  return graph_.AddCall(Own(MakeMaskFill(layer, 0)), {product, output_mask}, 1);
}

// Selects x where the mask is not zero, and `other` elsewhere.
absl::StatusOr<Graph::Value> Graph::Builder::AddChoice(Layer& layer, Value mask, Value x,
                                                       Value other) {
  const Activation negation{ActivationKind::kAffine, -1, 1, 0};
  ASSIGN_OR_RETURN(const Value rest,
                   graph_.AddCall(Own(MakeActivationLayer(layer, negation)), {mask}, 0));
  ASSIGN_OR_RETURN(x, graph_.AddCall(Own(MakeMaskFill(layer, 0)), {x, mask}, 1));
  ASSIGN_OR_RETURN(other, graph_.AddCall(Own(MakeMaskFill(layer, 0)), {other, rest}, 1));
  return graph_.AddCall(Own(MakeAddLayer(layer)), {x, other}, 2);
}

// Keras 3's Maximum and Minimum leave out hidden elements; where every input is hidden, they return
// the first input.
absl::StatusOr<Graph::Value> Graph::Builder::AddMaskedExtreme(Layer& layer,
                                                              std::span<const Value> inputs,
                                                              std::span<const Value> masks) {
  Value value = inputs[0], mask = masks[0];
  for (size_t i = 1; i < inputs.size(); ++i) {
    Value next = inputs[i];
    if (masks[i] != kNone) {
      ASSIGN_OR_RETURN(next, AddChoice(layer, masks[i], next, value));
    }
    if (mask != kNone) {
      ASSIGN_OR_RETURN(value, AddChoice(layer, mask, value, next));
    }
    if (mask == kNone || masks[i] == kNone) {
      mask = kNone;
    } else if (i + 1 < inputs.size()) {
      ASSIGN_OR_RETURN(mask, graph_.AddCall(Own(MakeOrLayer(layer)), {mask, masks[i]}, 0));
    }
    ASSIGN_OR_RETURN(value, graph_.AddCall(layer, {value, next}, 2));
  }
  return value;
}

// The "and" of the existing masks, as in Keras 2.
absl::StatusOr<Graph::Value> Graph::Builder::AndMask(const Layer& layer,
                                                     std::span<const Value> masks) {
  Value mask = kNone;
  for (const Value next : masks) {
    if (next == kNone || mask == kNone) {
      mask = mask == kNone ? next : mask;
      continue;
    }
    const nlohmann::json none = nlohmann::json::object();
    LayerConfig config("Minimum", layer.name(), none, model_.keras2);
    ASSIGN_OR_RETURN(mask, graph_.AddCall(Own(MakeMerge(config)), {mask, next}, 0));
  }
  return mask;
}

absl::StatusOr<Graph::Value> Graph::Builder::OutputMask(const NodeSpec& node, Layer& layer,
                                                        const Masks& named,
                                                        std::span<const Value> inputs) {
  std::vector<Value> masks;  // all masks, even if the call takes none
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto mask = named.find(MaskArgument(i));
    const Value own = node.own_masks ? kNone : MaskOf(inputs[i]);
    masks.push_back(mask == named.end() ? own : mask->second);
  }
  const bool all = std::find(masks.begin(), masks.end(), kNone) == masks.end();
  switch (layer.mask_rule()) {
    case Layer::MaskRule::kStop:
      return kNone;
    case Layer::MaskRule::kPass:
      return masks[0];
    case Layer::MaskRule::kOr: {
      if (model_.keras2) return AndMask(layer, masks);
      if (!all) return kNone;
      Value mask = masks[0];
      for (size_t i = 1; i < masks.size(); ++i) {
        ASSIGN_OR_RETURN(mask, graph_.AddCall(Own(MakeOrLayer(layer)), {mask, masks[i]}, 0));
      }
      return mask;
    }
    case Layer::MaskRule::kCompute:
      break;
  }
  std::vector<Shape> shapes;
  std::vector<Value> all_inputs(inputs.begin(), inputs.end());
  all_inputs.insert(all_inputs.end(), masks.begin(), masks.end());
  for (const Value v : all_inputs) shapes.push_back(v == kNone ? Shape() : graph_.shape(v));
  std::unique_ptr<Layer> made = layer.MakeMaskLayer(shapes);
  if (made == nullptr) return kNone;
  return graph_.AddCall(Own(std::move(made)), std::move(all_inputs), 0);
}

}  // namespace paracord
