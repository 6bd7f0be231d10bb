#include "worker/model/keras_calls.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/model/keras_json.h"

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

// ["dense", 0, 0], or longer.
std::optional<TensorRef> History(const json& value) {
  if (!value.is_array() || value.size() < 3 || !value[0].is_string() || !IsIndex(value[1]) ||
      !IsIndex(value[2])) {
    return std::nullopt;
  }
  return TensorRef{value[0].get<std::string>(), value[1].get<size_t>(), value[2].get<size_t>()};
}

// {"class_name": "__keras_tensor__", "config": {"keras_history": [...]}}
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

// Reads a tensor in either dialect's form.
class CallReader {
 public:
  explicit CallReader(bool keras2) : keras2_(keras2) {}

  json Args(const json& value) {
    if (const auto tensor = Tensor(value)) return Place(*tensor);
    if (!value.is_array()) return Plain(value);
    json list = json::array();
    for (const json& entry : value) list.push_back(Args(entry));
    return list;
  }
  absl::Status Kwargs(const json& kwargs) {
    if (keras2_) RETURN_IF_ERROR(Training(kwargs));
    // Data before everything else, in the order in which layers take it.
    static constexpr std::array<const char*, 10> kData{
        "inputs", "sequences", "query", "value", "key", "x", "x1", "y", "x2", "initial_state"};
    for (const char* name : kData) {
      const auto found = kwargs.find(name);
      if (found == kwargs.end() || found->is_null()) continue;
      call_.args.push_back(Args(*found));
    }
    for (const auto& [name, value] : kwargs.items()) {
      if (std::find(kData.begin(), kData.end(), name) != kData.end()) continue;
      if (name == "name" || name == "training") continue;
      if (const auto tensor = Tensor(value)) {
        call_.masks.emplace_back(name, *tensor);
      } else {
        call_.kwargs[name] = Plain(value);
      }
    }
    return absl::OkStatus();
  }
  CallSpec Take() { return std::move(call_); }
  CallSpec& call() { return call_; }
  json Place(const TensorRef& tensor) {
    call_.inputs.push_back(tensor);
    return {{kTensorKey, call_.inputs.size() - 1}};
  }

 private:
  absl::Status Training(const json& kwargs) {
    const auto training = kwargs.find("training");
    if (training == kwargs.end() || training->is_null()) return absl::OkStatus();
    if (!training->is_boolean() && !training->is_number()) {
      return Bad("training must be true, false or null");
    }
    call_.training = *training != false && *training != 0;
    return absl::OkStatus();
  }
  std::optional<TensorRef> Tensor(const json& value) const {
    return keras2_ ? History(value) : Keras3Tensor(value);
  }
  // Nobody may forge a tensor.
  static json Plain(const json& value) {
    return value.is_object() && value.contains(kTensorKey) ? json() : value;
  }

  const bool keras2_;
  CallSpec call_;
};

// A list of [layer, call, output, kwargs], or for an operation just one of these.
absl::StatusOr<CallSpec> ReadKeras2(const json& node) {
  CallReader reader(/*keras2=*/true);
  const bool one = !node.empty() && node[0].is_string();
  json tensors = json::array();
  const json* kwargs = nullptr;
  for (size_t i = 0; i < (one ? 1 : node.size()); ++i) {
    const json& entry = one ? node : node[i];
    const bool long_enough = entry.is_array() && entry.size() >= 3;
    if (long_enough && entry[0] == "_CONSTANT_VALUE") {
      tensors.push_back(entry[2]);
    } else if (const auto tensor = History(entry)) {
      tensors.push_back(reader.Place(*tensor));
    } else {
      return Bad("an entry must be [layer, call, output, kwargs]");
    }
    if (i == 0 && long_enough && entry.size() > 3 && entry[3].is_object()) kwargs = &entry[3];
  }
  // Of a merge layer, one argument that is a list.
  if (tensors.size() == 1) {
    reader.call().args.push_back(tensors[0]);
  } else {
    reader.call().args.push_back(tensors);
  }
  if (kwargs != nullptr) {
    if (kwargs->contains("slice_spec")) reader.call().args.push_back((*kwargs)["slice_spec"]);
    json rest = *kwargs;
    rest.erase("slice_spec");
    RETURN_IF_ERROR(reader.Kwargs(rest));
  }
  return reader.Take();
}

}  // namespace

absl::StatusOr<CallSpec> ReadCall(const json& node) {
  if (node.is_array()) return ReadKeras2(node);
  if (!node.is_object()) return Bad("an entry must be a list or an object");
  CallReader reader(/*keras2=*/false);
  const auto args = node.find("args");
  if (args != node.end()) {
    if (!args->is_array()) return Bad("args must be a list");
    for (const json& arg : *args) {
      json read = reader.Args(arg);
      reader.call().args.push_back(std::move(read));
    }
  }
  const auto kwargs = node.find("kwargs");
  if (kwargs != node.end() && kwargs->is_object()) RETURN_IF_ERROR(reader.Kwargs(*kwargs));
  return reader.Take();
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

std::string OperationOfKeras2(const std::string& function) {
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"math.add", "Add"},           {"__operators__.add", "Add"},
      {"math.subtract", "Subtract"}, {"math.multiply", "Multiply"},
      {"math.truediv", "Divide"},    {"math.divide", "Divide"},
      {"math.pow", "Power"},         {"math.negative", "Negative"},
      {"math.abs", "Absolute"},      {"math.exp", "Exp"},
      {"math.log", "Log"},           {"math.sqrt", "Sqrt"},
      {"math.square", "Square"},     {"math.maximum", "Maximum"},
      {"math.minimum", "Minimum"},   {"math.tanh", "Tanh"},
      {"math.sigmoid", "Sigmoid"},   {"nn.relu", "Relu"},
      {"nn.softmax", "Softmax"},     {"__operators__.getitem", "GetItem"},
  };
  for (const auto& [name, operation] : kNames) {
    if (function == name) return operation;
  }
  return "";
}

}  // namespace paracord
