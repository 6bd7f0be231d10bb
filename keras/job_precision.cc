#include "keras/job_precision.h"

#include <set>

namespace paracord {
namespace {

using nlohmann::json;

bool IsFloat32(const json& policy) {
  if (policy.is_null() || policy == "float32") return true;
  const auto config = policy.find("config");
  return policy.is_object() && config != policy.end() && config->is_object() &&
         config->value("name", json()) == "float32";
}

// Sets the policy of a layer and of its wrapped layers.
void SetPolicy(const char* policy, json& config) {
  if (!config.is_object()) return;
  if (IsFloat32(config["dtype"])) config["dtype"] = policy;
  for (const char* key : {"layer", "backward_layer"}) {
    const auto wrapped = config.find(key);
    if (wrapped == config.end() || !wrapped->is_object() || !wrapped->contains("config")) continue;
    SetPolicy(policy, (*wrapped)["config"]);
  }
}

}  // namespace

void ApplyPrecision(const std::string& precision, ModelSpec& model) {
  model.tf32 = precision == "tf32";
  if (precision != "bf16" && precision != "fp16") return;
  std::set<size_t> last;
  for (const Endpoint& output : model.outputs) last.insert(model.nodes[output.node].layer);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    LayerSpec& layer = model.layers[i];
    if (layer.operation || layer.unusable || layer.class_name == kInputLayer) continue;
    if (last.count(i) == 0) {
      SetPolicy(precision == "bf16" ? "mixed_bfloat16" : "mixed_float16", layer.config);
    }
  }
}

}  // namespace paracord
