// Tries every supported loss, metric and layer with every option of Keras. An option that differs
// from its default must be honoured or refused, and an unknown option refused.
#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "keras/build.h"
#include "keras/metrics.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

// Options of Keras' losses and metrics, with values that are never the default.
const std::vector<std::pair<std::string, json>> kOptions = {
    {"from_logits", true},
    {"label_smoothing", 0.25},
    {"axis", 1},
    {"ignore_class", 1},
    {"alpha", 0.5},
    {"gamma", 3},
    {"delta", 0.5},
    {"reduction", "sum"},
    {"reduction", "none"},
    {"dtype", "float64"},
    {"threshold", 0.25},
    {"thresholds", 0.25},
    {"thresholds", {0.1, 0.9}},
    {"k", 2},
    {"top_k", 1},
    {"class_id", 1},
    {"num_thresholds", 50},
    {"curve", "PR"},
    {"summation_method", "minoring"},
    {"multi_label", true},
    {"num_labels", 3},
    {"label_weights", {1, 2}},
    {"average", "weighted"},
    {"beta", 2},
    {"num_regressors", 1},
    {"apply_class_balancing", true},
    {"class_aggregation", "variance_weighted_average"},
    {"num_classes", 5},
    {"nonsense", 1},
    {"nonsense", false},
    {"nonsense", "none"}};

std::string Said(const LossSpec& loss) {
  return absl::StrCat(static_cast<int>(loss.kind), " ", loss.from_logits, loss.sum, " ",
                      loss.label_smoothing, " ", loss.delta, " ", loss.alpha, " ", loss.gamma, " ",
                      loss.balanced, " ", loss.ignore_class.value_or(-1));
}

std::string Said(const MetricSpec& metric) {
  std::string text =
      absl::StrCat(Said(metric.loss), " ", static_cast<int>(metric.kind), " ",
                   static_cast<int>(metric.state), " ", metric.threshold, " ", metric.by_argmax,
                   metric.logits, metric.by_label, " ", metric.k, " ", metric.points, " ",
                   metric.top_k.value_or(-1), " ", metric.class_id.value_or(-1));
  for (const double weight : metric.label_weights) absl::StrAppend(&text, " ", weight);
  return text;
}

// Resolves with class indices as targets or, if that fails, with targets shaped like the output.
template <class Resolve>
auto Resolved(const Resolve& resolve, const NamedSpec& spec) {
  auto result = resolve(spec, Shape{2}, Shape{});
  return result.ok() ? result : resolve(spec, Shape{2}, Shape{2});
}

template <class Resolve>
void Walk(const Resolve& resolve, const std::string& name, const json& needed) {
  const auto plain = Resolved(resolve, {name, needed});
  INFO(name << ": " << plain.status());
  REQUIRE(plain.ok());
  for (const auto& [option, value] : kOptions) {
    json options = needed;
    options[option] = value;
    const auto with = Resolved(resolve, {name, options});
    INFO(option << " " << value << ": " << with.status());
    if (with.ok()) {
      CHECK(Said(*with) != Said(*plain));
    } else {
      CHECK(absl::StrContains(with.status().message(), option));
    }
    if (option == "nonsense") CHECK_FALSE(with.ok());
  }
}

TEST_CASE("each option of each loss is honoured or refused by name") {
  for (const std::string_view name : LossNames()) {
    Walk(ResolveLoss, std::string(name), json::object());
  }
}

TEST_CASE("each option of each metric is honoured or refused by name") {
  std::vector<std::string> names = {"accuracy", "crossentropy"};
  for (const std::string_view loss : LossNames()) names.emplace_back(loss);
  // The error for an unknown metric lists the remaining names.
  const std::string unknown(ResolveMetric({"nonsense"}, {2}, {2}).status().message());
  const std::vector<std::string> listed =
      absl::StrSplit(unknown.substr(unknown.find("supported: ") + 11), ", ");
  CHECK(listed.size() > 30);
  names.insert(names.end(), listed.begin(), listed.end());
  for (const std::string& name : names) {
    const bool f1 = name == "f1_score";
    Walk(ResolveMetric, name, f1 ? json{{"average", "macro"}} : json::object());
  }
}

// Returns the mandatory options of a layer.
json Needed(const std::string& name) {
  const json dense = LayerJson("Dense", {{"name", "d"}, {"units", 2}});
  if (absl::StrContains(name, "Conv") && absl::StartsWith(name, "Depthwise")) {
    return {{"kernel_size", 1}};
  }
  if (absl::StrContains(name, "Conv")) return {{"filters", 2}, {"kernel_size", 1}};
  if (name == "Activation") return {{"activation", "relu"}};
  if (name == "Dense" || name == "LSTM" || name == "GRU" || name == "SimpleRNN") {
    return {{"units", 2}};
  }
  if (name == "EinsumDense") return {{"equation", "ab,bc->ac"}, {"output_shape", 2}};
  if (name == "Embedding") return {{"input_dim", 3}, {"output_dim", 2}};
  if (name == "MultiHeadAttention") return {{"num_heads", 1}, {"key_dim", 2}};
  if (name == "Dot") return {{"axes", 1}};
  if (name == "Permute") return {{"dims", {1}}};
  if (name == "Reshape") return {{"target_shape", {-1}}};
  if (name == "RepeatVector") return {{"n", 2}};
  if (name == "Rescaling") return {{"scale", 1}};
  if (name == "Resizing" || name == "CenterCrop" || name == "RandomCrop") {
    return {{"height", 2}, {"width", 2}};
  }
  if (name == "RandomTranslation") return {{"height_factor", 0.1}, {"width_factor", 0.1}};
  if (name == "RandomZoom") return {{"height_factor", 0.1}};
  if (absl::StartsWith(name, "Random")) return {{"factor", 0.1}};
  if (absl::StrContains(name, "Dropout")) return {{"rate", 0.1}};
  if (name == "GaussianNoise") return {{"stddev", 0.1}};
  if (name == "TimeDistributed") return {{"layer", dense}};
  if (name == "Bidirectional") {
    return {{"layer", LayerJson("LSTM", {{"name", "l"}, {"units", 2}})}};
  }
  return json::object();
}

TEST_CASE("an option that a layer does not know is refused by name") {
  const auto problem = [](const std::string& name, const json& config) {
    const absl::Status status =
        CheckKerasModel(JobFor(SequentialJson({LayerJson(name, config)}), "mse"), TestOps());
    return std::string(status.message());
  };
  const std::string unknown = problem("Nonsense", json::object());
  const size_t list = unknown.find("supported: ");
  REQUIRE(list != std::string::npos);
  std::vector<std::string> names = absl::StrSplit(unknown.substr(list + 11), ", ");
  CHECK(names.size() > 80);
  size_t looked_at = 0;
  for (const char* key : {"nonsense_regularizer", "nonsense_constraint"}) {
    CHECK(absl::StrContains(problem("Dense", {{"name", "x"}, {"units", 2}, {key, "l2"}}), key));
  }
  for (std::string& name : names) {
    name = name.substr(0, name.find_first_of("\n; "));
    json config = Needed(name);
    config["name"] = "x";
    config["nonsense"] = 7;
    const std::string said = problem(name, config);
    INFO(name << ": " << said);
    // Some layers report another problem first, such as a missing vocabulary.
    const bool named = absl::StrContains(said, "nonsense");
    if (named) ++looked_at;
    CHECK((named || absl::StrContains(said, "key \"") || absl::StrContains(said, "vocabulary")));
  }
  CHECK(looked_at >= 70);
}

}  // namespace
}  // namespace paracord
