#include "keras/calls.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/json.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kCallsMax = 1'000'000;

absl::Status Bad(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("key \"inbound_nodes\": ", what));
}

bool IsIndex(const json& value) {
  return value.is_number_integer() && value.get<int64_t>() >= 0 &&
         value.get<int64_t>() <= static_cast<int64_t>(kCallsMax);
}

// Reads a Keras history such as ["dense", 0, 0]; further entries are ignored.
std::optional<TensorRef> History(const json& value) {
  if (!value.is_array() || value.size() < 3 || !value[0].is_string() || !IsIndex(value[1]) ||
      !IsIndex(value[2])) {
    return std::nullopt;
  }
  TensorRef ref;
  ref.layer = value[0].get<std::string>();
  ref.call = value[1].get<size_t>();
  ref.output = value[2].get<size_t>();
  return ref;
}

// Reads {"class_name": "__keras_tensor__", "config": {"keras_history": [...]}}.
std::optional<TensorRef> Keras3Tensor(const json& value) {
  if (!value.is_object() || value.value("class_name", json()) != "__keras_tensor__") {
    return std::nullopt;
  }
  const auto config = value.find("config");
  if (config == value.end() || !config->is_object() || !config->contains("keras_history")) {
    return std::nullopt;
  }
  return History((*config)["keras_history"]);
}

// Brings the arguments of either dialect into one form. The first mistake is kept.
class CallReader {
 public:
  explicit CallReader(bool keras2) : keras2_(keras2) {}

  void Arg(const json& value) {
    json read = Args(value);
    call_.args.push_back(std::move(read));
  }
  // Reads an argument; Keras 2 writes arrays as lists. With `apart`, `value` is a list of arguments
  // and never an array itself.
  json Args(const json& value, bool apart = false) {
    if (const auto tensor = Tensor(value)) return Place(*tensor);
    if (const json* array = ArrayValue(value)) return Constant(*array);
    if (IsDict(value)) {
      json named = json::object();
      for (const auto& [key, entry] : value.items()) named[key] = Args(entry);
      return named;
    }
    if (!value.is_array()) return Plain(value);
    if (keras2_ && !apart && ReadNumberArray(value).has_value()) return Constant(value);
    json list = json::array();
    for (const json& entry : value) list.push_back(Args(entry));
    return list;
  }
  void Kwargs(const json& kwargs) {
    if (keras2_) Training(kwargs);
    // Data arguments come first, in the order of the layers' signatures.
    static constexpr std::array<const char*, 16> kData{
        "inputs", "sequences", "query", "value", "key", "condition",     "x0",      "x",
        "xs",     "x1",        "y",     "x2",    "b",   "initial_state", "indices", "weights"};
    for (const char* name : kData) {
      const auto found = kwargs.find(name);
      if (found == kwargs.end() || found->is_null()) continue;
      json read = Args(*found, std::string_view(name) == "initial_state");
      call_.args.push_back(std::move(read));
    }
    for (const auto& [name, value] : kwargs.items()) {
      if (std::find(kData.begin(), kData.end(), name) != kData.end()) continue;
      if (name == "name" || name == "training") continue;
      Other(name, IsDictOfNulls(value) ? json() : value);
    }
  }
  absl::StatusOr<CallSpec> Take() {
    if (!error_.ok()) return error_;
    return std::move(call_);
  }
  CallSpec& call() { return call_; }
  json Place(TensorRef tensor) {
    call_.inputs.push_back(std::move(tensor));
    return {{kTensorKey, call_.inputs.size() - 1}};
  }
  // A single number is no array.
  json Constant(const json& value) {
    std::optional<NumberArray> array = ReadNumberArray(value);
    if (!array.has_value()) {
      Fail("a constant must be an array of numbers");
      return nullptr;
    }
    if (array->shape.empty()) return value;
    json placed = Place(OfArray(*std::move(array)));
    placed[kConstantKey] = true;
    return placed;
  }
  // Called last. The only tensor of tf.range(0, limit=tensor) is a named argument, and hence data,
  // not a mask.
  void PlaceMasksUnlessTensors() {
    if (!call_.inputs.empty()) return;
    for (auto& [name, tensor] : std::exchange(call_.masks, {})) {
      call_.kwargs[name] = Place(std::move(tensor));
    }
  }
  // Reads a Keras 2 argument with tensors among numbers, such as the shape [tensor, 24].
  json Embedding(const json& value) {
    if (!keras2_ || !HoldsTensor(value)) return Plain(value);
    if (const auto tensor = Tensor(value)) return Place(*tensor);
    json copy = value;
    for (json& entry : copy) entry = Embedding(entry);
    return copy;
  }
  void Fail(const std::string& what) {
    if (error_.ok()) error_ = Bad(what);
  }

 private:
  // Reads an argument that is no data; a tensor or an array is then a mask. "mask": null means the
  // inputs' own masks in Keras 3, and no masks in Keras 2.
  void Other(const std::string& name, const json& value) {
    if (name == "mask") call_.own_masks = keras2_ || !value.is_null();
    if (const auto mask = Mask(name, value)) {
      call_.masks.emplace_back(name, *mask);
      return;
    }
    if (name != "mask" || !value.is_array()) {
      call_.kwargs[name] = Embedding(value);
      return;
    }
    for (size_t i = 0; i < value.size(); ++i) {
      if (value[i].is_null()) continue;
      const auto mask = Mask(name, value[i]);
      if (!mask.has_value()) return Fail("an entry of mask must be a tensor or null");
      call_.masks.emplace_back(i == 0 ? name : absl::StrCat(name, "/", i), *mask);
    }
  }
  std::optional<TensorRef> Mask(const std::string& name, const json& value) const {
    if (auto tensor = Tensor(value)) return tensor;
    const json* array = ArrayValue(value);
    if (keras2_ && name.ends_with("mask") && value.is_array()) array = &value;
    std::optional<NumberArray> read;
    if (array != nullptr) read = ReadNumberArray(*array);
    if (!read.has_value() || read->shape.empty()) return std::nullopt;
    return OfArray(*std::move(read));
  }
  void Training(const json& kwargs) {
    const auto training = kwargs.find("training");
    if (training == kwargs.end() || training->is_null()) return;
    if (!training->is_boolean() && !training->is_number()) {
      return Fail("training must be true, false or null");
    }
    const bool trains = *training != false && *training != 0;
    call_.mode = trains ? CallMode::kTraining : CallMode::kInference;
  }
  bool HoldsTensor(const json& value) const {
    return value.is_structured() &&
           (Tensor(value).has_value() ||
            std::any_of(value.begin(), value.end(), [&](const json& e) { return HoldsTensor(e); }));
  }
  std::optional<TensorRef> Tensor(const json& value) const {
    return keras2_ ? History(value) : Keras3Tensor(value);
  }
  static TensorRef OfArray(NumberArray array) {
    TensorRef ref;
    ref.constant = std::move(array);
    return ref;
  }
  // Keras 3 writes a null for the mask of each tensor of a dict if none is given.
  static bool IsDictOfNulls(const json& value) {
    return value.is_object() && !value.empty() &&
           std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_null(); });
  }
  // Whether an argument is a dict of nothing but tensors.
  bool IsDict(const json& value) const {
    return value.is_object() && !value.empty() && !value.contains(kTensorKey) &&
           std::all_of(value.begin(), value.end(),
                       [&](const json& entry) { return Tensor(entry).has_value(); });
  }
  // Drops an object of the file that imitates our tensor marker, to keep files from forging one.
  static json Plain(const json& value) {
    return value.is_object() && value.contains(kTensorKey) ? json() : value;
  }

  const bool keras2_;
  CallSpec call_;
  absl::Status error_;
};

// Reads [layer, call, output, kwargs], a number in its place, or a list of such entries.
absl::StatusOr<json> ReadEntry(const json& entry, CallReader& reader) {
  if (entry.is_array() && entry.size() >= 3 && entry[0] == "_CONSTANT_VALUE") {
    return reader.Constant(entry[2]);
  }
  if (const auto tensor = History(entry)) return reader.Place(*tensor);
  const bool lists = entry.is_array() && !entry.empty() &&
                     std::all_of(entry.begin(), entry.end(),
                                 [](const json& each) { return each.is_array() && !each.empty(); });
  if (!lists) return Bad("an entry must be [layer, call, output, kwargs]");
  json list = json::array();
  for (const json& each : entry) {
    ASSIGN_OR_RETURN(json read, ReadEntry(each, reader));
    list.push_back(std::move(read));
  }
  return ReadNumberArray(list).has_value() ? reader.Constant(list) : list;
}

// Returns a call's kwargs, repeated in every entry, from the first entry; null without kwargs.
const json* KwargsOf(const json& node) {
  if (!node.is_array() || node.empty()) return nullptr;
  if (!node[0].is_string()) return KwargsOf(node[0]);
  return node.size() > 3 && node[3].is_object() ? &node[3] : nullptr;
}

// Reads a list of [layer, call, output, kwargs]; an operation has a single entry.
absl::StatusOr<CallSpec> ReadKeras2(const json& node) {
  CallReader reader(/*keras2=*/true);
  const bool one = !node.empty() && node[0].is_string();
  json tensors = json::array();
  for (size_t i = 0; i < (one ? 1 : node.size()); ++i) {
    ASSIGN_OR_RETURN(json tensor, ReadEntry(one ? node : node[i], reader));
    tensors.push_back(std::move(tensor));
  }
  const json* kwargs = KwargsOf(node);
  // Several tensors are the inputs of a merge layer, which takes a single list.
  if (tensors.size() == 1) {
    reader.call().args.push_back(tensors[0]);
  } else if (ReadNumberArray(tensors).has_value()) {
    reader.call().args.push_back(reader.Constant(tensors));
  } else {
    reader.call().args.push_back(tensors);
  }
  if (kwargs != nullptr) {
    if (kwargs->contains("slice_spec")) {
      reader.call().args.push_back(reader.Embedding((*kwargs)["slice_spec"]));
    }
    json rest = *kwargs;
    rest.erase("slice_spec");
    reader.Kwargs(rest);
  }
  reader.PlaceMasksUnlessTensors();
  return reader.Take();
}

// Whether a node is {"a": [layer, call, output, kwargs], ...}.
bool IsKeras2Dict(const json& node) {
  return node.is_object() && !node.empty() &&
         std::all_of(node.begin(), node.end(),
                     [](const json& entry) { return History(entry).has_value(); });
}

absl::StatusOr<CallSpec> ReadKeras2Dict(const json& node) {
  CallReader reader(/*keras2=*/true);
  json named = json::object();
  for (const auto& [key, entry] : node.items()) named[key] = reader.Place(*History(entry));
  reader.call().args.push_back(std::move(named));
  const json& first = *node.begin();
  if (first.size() > 3 && first[3].is_object()) reader.Kwargs(first[3]);
  return reader.Take();
}

}  // namespace

absl::StatusOr<CallSpec> ReadCall(const json& node) {
  if (node.is_array()) return ReadKeras2(node);
  if (!node.is_object()) return Bad("an entry must be a list or an object");
  if (IsKeras2Dict(node)) return ReadKeras2Dict(node);
  CallReader reader(/*keras2=*/false);
  const auto args = node.find("args");
  if (args != node.end()) {
    if (!args->is_array()) return Bad("args must be a list");
    bool left_out = false;
    for (const json& arg : *args) {
      const size_t before = reader.call().inputs.size();
      reader.Arg(arg);
      if (left_out && reader.call().inputs.size() > before) {
        return Bad("a tensor after an argument that is left out must be given by its name");
      }
      left_out = left_out || arg.is_null();
    }
  }
  const auto kwargs = node.find("kwargs");
  if (kwargs != node.end() && kwargs->is_object()) reader.Kwargs(*kwargs);
  return reader.Take();
}

std::string OtherArgument(const NodeSpec& call) {
  if (!call.masks.empty()) return call.masks.begin()->first;
  for (const json& arg : call.args) {
    for (const json& one : arg.is_array() ? arg : json::array({arg})) {
      if (!one.is_null() && !LayerConfig::IsTensor(one)) return "args";
    }
  }
  for (const auto& [name, value] : call.kwargs.items()) {
    if (!value.is_null()) return name;
  }
  return "";
}

void AddConstants(const std::string& layer, CallSpec& call, ModelSpec& model) {
  const auto add = [&](TensorRef& ref) {
    if (!ref.constant.has_value()) return;
    NodeSpec node;
    node.layer = model.layers.size();
    node.constant = std::move(ref.constant);
    ref.constant.reset();
    ref.node = model.nodes.size();
    model.layers.push_back({"Constant", layer, json::object()});
    model.nodes.push_back(std::move(node));
  };
  for (TensorRef& ref : call.inputs) add(ref);
  for (auto& [name, ref] : call.masks) add(ref);
}

absl::StatusOr<std::vector<size_t>> InputsOfModel(const std::string& layer, const NodeSpec& call,
                                                  ModelSpec& model) {
  std::vector<size_t> inputs = call.inputs;
  NodeSpec rest = call;
  for (size_t i = 0; i < inputs.size() && call.own_masks; ++i) {
    const auto mask = rest.masks.extract(i == 0 ? "mask" : absl::StrCat("mask/", i));
    if (model.nodes[inputs[i]].constant.has_value()) continue;
    // In Keras 3 an input without a mask in the call keeps its own mask.
    if (mask.empty() && !model.keras2) continue;
    NodeSpec node;
    node.layer = model.layers.size();
    node.inputs = {inputs[i]};
    if (!mask.empty()) node.masks["mask"] = mask.mapped();
    node.own_masks = node.hands_mask = true;
    inputs[i] = model.nodes.size();
    model.layers.push_back({"Identity", layer, json::object()});
    model.nodes.push_back(std::move(node));
  }
  if (const std::string name = OtherArgument(rest); !name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("key \"", name, "\": is not supported as an argument of its call"));
  }
  return inputs;
}

absl::StatusOr<std::vector<NamedRef>> ReadEndpoints(const json& value) {
  std::vector<NamedRef> refs;
  if (const auto one = History(value)) return std::vector<NamedRef>{{"", *one}};
  const auto bad = absl::InvalidArgumentError("must be [layer, call, output], or several of these");
  if (!value.is_array() && !value.is_object()) return bad;
  for (const auto& [key, entry] : value.items()) {
    const auto ref = History(entry);
    if (!ref.has_value()) return bad;
    refs.push_back({value.is_object() ? key : "", *ref});
  }
  if (refs.empty()) return bad;
  return refs;
}

}  // namespace paracord
