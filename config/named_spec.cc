#include "config/named_spec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "config/keras_class.h"

namespace paracord {
namespace {

using nlohmann::json;

struct Alias {
  std::string_view alias;
  std::string_view name;
};

// The aliases of keras/src/losses/__init__.py and metrics/__init__.py, in lower case.
constexpr Alias kAliases[] = {
    {"mse", "mean_squared_error"},
    {"mae", "mean_absolute_error"},
    {"mape", "mean_absolute_percentage_error"},
    {"msle", "mean_squared_logarithmic_error"},
    {"bce", "binary_crossentropy"},
    {"kld", "kl_divergence"},
    {"kullback_leibler_divergence", "kl_divergence"},
    {"log_cosh_error", "log_cosh"},
    {"logcosh", "log_cosh"},
    {"acc", "accuracy"},
    {"rmse", "root_mean_squared_error"},
};

// "TopKCategoricalAccuracy" -> "top_k_categorical_accuracy", "KLDivergence" -> "kl_divergence".
std::string SnakeCase(std::string_view name) {
  std::string snake;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool upper = absl::ascii_isupper(static_cast<unsigned char>(name[i]));
    if (upper && i > 0 && name[i - 1] != '_') {
      const bool after_upper = absl::ascii_isupper(static_cast<unsigned char>(name[i - 1]));
      const bool before_lower =
          i + 1 < name.size() && absl::ascii_islower(static_cast<unsigned char>(name[i + 1]));
      if (!after_upper || before_lower) snake += '_';
    }
    snake += absl::ascii_tolower(static_cast<unsigned char>(name[i]));
  }
  return snake;
}

// Whether Keras writes this option for every object of a kind and its value changes nothing.
bool IsOff(const std::string& key, const json& config) {
  static constexpr std::string_view kAlwaysOff[] = {"name", "dtype", "trainable"};
  for (std::string_view off : kAlwaysOff) {
    if (key == off) return true;
  }
  const json& value = config.at(key);
  if (value.is_null()) return key != "class_aggregation";  // null there: a score for each column
  const bool average = config.contains("use_ema") && config.at("use_ema") == true;
  // These two options mark a config of Keras 2, whose averages differ from Keras 3.
  if (!average && key == "is_legacy_optimizer") return value == false;
  return !average && (key == "use_ema" || key == "ema_momentum" ||
                      key == "ema_overwrite_frequency" || key == "jit_compile");
}

std::optional<NamedSpec> ReadKerasObject(NamedKind kind, const json& object,
                                         const std::string& path, Problems& problems);

// Gives an option that is a Keras object (a learning rate schedule) the job's own form.
json PlainOption(const json& value, const std::string& path, Problems& problems) {
  if (!value.is_object() || !value.contains("class_name")) {
    if (!value.is_object() || !value.contains("name") || !value["name"].is_string()) return value;
    json named = value;
    named["name"] = KerasName(NamedKind::kSchedule, value["name"].get<std::string>());
    return named;
  }
  const std::optional<NamedSpec> spec =
      ReadKerasObject(NamedKind::kSchedule, value, path, problems);
  return spec ? NamedSpecToJson(*spec) : json();
}

// Reads {"class_name": "Adam", "config": {...}, "module": ..., "registered_name": ...}, or a
// function: {"class_name": "function", "config": "mse"}.
std::optional<NamedSpec> ReadKerasObject(NamedKind kind, const json& object,
                                         const std::string& path, Problems& problems) {
  JsonFields fields(object, path, problems);
  std::string class_name;
  fields.String("class_name", class_name);
  // Keras has no perplexity, so a class of this name is the user's own; it is read as ours.
  if (!class_name.empty() && SnakeCase(class_name) != "perplexity") class_name = KerasClass(object);
  const json* config = fields.FindValue("config");
  for (const char* skipped :
       {"module", "registered_name", "build_config", "shared_object_id", "compile_config"}) {
    fields.Find(skipped);
  }
  fields.ReportUnknown();
  if (class_name.empty()) return std::nullopt;
  if (class_name == "function" && config != nullptr && config->is_string()) {
    return NamedSpec{KerasName(kind, config->get<std::string>()), json::object()};
  }
  NamedSpec spec{KerasName(kind, class_name), json::object()};
  if (config == nullptr) return spec;
  if (!config->is_object()) {
    fields.Problem("config", absl::StrCat("must be an object, is ", JsonExcerpt(*config)));
    return std::nullopt;
  }
  // A loss scale keeps float16 gradients from underflowing. Our gradients are float32: it is
  // dropped.
  const auto inner = config->find("inner_optimizer");
  if (spec.name == "lossscaleoptimizer" && inner != config->end() && !inner->is_null()) {
    return ReadNamedSpec(kind, *inner, path + ".config.inner_optimizer", problems);
  }
  // The "name" of a metric names its score.
  const auto own = config->find("name");
  if (kind == NamedKind::kMetric && own != config->end() && own->is_string() &&
      KerasName(kind, own->get<std::string>()) != spec.name) {
    spec.options["label"] = *own;
  }
  for (const auto& [key, value] : config->items()) {
    if (IsOff(key, *config)) continue;
    spec.options[key] = PlainOption(value, absl::StrCat(path, ".config.", key), problems);
  }
  return spec;
}

// Whether an object maps outputs to specs, rather than being one of the forms of a spec.
bool IsByOutput(const json& value) {
  return value.is_object() && !value.empty() && !value.contains("class_name") &&
         !value.contains("name");
}

void AddSpecs(NamedKind kind, const json& value, const std::string& path, const std::string& output,
              std::vector<NamedSpec>& specs, Problems& problems) {
  if (value.is_null()) return;
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      AddSpecs(kind, value[i], absl::StrCat(path, "[", i, "]"), output, specs, problems);
    }
    return;
  }
  std::optional<NamedSpec> spec = ReadNamedSpec(kind, value, path, problems);
  if (!spec) return;
  if (spec->output.empty()) spec->output = output;
  specs.push_back(*std::move(spec));
}

}  // namespace

std::string KerasName(NamedKind kind, std::string_view name) {
  if (kind == NamedKind::kOptimizer) return absl::AsciiStrToLower(std::string(name));
  std::string snake = SnakeCase(name);
  if (kind == NamedKind::kSchedule) return snake;
  const std::string lower = absl::AsciiStrToLower(std::string(name));
  for (const Alias& alias : kAliases) {
    if (lower == alias.alias || snake == alias.alias) return std::string(alias.name);
  }
  return snake;
}

std::optional<NamedSpec> ReadNamedSpec(NamedKind kind, const json& value, const std::string& path,
                                       Problems& problems) {
  if (value.is_string() && !value.get_ref<const std::string&>().empty()) {
    return NamedSpec{KerasName(kind, value.get<std::string>()), json::object()};
  }
  if (!value.is_object()) {
    problems.Add(
        path, absl::StrCat("must be a name or an object with \"name\", is ", JsonExcerpt(value)));
    return std::nullopt;
  }
  if (value.contains("class_name")) return ReadKerasObject(kind, value, path, problems);
  JsonFields fields(value, path, problems);
  std::string name;
  if (fields.Find("name") == nullptr) fields.Problem("name", "is missing");
  fields.String("name", name);
  if (name.empty()) return std::nullopt;
  NamedSpec spec{KerasName(kind, name), json::object()};
  if (fields.FindValue("output") != nullptr) fields.String("output", spec.output);
  if (fields.FindValue("weighted") != nullptr) fields.Bool("weighted", spec.weighted);
  for (const auto& [key, option] : value.items()) {
    if (key == "name" || key == "output" || key == "weighted") continue;
    if (option.is_null() && key != "class_aggregation") continue;
    spec.options[key] = PlainOption(option, absl::StrCat(path, ".", key), problems);
  }
  return spec;
}

std::vector<NamedSpec> ReadByOutput(NamedKind kind, const json& value, const std::string& path,
                                    Problems& problems) {
  std::vector<NamedSpec> specs;
  if (IsByOutput(value)) {
    for (const auto& [output, entry] : value.items()) {
      AddSpecs(kind, entry, absl::StrCat(path, ".", output), output, specs, problems);
    }
    return specs;
  }
  // A list of several losses is by output; a single loss is for all outputs. A list of metrics is
  // by output if an entry is a list or null; otherwise the caller, which knows the number of
  // outputs, decides.
  const auto nests = [](const json& entry) { return entry.is_array() || entry.is_null(); };
  const bool nested = value.is_array() &&
                      (kind == NamedKind::kLoss ? value.size() > 1
                                                : std::any_of(value.begin(), value.end(), nests));
  if (!nested) {
    AddSpecs(kind, value, path, "", specs, problems);
    return specs;
  }
  for (size_t i = 0; i < value.size(); ++i) {
    AddSpecs(kind, value[i], absl::StrCat(path, "[", i, "]"), absl::StrCat("#", i), specs,
             problems);
  }
  return specs;
}

std::map<std::string, double> ReadNumbersByOutput(const json& value, const std::string& path,
                                                  Problems& problems) {
  std::map<std::string, double> numbers;
  if (!value.is_structured()) {
    problems.Add(path, absl::StrCat("must be a list or an object, is ", JsonExcerpt(value)));
    return numbers;
  }
  for (const auto& [key, entry] : value.items()) {
    if (entry.is_null()) continue;
    if (!entry.is_number()) {
      problems.Add(absl::StrCat(path, ".", key), "must be a number");
      continue;
    }
    numbers[value.is_array() ? absl::StrCat("#", key) : key] = entry.get<double>();
  }
  return numbers;
}

json NamedSpecToJson(const NamedSpec& spec) {
  json object = spec.options;
  object["name"] = spec.name;
  if (!spec.output.empty()) object["output"] = spec.output;
  if (spec.weighted) object["weighted"] = true;
  return object;
}

CompileConfig ReadCompileConfig(const json& model, Problems& problems) {
  CompileConfig result;
  if (!model.is_object() || !model.contains("compile_config")) return result;
  const json& config = model["compile_config"];
  if (config.is_null() || config.empty()) return result;
  const std::string base = "model.compile_config";
  JsonFields fields(config, base, problems);
  if (const json* optimizer = fields.FindValue("optimizer")) {
    result.optimizer =
        ReadNamedSpec(NamedKind::kOptimizer, *optimizer, base + ".optimizer", problems);
  }
  if (const json* loss = fields.FindValue("loss")) {
    result.losses = ReadByOutput(NamedKind::kLoss, *loss, base + ".loss", problems);
  }
  if (const json* weights = fields.FindValue("loss_weights")) {
    result.loss_weights = ReadNumbersByOutput(*weights, base + ".loss_weights", problems);
  }
  for (const char* key : {"metrics", "weighted_metrics"}) {
    const json* metrics = fields.FindValue(key);
    if (metrics == nullptr) continue;
    if (!result.metrics) result.metrics.emplace();
    for (NamedSpec& metric :
         ReadByOutput(NamedKind::kMetric, *metrics, absl::StrCat(base, ".", key), problems)) {
      metric.weighted = std::string_view(key) == "weighted_metrics";
      result.metrics->push_back(std::move(metric));
    }
  }
  return result;
}

}  // namespace paracord
