#include "keras/layers/layer_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "config/keras_class.h"
#include "config/nearest.h"
#include "config/unknown_name.h"
#include "keras/layers/initializer_config.h"

namespace paracord {
namespace {

using nlohmann::json;

struct NamedActivation {
  std::string_view name;
  Activation activation;
};

constexpr float kUnbounded = std::numeric_limits<float>::infinity();

constexpr NamedActivation kActivations[] = {
    {"linear", {ActivationKind::kLinear}},
    {"relu", {ActivationKind::kRelu}},
    {"relu6", {ActivationKind::kReluGeneral, 0, 6, 0}},
    {"leaky_relu", {ActivationKind::kLeakyRelu, 0.2f}},
    {"elu", {ActivationKind::kElu, 1}},
    {"selu", {ActivationKind::kSelu}},
    {"celu", {ActivationKind::kCelu, 1}},
    {"sigmoid", {ActivationKind::kSigmoid}},
    {"hard_sigmoid", {ActivationKind::kHardSigmoid, 1.f / 6}},
    {"log_sigmoid", {ActivationKind::kLogSigmoid}},
    {"sparse_sigmoid", {ActivationKind::kSparseSigmoid}},
    {"tanh", {ActivationKind::kTanh}},
    {"hard_tanh", {ActivationKind::kHardTanh}},
    {"tanh_shrink", {ActivationKind::kTanhShrink}},
    {"soft_shrink", {ActivationKind::kSoftShrink, 0.5f}},
    {"hard_shrink", {ActivationKind::kHardShrink, 0.5f}},
    {"softplus", {ActivationKind::kSoftplus}},
    {"sparse_plus", {ActivationKind::kSparsePlus}},
    {"squareplus", {ActivationKind::kSquareplus, 4}},
    {"softsign", {ActivationKind::kSoftsign}},
    {"exponential", {ActivationKind::kExponential}},
    {"silu", {ActivationKind::kSilu}},
    {"swish", {ActivationKind::kSilu}},
    {"hard_silu", {ActivationKind::kHardSilu}},
    {"hard_swish", {ActivationKind::kHardSilu}},
    {"mish", {ActivationKind::kMish}},
    {"gelu", {ActivationKind::kGelu}},
    {"gelu_tanh", {ActivationKind::kGeluTanh}},
    {"glu", {ActivationKind::kGlu}},
    {"softmax", {ActivationKind::kSoftmax}},
    {"sparsemax", {ActivationKind::kSparsemax}},
    {"log_softmax", {ActivationKind::kLogSoftmax}},
    {"identity", {ActivationKind::kLinear}},
};

// True for values that switch a key off, whatever the key means.
bool IsOff(const json& value) {
  return value.is_null() || value == json(false) || value == json("none") ||
         ((value.is_array() || value.is_object()) && value.empty());
}

// The config of an activation given as an object, such as {"class_name": "LeakyReLU", "config":
// {"negative_slope": 0.1}}; null if missing.
const json* ConfigOf(const json& object) {
  const auto config = object.find("config");
  return config != object.end() && config->is_object() ? &*config : nullptr;
}

double NumberIn(const json* config, const char* key, double fallback) {
  if (config == nullptr) return fallback;
  const auto value = config->find(key);
  return value != config->end() && value->is_number() ? value->get<double>() : fallback;
}

// The variable affected by a key: recurrent_kernel for "recurrent_regularizer". Keras 3 calls the
// only kernel of a DepthwiseConv2D kernel.
std::string VariableOf(const LayerConfig& config, const std::string& key, std::string_view suffix) {
  std::string variable = key.substr(0, key.size() - suffix.size());
  if (variable == "depthwise" && !config.keras2() &&
      config.class_name().starts_with("DepthwiseConv")) {
    return "kernel";
  }
  if (variable == "recurrent" || variable == "depthwise" || variable == "pointwise") {
    variable += "_kernel";
  }
  return variable;
}

}  // namespace

std::string Shown(const json& value) {
  if (value.is_number()) return PythonTextOf(value);
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

std::vector<int64_t> AxesOf(const json& value) {
  std::vector<int64_t> axes;
  for (const json& axis : value.is_array() ? value : json::array({value})) {
    if (!axis.is_number_integer() || std::abs(axis.get<double>()) > 1000) return {};
    axes.push_back(axis.get<int64_t>());
  }
  return axes;
}

std::string LayerTitle(absl::string_view class_name, absl::string_view name) {
  return absl::StrCat("layer \"", name, "\" (", class_name, ")");
}

bool FindActivation(const std::string& name, bool keras2, Activation& activation) {
  for (const NamedActivation& known : kActivations) {
    if (known.name != name) continue;
    activation = known.activation;
    if (keras2 && activation.kind == ActivationKind::kHardSigmoid) activation.alpha = 0.2f;
    return true;
  }
  return false;
}

LayerConfig::LayerConfig(std::string class_name, std::string name, const json& config, bool keras2)
    : class_name_(std::move(class_name)), name_(std::move(name)), config_(config), keras2_(keras2) {
  for (const char* key : {"name", "batch_input_shape", "build_config", "shared_object_id"}) {
    Ignore(key);
  }
  trainable_ = Flag("trainable", true);
  CheckDType();
  ReadRegularizers();
}

bool LayerConfig::Has(absl::string_view key) const {
  const auto value = config_.find(key);
  return value != config_.end() && !value->is_null();
}

const json* LayerConfig::Find(absl::string_view key) {
  Ignore(key);
  const auto value = config_.find(key);
  return value == config_.end() || value->is_null() ? nullptr : &*value;
}

void LayerConfig::Fail(absl::string_view key, absl::string_view what) {
  if (!error_.ok()) return;
  error_ = absl::InvalidArgumentError(
      absl::StrCat(LayerTitle(class_name_, name_), ": key \"", key, "\": ", what));
}

void LayerConfig::CheckDType() {
  const json* dtype = Find("dtype");
  // Masks are bool, and a Cast states its own type. Ones and zeros are equal in every type.
  const bool any = class_name_ == "InputLayer" || class_name_.ends_with("sLike") ||
                   class_name_ == "Cast" || class_name_ == "OneHot" ||
                   class_name_ == "SequenceMask";
  if (dtype == nullptr || any) return;
  const json* name = dtype;
  if (dtype->is_object()) {
    const json* config = ConfigOf(*dtype);
    name = config != nullptr && config->contains("name") ? &(*config)["name"] : dtype;
  }
  if (*name == "mixed_bfloat16") {
    operands_ = Operands::kBfloat16;
  } else if (*name == "mixed_float16") {
    operands_ = Operands::kFloat16;
  } else if (*name != "float32") {
    Fail("dtype", absl::StrCat(Shown(*name),
                               " is not supported; supported: \"float32\", "
                               "\"mixed_bfloat16\", \"mixed_float16\""));
  }
}

double LayerConfig::Number(absl::string_view key, double fallback) {
  const json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_number() && std::isfinite(value->get<double>())) return value->get<double>();
  Fail(key, absl::StrCat("must be a number, not ", Shown(*value)));
  return fallback;
}

double LayerConfig::Bound(absl::string_view key, double fallback) {
  const json* value = Find(key);
  const bool infinite = value != nullptr && value->is_number() && std::isinf(value->get<double>());
  return infinite ? value->get<double>() : Number(key, fallback);
}

int64_t LayerConfig::Integer(absl::string_view key, int64_t fallback, int64_t least,
                             int64_t named_most) {
  const json* value = Find(key);
  if (value == nullptr) return fallback;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const bool whole = value->is_number_integer();
  if (whole && value->get<double>() > static_cast<double>(kMost)) {
    Fail(key, absl::StrCat("must be at most ", named_most, ", not ", Shown(*value)));
    return fallback;
  }
  if (!whole || value->get<int64_t>() < least) {
    Fail(key, absl::StrCat("must be a whole number of at least ", least, ", not ", Shown(*value)));
    return fallback;
  }
  return value->get<int64_t>();
}

int64_t LayerConfig::RequiredInteger(absl::string_view key, int64_t least, int64_t named_most) {
  if (!Has(key)) Fail(key, "is missing");
  return Integer(key, least, least, named_most);
}

bool LayerConfig::Flag(absl::string_view key, bool fallback) {
  const json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Fail(key, absl::StrCat("must be true or false, not ", Shown(*value)));
  return fallback;
}

std::string LayerConfig::Choice(absl::string_view key, absl::string_view fallback,
                                std::vector<std::string_view> known) {
  const json* value = Find(key);
  if (value == nullptr) return std::string(fallback);
  for (const std::string_view choice : known) {
    if (*value == choice) return std::string(choice);
  }
  Fail(key, absl::StrCat(Shown(*value), " is not supported; supported: ", JoinNames(known)));
  return std::string(fallback);
}

std::pair<int64_t, int64_t> LayerConfig::Pair(absl::string_view key, int64_t fallback) {
  const json* value = Find(key);
  if (value == nullptr) return {fallback, fallback};
  const auto good = [](const json& v) {
    return v.is_number_integer() && v.get<int64_t>() >= 1 && v.get<int64_t>() <= 1'000'000;
  };
  if (good(*value)) return {value->get<int64_t>(), value->get<int64_t>()};
  if (value->is_array() && value->size() == 2 && good((*value)[0]) && good((*value)[1])) {
    return {(*value)[0].get<int64_t>(), (*value)[1].get<int64_t>()};
  }
  Fail(key, absl::StrCat("must be one or two positive whole numbers, not ", Shown(*value)));
  return {fallback, fallback};
}

int64_t LayerConfig::AnyInteger(absl::string_view key, int64_t fallback) {
  const json* value = Find(key);
  if (value == nullptr) return fallback;
  const json& one = value->is_array() && value->size() == 1 ? (*value)[0] : *value;
  if (one.is_number_integer() && std::abs(one.get<double>()) < 1e9) return one.get<int64_t>();
  Fail(key, absl::StrCat("must be a whole number, not ", Shown(*value)));
  return fallback;
}

std::vector<int64_t> LayerConfig::Integers(absl::string_view key) {
  const json* value = Find(key);
  std::vector<int64_t> numbers;
  bool good = value != nullptr && value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    const json& number = (*value)[i];
    good = number.is_number_integer() && std::abs(number.get<double>()) < 1e9;
    if (good) numbers.push_back(number.get<int64_t>());
  }
  if (!good) Fail(key, "must be a list of whole numbers");
  return numbers;
}

std::vector<std::pair<int64_t, int64_t>> LayerConfig::Frame(absl::string_view key, size_t axes) {
  std::vector<std::pair<int64_t, int64_t>> frame(axes, {1, 1});
  const json* value = Find(key);
  if (value == nullptr) return frame;
  const auto size = [](const json& v) {
    const bool good = v.is_number_integer() && v.get<int64_t>() >= 0 && v.get<int64_t>() < 1 << 20;
    return good ? v.get<int64_t>() : -1;
  };
  bool good = value->is_number() || (value->is_array() && value->size() == (axes == 1 ? 2 : axes));
  for (size_t i = 0; good && i < axes; ++i) {
    const json& entry = value->is_array() && axes > 1 ? (*value)[i] : *value;
    if (entry.is_array() && entry.size() == 2) {
      frame[i] = {size(entry[0]), size(entry[1])};
    } else {
      frame[i] = {size(entry), size(entry)};
    }
    good = frame[i].first >= 0 && frame[i].second >= 0;
  }
  if (!good)
    Fail(key, absl::StrCat("must be sizes before and after each axis, not ", Shown(*value)));
  return frame;
}

void LayerConfig::ReadConstraint(const std::string& key, const json& value) {
  const std::string name = value.is_string() ? value.get<std::string>() : KerasClass(value);
  const json* const given = value.is_object() ? ConfigOf(value) : nullptr;
  const json none = json::object();
  LayerConfig own(name, name_, given == nullptr ? none : *given, keras2_);
  Constraint constraint;
  constraint.variable = VariableOf(*this, key, "_constraint");
  const bool max = name == "MaxNorm" || name == "max_norm" || name == "maxnorm";
  const bool unit = name == "UnitNorm" || name == "unit_norm" || name == "unitnorm";
  const bool both = name == "MinMaxNorm" || name == "min_max_norm";
  if (max || both) constraint.most = own.Number("max_value", max ? 2 : 1);
  if (both) {
    constraint.least = own.Number("min_value", 0);
    constraint.rate = own.Number("rate", 1);
  }
  if (unit) constraint.least = constraint.most = 1;
  if (max || unit || both) {
    constraint.axes =
        own.Value("axis") == nullptr ? std::vector<int64_t>{0} : AxesOf(*own.Value("axis"));
    if (constraint.axes.empty()) own.Fail("axis", "must be an axis, or a list of them");
    if (!(constraint.least >= 0 && constraint.least <= constraint.most) ||
        !(constraint.rate >= 0 && constraint.rate <= 1)) {
      own.Fail("max_value",
               "must be at least min_value, which must be at least 0, and rate 0 to 1");
    }
  } else if (name != "NonNeg" && name != "non_neg" && name != "nonneg") {
    return Fail(key, absl::StrCat(Shown(value),
                                  " is not supported; supported: NonNeg, MaxNorm, "
                                  "UnitNorm, MinMaxNorm"));
  }
  if (const absl::Status read = own.Finish(); !read.ok()) return Fail(key, read.message());
  Ignore(key);
  constraints_.push_back(std::move(constraint));
}

void LayerConfig::ReadRegularizers() {
  // Leaves other variables' regularizers and constraints to Finish, which refuses them.
  static constexpr std::string_view kOf[] = {"activity_",  "alpha_",      "beta_",  "bias_",
                                             "depthwise_", "embeddings_", "gamma_", "kernel_",
                                             "pointwise_", "recurrent_"};
  for (auto it = config_.begin(); it != config_.end(); ++it) {
    const std::string& key = it.key();
    const std::string_view of = std::string_view(key).substr(0, key.find('_') + 1);
    if (std::find(std::begin(kOf), std::end(kOf), of) == std::end(kOf)) continue;
    if (key.ends_with("_constraint") && !it.value().is_null()) ReadConstraint(key, it.value());
    constexpr std::string_view kSuffix = "_regularizer";
    if (!key.ends_with(kSuffix) || it.value().is_null()) continue;
    const json& value = it.value();
    const std::string name = value.is_string() ? value.get<std::string>() : KerasClass(value);
    const json* config = ConfigOf(value);
    const bool l1 = name == "L1" || name == "l1", l2 = name == "L2" || name == "l2";
    const bool both = name == "L1L2" || name == "l1_l2";
    if (!l1 && !l2 && !both) {
      Fail(key, absl::StrCat(Shown(value), " is not supported; supported: L1, L2, L1L2"));
      continue;
    }
    Ignore(key);
    const double fallback = value.is_string() ? 0.01 : 0;
    const float by_l1 = l1 || both ? static_cast<float>(NumberIn(config, "l1", fallback)) : 0.f;
    const float by_l2 = l2 || both ? static_cast<float>(NumberIn(config, "l2", fallback)) : 0.f;
    if (key == "activity_regularizer") {
      activity_ = {by_l1, by_l2};
    } else if (trainable_ || keras2_) {  // Keras 3 skips regularizers of frozen variables
      regularizers_.push_back({VariableOf(*this, key, kSuffix), by_l1, by_l2});
    }
  }
}

std::vector<int64_t> LayerConfig::Dims(absl::string_view key) {
  const json* value = Find(key);
  std::vector<int64_t> dims;
  if (value == nullptr) return dims;
  bool good = value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    const json& dim = (*value)[i];
    good = dim.is_null() || (dim.is_number_integer() && dim.get<int64_t>() >= -1 &&
                             dim.get<int64_t>() <= std::numeric_limits<int32_t>::max());
    if (good) dims.push_back(dim.is_null() ? -1 : dim.get<int64_t>());
  }
  if (!good) Fail(key, absl::StrCat("must be a list of sizes, not ", Shown(*value)));
  return dims;
}

Activation LayerConfig::ActivationOf(absl::string_view key, absl::string_view fallback) {
  Activation activation;
  FindActivation(std::string(fallback), keras2_, activation);
  const json* value = Find(key);
  if (value == nullptr) return activation;
  if (value->is_string() && FindActivation(value->get<std::string>(), keras2_, activation)) {
    return activation;
  }
  if (value->is_object() && ConfigOf(*value) != nullptr) {
    LayerConfig own(KerasClass(*value), name_, *ConfigOf(*value), keras2_);
    if (own.ActivationOfClass(activation)) {
      const absl::Status status = own.Finish();
      if (!status.ok() && error_.ok()) error_ = status;
      return activation;
    }
  }
  std::vector<std::string_view> known;
  for (const NamedActivation& entry : kActivations) known.push_back(entry.name);
  const std::string wrong = value->is_string() ? value->get<std::string>() : KerasClass(*value);
  Fail(key, absl::StrCat("activation ", Shown(*value), NotSupported(wrong, known)));
  return activation;
}

bool LayerConfig::ActivationOfClass(Activation& activation) {
  const auto number = [&](const char* key, double fallback) {
    return static_cast<float>(Number(key, fallback));
  };
  if (class_name_ == "LeakyReLU") {
    const float old = number("alpha", 0.3);
    activation = {ActivationKind::kLeakyRelu, number("negative_slope", static_cast<double>(old))};
  } else if (class_name_ == "ELU") {
    activation = {ActivationKind::kElu, number("alpha", 1)};
  } else if (class_name_ == "ReLU") {
    activation = {ActivationKind::kReluGeneral, number("negative_slope", 0),
                  static_cast<float>(Bound("max_value", static_cast<double>(kUnbounded))),
                  number("threshold", 0)};
    const bool plain = activation.alpha == 0 && activation.beta == kUnbounded;
    if (plain && activation.gamma == 0) activation = {ActivationKind::kRelu};
  } else if (class_name_ == "ThresholdedReLU") {
    activation = {ActivationKind::kThreshold, number("theta", 1), 0};
  } else if (class_name_ == "Softmax") {
    activation = {ActivationKind::kSoftmax};
    if (AnyInteger("axis", -1) != -1) Fail("axis", "is not supported; must be -1");
  } else {
    return false;
  }
  return true;
}

Initializer LayerConfig::InitializerOf(absl::string_view key, absl::string_view fallback) {
  const json* value = Find(key);
  if (value != nullptr) {
    absl::StatusOr<Initializer> read = ReadInitializer(*value);
    if (read.ok()) return *std::move(read);
    Fail(key, read.status().message());
  }
  Initializer result;
  result.set_name(std::string(fallback));
  return result;
}

bool LayerConfig::CallFlag(absl::string_view name) {
  kwargs_taken_.insert(std::string(name));
  const auto value = kwargs_.find(name);
  if (value == kwargs_.end() || value->is_null()) return false;
  if (value->is_boolean()) return value->get<bool>();
  Fail(name, absl::StrCat("must be true or false, not ", Shown(*value)));
  return false;
}

double LayerConfig::CallNumber(absl::string_view name, double fallback) {
  kwargs_taken_.insert(std::string(name));
  const auto value = kwargs_.find(name);
  if (value == kwargs_.end() || value->is_null()) return fallback;
  if (value->is_number() && !std::isnan(value->get<double>())) return value->get<double>();
  Fail(name, absl::StrCat("must be a number, not ", Shown(*value)));
  return fallback;
}

void LayerConfig::CheckCall() {
  for (const auto& [name, value] : kwargs_.items()) {
    if (value.is_null() || kwargs_taken_.count(name) != 0) continue;
    Fail(name, "is not supported as an argument of its call");
  }
  if (args_taken_) return;
  for (const json& arg : args_) {
    for (const json& one : arg.is_array() ? arg : json::array({arg})) {
      if (one.is_null() || IsTensor(one)) continue;
      Fail("args", absl::StrCat(Shown(one), " is not supported as an argument of its call"));
    }
  }
}

absl::Status LayerConfig::Finish() {
  CheckCall();
  std::vector<std::string_view> known(read_.begin(), read_.end());
  for (auto it = config_.begin(); it != config_.end(); ++it) {
    if (read_.count(it.key()) != 0 || IsOff(it.value())) continue;
    Fail(it.key(), absl::StrCat(Shown(it.value()),
                                " is not supported here; supported keys: ", JoinNames(known)));
  }
  return error_;
}

}  // namespace paracord
