#include "config/stop_when.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "config/named_spec.h"
#include "config/nearest.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kEvaluationsMax = uint64_t{1} << 48;

// Decides as Keras' EarlyStopping does in its mode "auto".
bool LargerIsBetter(std::string_view metric) {
  static constexpr std::string_view kLarger[] = {
      "acc",           "auc",      "precision",         "recall",
      "f1_score",      "r2_score", "cosine_similarity", "true_positives",
      "true_negatives"};
  return metric.ends_with("accuracy") ||
         std::find(std::begin(kLarger), std::end(kLarger), metric) != std::end(kLarger);
}

void ReadLimits(uint64_t every_epochs, JsonFields& fields, StopWhen& stop, Problems& problems) {
  for (auto [key, limit] :
       {std::pair("at_least", &stop.at_least), std::pair("at_most", &stop.at_most)}) {
    if (fields.FindValue(key) != nullptr)
      fields.Number(key, -kAnyNumber, kAnyNumber, limit->emplace());
  }
  if (fields.FindValue("patience") != nullptr) {
    fields.Integer("patience", 0, kEvaluationsMax, stop.patience.emplace());
    if (every_epochs == 0) {
      fields.Problem("patience", "counts evaluations, of which `evaluate.every_epochs` 0 has none");
    }
  }
  fields.Number("min_delta", 0, kAnyNumber, stop.min_delta);
  fields.Bool("restore_best", stop.restore_best);
  const bool limited = stop.at_least.has_value() || stop.at_most.has_value();
  if (stop.at_least.has_value() && stop.at_most.has_value()) {
    problems.Add("stop_when", "needs one of `at_least` and `at_most`, not both");
  } else if (!limited && !stop.patience.has_value() && !stop.restore_best) {
    problems.Add("stop_when", "needs one of `at_least`, `at_most`, `patience` and `restore_best`");
  }
  if (stop.min_delta > 0 && !stop.patience.has_value() && !stop.restore_best) {
    fields.Problem("min_delta", "applies only with `patience` or `restore_best`");
  }
}

}  // namespace

std::optional<StopWhen> ReadStopWhen(const json& value, const std::vector<NamedSpec>& metrics,
                                     uint64_t every_epochs, Problems& problems) {
  JsonFields fields(value, "stop_when", problems);
  if (!value.is_object()) return std::nullopt;
  StopWhen stop;
  if (fields.Find("metric") == nullptr) fields.Problem("metric", "is missing");
  fields.String("metric", stop.metric);
  stop.metric = KerasName(NamedKind::kMetric, stop.metric);
  ReadLimits(every_epochs, fields, stop, problems);
  static constexpr std::string_view kModes[] = {"min", "max"};
  std::string mode;
  if (fields.FindValue("mode") != nullptr) fields.OneOf("mode", kModes, mode);
  fields.ReportUnknown();
  const auto found = std::find_if(metrics.begin(), metrics.end(), [&](const auto& metric) {
    const auto own = metric.options.find("label");
    // A score of a model with several outputs is called "<output>_<metric>".
    return stop.metric == metric.name || stop.metric.ends_with("_" + metric.name) ||
           (own != metric.options.end() && *own == stop.metric);
  });
  const bool known = stop.metric == "loss" || found != metrics.end();
  stop.larger_is_better =
      mode.empty() ? found != metrics.end() && LargerIsBetter(found->name) : mode == "max";
  if (!stop.metric.empty() && !known) {
    std::vector<std::string_view> names = {"loss"};
    for (const NamedSpec& metric : metrics) names.push_back(metric.name);
    fields.Problem("metric",
                   absl::StrCat("`", stop.metric, "` is neither \"loss\" nor in `metrics`",
                                NearestHint(stop.metric, names)));
  }
  return known ? std::optional(std::move(stop)) : std::nullopt;
}

}  // namespace paracord
