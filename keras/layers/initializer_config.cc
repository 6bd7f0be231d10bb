// Reads the initializers of model files.
#include "keras/layers/initializer_config.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "config/keras_class.h"
#include "config/nearest.h"
#include "keras/layers/layer_config.h"
#include "keras/layers/number_array.h"

namespace paracord {
namespace {

using nlohmann::json;

struct NamedInitializer {
  std::string_view class_name, name;
  std::vector<std::string_view> options;
};

const std::vector<NamedInitializer>& Initializers() {
  static const auto* all = new std::vector<NamedInitializer>{
      {"Zeros", "zeros", {}},
      {"Ones", "ones", {}},
      {"Constant", "constant", {"value"}},
      {"RandomNormal", "random_normal", {"mean", "stddev"}},
      {"RandomUniform", "random_uniform", {"minval", "maxval"}},
      {"TruncatedNormal", "truncated_normal", {"mean", "stddev"}},
      {"GlorotUniform", "glorot_uniform", {}},
      {"GlorotNormal", "glorot_normal", {}},
      {"HeUniform", "he_uniform", {}},
      {"HeNormal", "he_normal", {}},
      {"LecunUniform", "lecun_uniform", {}},
      {"LecunNormal", "lecun_normal", {}},
      {"Orthogonal", "orthogonal", {"gain"}},
      {"OrthogonalInitializer", "orthogonal", {"gain"}},
      {"Identity", "identity", {"gain"}},
      {"VarianceScaling", "variance_scaling", {"scale", "mode", "distribution"}},
  };
  return *all;
}

// The numeric value of an option. VarianceScaling's words are numbered as Initializer.options says.
std::optional<double> InitializerOption(absl::string_view option, const json& value) {
  if (value.is_number()) return value.get<double>();
  if (option == "value") {  // for Constant; Keras broadcasts the value
    const json* const array = ArrayValue(value);
    const auto numbers = ReadNumberArray(array == nullptr ? value : *array);
    if (!numbers.has_value() || numbers->values.size() != 1) return std::nullopt;
    return static_cast<double>(numbers->values[0]);
  }
  if (!value.is_string()) return std::nullopt;
  struct Word {
    absl::string_view option, word;
    double number;
  };
  constexpr Word kWords[] = {
      {"mode", "fan_in", 0},
      {"mode", "fan_out", 1},
      {"mode", "fan_avg", 2},
      {"distribution", "truncated_normal", 0},
      {"distribution", "normal", 0},  // an old name of truncated_normal
      {"distribution", "untruncated_normal", 1},
      {"distribution", "uniform", 2},
  };
  for (const Word& each : kWords) {
    if (each.option == option && each.word == value.get<std::string>()) return each.number;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Initializer> ReadInitializer(const json& value) {
  const std::string wanted = value.is_string()   ? value.get<std::string>()
                             : value.is_object() ? KerasClass(value)
                                                 : "";
  const json none = json::object();
  const bool has_config =
      value.is_object() && value.contains("config") && value["config"].is_object();
  const json& config = has_config ? value["config"] : none;
  std::vector<std::string_view> known;
  for (const NamedInitializer& entry : Initializers()) {
    known.push_back(entry.class_name);
    const bool by_old_name = (wanted == "uniform" && entry.name == "random_uniform") ||
                             (wanted == "normal" && entry.name == "random_normal");
    if (wanted != entry.class_name && wanted != entry.name && !by_old_name) continue;
    Initializer result;
    result.set_name(std::string(entry.name));
    for (const auto& [key, option] : config.items()) {
      // Ignored: the job's seed decides, to make the values independent of who draws them.
      if (key == "seed" || key == "dtype" || option.is_null()) continue;
      const bool has =
          std::find(entry.options.begin(), entry.options.end(), key) != entry.options.end();
      const auto number = has ? InitializerOption(key, option) : std::nullopt;
      if (!number) {
        return absl::InvalidArgumentError(absl::StrCat("option \"", key, "\" of ", wanted, ": ",
                                                       Shown(option), " is not supported"));
      }
      (*result.mutable_options())[key] = *number;
    }
    return result;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "initializer ", Shown(value), " is not supported; supported: ", JoinNames(known)));
}

Initializer WithFans(Initializer initializer, int64_t in, int64_t out) {
  for (const char* scaled : {"glorot_", "he_", "lecun_", "variance_scaling"}) {
    if (!initializer.name().starts_with(scaled)) continue;
    (*initializer.mutable_options())["fan_in"] = static_cast<double>(in);
    (*initializer.mutable_options())["fan_out"] = static_cast<double>(out);
  }
  return initializer;
}

}  // namespace paracord
