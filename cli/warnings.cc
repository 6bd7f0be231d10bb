#include "cli/warnings.h"

#include "absl/strings/str_cat.h"
#include "config/json_fields.h"
#include "config/named_spec.h"
#include "keras/json.h"
#include "keras/layers/layer_config.h"
#include "keras/output_doubts.h"

namespace paracord {
namespace {

// With less than these a healthy but busy process counts as lost.
constexpr int64_t kSilenceMs = 100;
constexpr int64_t kStartS = 2;
constexpr int64_t kOrphanMs = 1000;

void CheckTimeouts(const TimeoutsSpec& timeouts, Problems& warnings) {
  const auto check = [&](const char* key, int64_t value, int64_t least, const char* why) {
    if (value >= least) return;
    warnings.Add(absl::StrCat("timeouts.", key),
                 absl::StrCat("is ", value, ", less than ", least, ": ", why));
  };
  check("worker_ms", timeouts.worker_ms, kSilenceMs, "workers that are only busy count as lost");
  check("ps_ms", timeouts.ps_ms, kSilenceMs, "calls end before a ps that is only busy answers");
  check("start_s", timeouts.start_s, kStartS, "processes hardly start so fast");
  check("orphan_ms", timeouts.orphan_ms, kOrphanMs,
        "processes leave before a coordinator can be started again");
}

// Warns if the model's file has another batch size than the job; the job's counts.
void CheckBatchShapes(const ModelSpec& model, const Job& job, Problems& warnings) {
  for (const Endpoint& input : model.inputs) {
    const LayerSpec& layer = model.layers[model.nodes[input.node].layer];
    for (const char* key : {"batch_shape", "batch_input_shape"}) {
      const auto shape = layer.config.find(key);
      if (shape == layer.config.end() || !shape->is_array() || shape->empty()) continue;
      const nlohmann::json& batch = shape->front();
      if (!batch.is_number_integer() || batch == job.batch) continue;
      warnings.Add(LayerTitle(layer.class_name, layer.name),
                   absl::StrCat("key \"", key, "\" is for batches of ", batch.dump(),
                                ", but the job's batch is ", job.batch, ", which counts"));
    }
  }
}

// Warns of a Normalization layer without statistics: Keras keeps what adapt() learnt in the
// weights, not in the model's file.
void CheckStatistics(const ModelSpec& model, const Job& job, Problems& warnings) {
  if (job.initial_weights.file.has_value()) return;
  for (const LayerSpec& layer : model.layers) {
    if (layer.class_name != "Normalization") continue;
    const auto mean = layer.config.find("mean");
    if (mean != layer.config.end() && !mean->is_null()) continue;
    warnings.Add(LayerTitle(layer.class_name, layer.name),
                 "has mean 0 and variance 1: Keras leaves what adapt() learnt out of the file, so "
                 "give it in initial_weights, or mean= and variance= where the layer is made");
  }
}

// Warns of `scale` 0 in the options of data, and in those of each source of a mix.
void CheckScale(const std::string& path, const nlohmann::json& options, Problems& warnings) {
  if (!options.is_object()) return;
  const auto scale = options.find("scale");
  if (scale != options.end() && scale->is_number() && *scale == 0) {
    warnings.Add(path + ".scale", "is 0: every feature becomes 0");
  }
  const auto mix = options.find("mix");
  if (mix == options.end() || !mix->is_array()) return;
  for (size_t i = 0; i < mix->size(); ++i) {
    CheckScale(absl::StrCat(path, ".mix[", i, "]"), (*mix)[i], warnings);
  }
}

void CheckMetrics(const std::vector<NamedSpec>& metrics, Problems& warnings) {
  for (size_t i = 0; i < metrics.size(); ++i) {
    for (size_t before = 0; before < i; ++before) {
      if (NamedSpecToJson(metrics[before]) != NamedSpecToJson(metrics[i])) continue;
      warnings.Add("metrics",
                   absl::StrCat("has ", metrics[i].name, " twice, with the same options"));
      break;
    }
  }
}

}  // namespace

std::vector<std::string> JobWarnings(const Job& job) {
  Problems warnings;
  CheckTimeouts(job.timeouts, warnings);
  CheckScale("data.train", job.train.options, warnings);
  if (job.test.has_value()) CheckScale("data.test", job.test->options, warnings);
  CheckMetrics(job.metrics, warnings);
  const auto rate = job.optimizer.options.find("learning_rate");
  if (rate != job.optimizer.options.end() && rate->is_number() && *rate == 0) {
    warnings.Add("optimizer.learning_rate", "is 0: nothing will be learnt");
  }
  if (const auto model = ReadKerasModel(job.model); model.ok()) {
    CheckBatchShapes(*model, job, warnings);
    CheckStatistics(*model, job, warnings);
    for (const std::string& doubt : OutputDoubts(job, *model)) warnings.Add("", doubt);
  }
  return warnings.lines();
}

}  // namespace paracord
