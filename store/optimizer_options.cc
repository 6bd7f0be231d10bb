// The table of optimizers: Keras' names, defaults, options and slots, and those that are not
// supported, with the reason; and the choice of an optimizer for a variable.
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "config/named_spec.h"
#include "config/partitions.h"
#include "re2/re2.h"
#include "store/optimizer.h"

namespace paracord {
namespace {

using Rule = Optimizer::Rule;

double NotNegative(JsonFields& options, const char* key, double otherwise,
                   double high = kAnyNumber) {
  options.Number(key, 0, high, otherwise);
  return otherwise;
}

void ReadBeta(JsonFields& options, const char* key, double otherwise, double& beta) {
  beta = NotNegative(options, key, otherwise, kBelowOne);
}

void ReadEpsilon(JsonFields& options, Optimizer& optimizer) {
  optimizer.epsilon = NotNegative(options, "epsilon", 1e-7);
}

void ReadMomentum(JsonFields& options, Optimizer& optimizer) {
  optimizer.momentum = NotNegative(options, "momentum", 0, 1);
}

bool IsTrue(JsonFields& options, const char* key) {
  bool value = false;
  options.Bool(key, value);
  return value;
}

void ReadSgd(JsonFields& options, Optimizer& optimizer) {
  optimizer.rule = Rule::kSgd;
  ReadMomentum(options, optimizer);
  optimizer.nesterov = IsTrue(options, "nesterov");
  if (optimizer.momentum != 0) optimizer.slots = {{"momentum"}};
}

void ReadAdagrad(JsonFields& options, Optimizer& optimizer) {
  optimizer.rule = Rule::kAdagrad;
  const double initial = NotNegative(options, "initial_accumulator_value", 0.1);
  ReadEpsilon(options, optimizer);
  optimizer.slots = {{"accumulator", static_cast<float>(initial)}};
}

void ReadAdadelta(JsonFields& options, Optimizer& optimizer) {
  optimizer.rule = Rule::kAdadelta;
  ReadBeta(options, "rho", 0.95, optimizer.rho);
  ReadEpsilon(options, optimizer);
  optimizer.slots = {{"accumulated_grad"}, {"accumulated_delta_var"}};
}

void ReadRmsprop(JsonFields& options, Optimizer& optimizer) {
  optimizer.rule = Rule::kRmsprop;
  ReadBeta(options, "rho", 0.9, optimizer.rho);
  ReadMomentum(options, optimizer);
  ReadEpsilon(options, optimizer);
  optimizer.centered = IsTrue(options, "centered");
  optimizer.slots = {{"velocity"}};
  if (optimizer.momentum > 0) optimizer.slots.push_back({"momentum"});
  if (optimizer.centered) optimizer.slots.push_back({"average_gradient"});
}

void ReadBetas(JsonFields& options, Optimizer& optimizer) {
  ReadBeta(options, "beta_1", 0.9, optimizer.beta_1);
  ReadBeta(options, "beta_2", 0.999, optimizer.beta_2);
  ReadEpsilon(options, optimizer);
}

void ReadAdam(JsonFields& options, Optimizer& optimizer) {
  optimizer.rule = Rule::kAdam;
  ReadBetas(options, optimizer);
  optimizer.amsgrad = IsTrue(options, "amsgrad");
  optimizer.slots = {{"momentum"}, {"velocity"}};
  if (optimizer.amsgrad) optimizer.slots.push_back({"velocity_hat"});
  if (IsTrue(options, "adaptive_epsilon")) {  // an option of Keras 2
    options.Problem("adaptive_epsilon", "is not supported");
  }
}

void ReadAdamW(JsonFields& options, Optimizer& optimizer) {
  ReadAdam(options, optimizer);
  optimizer.weight_decay = 0.004;
}

void ReadAdamax(JsonFields& options, Optimizer& optimizer) {
  optimizer.rule = Rule::kAdamax;
  ReadBetas(options, optimizer);
  optimizer.slots = {{"momentum"}, {"norm"}};
}

void ReadNadam(JsonFields& options, Optimizer& optimizer) {
  optimizer.rule = Rule::kNadam;
  ReadBetas(options, optimizer);
  optimizer.slots = {{"momentum"}, {"velocity"}};
}

void ReadLion(JsonFields& options, Optimizer& optimizer) {
  optimizer.rule = Rule::kLion;
  optimizer.beta_1 = 0.9;
  options.Number("beta_1", kAboveZero, 1, optimizer.beta_1);
  ReadBeta(options, "beta_2", 0.99, optimizer.beta_2);
  optimizer.slots = {{"momentum"}};
}

void ReadFtrl(JsonFields& options, Optimizer& optimizer) {
  optimizer.rule = Rule::kFtrl;
  optimizer.learning_rate_power = -0.5;
  options.Number("learning_rate_power", -kAnyNumber, 0, optimizer.learning_rate_power);
  const double initial = NotNegative(options, "initial_accumulator_value", 0.1);
  optimizer.l1 = NotNegative(options, "l1_regularization_strength", 0);
  optimizer.l2 = NotNegative(options, "l2_regularization_strength", 0);
  optimizer.l2_shrinkage = NotNegative(options, "l2_shrinkage_regularization_strength", 0);
  optimizer.beta = NotNegative(options, "beta", 0);
  optimizer.slots = {{"accumulator", static_cast<float>(initial)}, {"linear"}};
}

// A supported optimizer, with `read` for the options that not all optimizers share, or an
// unsupported one, with the reason in `why_not`.
struct Entry {
  std::string_view name;
  double rate = 0.001;
  void (*read)(JsonFields& options, Optimizer& optimizer) = nullptr;
  const char* why_not = "";
  // How the formula of TensorFlow's legacy optimizer (Keras before 2.11) differs; "" if it does
  // not.
  const char* legacy = "";
};
constexpr char kEpsilonOutside[] = "adds epsilon after the root, not before";
constexpr Entry kOptimizers[] = {
    {"sgd", 0.01, ReadSgd},
    {"adagrad", 0.001, ReadAdagrad, "", kEpsilonOutside},
    {"adadelta", 0.001, ReadAdadelta},
    {"rmsprop", 0.001, ReadRmsprop, "", kEpsilonOutside},
    {"adam", 0.001, ReadAdam},
    {"adamw", 0.001, ReadAdamW},
    {"adamax", 0.001, ReadAdamax},
    {"nadam", 0.001, ReadNadam, "", "has another schedule of momenta"},
    {"ftrl", 0.001, ReadFtrl},
    {"lion", 0.001, ReadLion},
    {"adafactor", 0, nullptr,
     "its factored moments and the size of its steps are of whole variables, and a parameter server"
     " has parts of them"},
    {"lamb", 0, nullptr,
     "its steps are as long as a whole variable, and a parameter server has parts of it"},
    {"muon", 0, nullptr, "it makes whole matrices orthogonal, and a parameter server has parts"},
    {"lossscaleoptimizer", 0, nullptr,
     "gradients are float32 here and need no scale; give the job's \"optimizer\" the inner one"},
    {"schedulefreeadamw", 0, nullptr,
     "it computes gradients at other values than those that it keeps"},
    {"multioptimizer", 0, nullptr,
     "all variables of a job have one optimizer, but tables may have others"},
};

const Entry* FindEntry(std::string_view name) {
  for (const Entry& entry : kOptimizers) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

absl::Status NoSuchOptimizer(const std::string& path, const std::string& name) {
  std::vector<std::string_view> names;
  for (const Entry& entry : kOptimizers) {
    if (entry.read != nullptr) names.push_back(entry.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ".name: ", IsNoneOf(name, names)));
}

// `lr` is the name before Keras 2.3; until 2.10 `decay` divides by 1 + decay * steps.
void ReadRate(JsonFields& options, double otherwise, Optimizer& optimizer, Problems& problems) {
  const nlohmann::json* value = options.Find("learning_rate");
  if (const nlohmann::json* old = options.Find("lr")) {
    if (value != nullptr) {
      options.Problem("lr",
                      "is the old name of learning_rate, which is given too; did you mean "
                      "`learning_rate`?");
    }
    value = old;
  }
  const nlohmann::json none = otherwise;
  optimizer.learning_rate =
      ReadLearningRate(value != nullptr ? *value : none, options.PathOf("learning_rate"), problems);
  const ConstantRate* constant = std::get_if<ConstantRate>(&optimizer.learning_rate);
  if (optimizer.rule == Rule::kFtrl && constant != nullptr && constant->rate == 0) {
    options.Problem("learning_rate", "must be above 0, by which ftrl divides");
  }
  const double decay = NotNegative(options, "decay", 0);
  if (decay > 0 && constant == nullptr) {
    options.Problem("decay", "makes a schedule of a constant learning rate, and there is one");
  } else if (decay > 0) {
    optimizer.learning_rate = InverseTimeDecay{constant->rate, 1, decay, false};
  }
}

void ReadDecay(JsonFields& options, Optimizer& optimizer) {
  if (options.Find("weight_decay") != nullptr) {
    optimizer.weight_decay = NotNegative(options, "weight_decay", 0);
  }
  const char* const key = "exclude_from_weight_decay";
  const nlohmann::json* names = options.Find(key);
  if (names == nullptr) return;
  if (!names->is_array()) return options.Problem(key, "must be a list of names");
  if (!optimizer.weight_decay.has_value()) return options.Problem(key, "needs weight_decay");
  for (const nlohmann::json& name : *names) {
    if (!name.is_string() || name.get_ref<const std::string&>().empty()) {
      return options.Problem(key, "must be a list of names");
    }
    optimizer.exclude_from_weight_decay.push_back(name.get<std::string>());
    const RE2 compiled(optimizer.exclude_from_weight_decay.back(), RE2::Quiet);
    if (!compiled.ok()) {
      options.Problem(key, absl::StrCat(JsonExcerpt(name), " is no regular expression: ",
                                        JsonExcerpt(compiled.error())));
    }
  }
}

void ReadClip(JsonFields& options, Optimizer& optimizer) {
  int given = 0;
  for (const char* key : {"clipnorm", "global_clipnorm", "clipvalue"}) {
    if (options.Find(key) == nullptr) continue;
    double clip = 1;
    options.Number(key, kAboveZero, std::numeric_limits<double>::infinity(), clip);
    if (++given > 1) {
      options.Problem(key, "only one of clipnorm, clipvalue, global_clipnorm can be set");
    }
    if (std::string_view(key) == "clipvalue") optimizer.clipvalue = clip;
  }
}

constexpr double kEmaMomentum = 0.99;  // Keras' default

// `keras2`: the config is Keras 2's own.
void ReadAverage(JsonFields& options, bool keras2, Optimizer& optimizer) {
  optimizer.use_ema = IsTrue(options, "use_ema");
  optimizer.ema_momentum = NotNegative(options, "ema_momentum", kEmaMomentum, 1);
  if (!optimizer.use_ema && optimizer.ema_momentum != kEmaMomentum) {
    options.Problem("ema_momentum", "needs use_ema");
  }
  const char* const key = "ema_overwrite_frequency";
  options.Integer(key, 1, std::numeric_limits<uint64_t>::max(), optimizer.ema_overwrite_frequency);
  if (options.Find(key) != nullptr && !optimizer.use_ema) options.Problem(key, "needs use_ema");
  if (!optimizer.use_ema) return;
  if (keras2) {
    options.Problem("use_ema",
                    "starts from the initial values in Keras 2, after the first step here and in "
                    "Keras 3; give the optimizer in the job's own form");
  }
  optimizer.slots.push_back({.name = "average", .of_value = true});
}

// Adagrad's accumulator, and the second moments of Adam and its like.
bool HoldsSquares(const SlotSpec& slot) {
  return slot.name == "accumulator" || slot.name.starts_with("velocity");
}

// `of_table`: the optimizer is a table's own. Other variables have no rows updated one by one.
void ReadRowWise(JsonFields& options, const Entry& entry, bool of_table, Optimizer& optimizer) {
  const char* const key = "row_wise";
  if (!of_table && options.Find(key) == nullptr) return;
  options.Bool(key, optimizer.row_wise);
  if (!optimizer.row_wise) return;
  if (!of_table) options.Problem(key, "is for the optimizer of a table (\"tables\")");
  if (optimizer.rule != Rule::kAdagrad && optimizer.rule != Rule::kAdam) {
    options.Problem(key, absl::StrCat("is for adagrad, adam and adamw; ", std::string(entry.name),
                                      " has no such form"));
  }
  for (SlotSpec& slot : optimizer.slots) slot.of_rows = HoldsSquares(slot);
}

// Workers clip by norm, as the job's optimizer says for all variables.
void RefuseClipByNorm(JsonFields& options) {
  for (const char* key : {"clipnorm", "global_clipnorm"}) {
    if (options.Find(key) == nullptr) continue;
    options.Problem(key, "is for the job's optimizer; that of a table may have clipvalue");
  }
}

void ReadCommon(JsonFields& options, const Entry& entry, Optimizer& optimizer, Problems& problems) {
  ReadRate(options, entry.rate, optimizer, problems);
  ReadDecay(options, optimizer);
  ReadClip(options, optimizer);
  const bool keras2 =
      options.Find("jit_compile") != nullptr || options.Find("is_legacy_optimizer") != nullptr;
  ReadAverage(options, keras2, optimizer);
  const bool said_legacy = IsTrue(options, "is_legacy_optimizer");
  const bool legacy = said_legacy || options.Find("decay") != nullptr;
  const bool fused = optimizer.rule == Rule::kRmsprop && optimizer.momentum > 0;  // like Keras 3
  if (legacy && *entry.legacy != 0 && !fused) {
    options.Problem(
        said_legacy ? "is_legacy_optimizer" : "decay",
        absl::StrCat("is of Keras before 2.11, whose ", std::string(entry.name), " ", entry.legacy,
                     "; give the optimizer in the job's own form to have that of Keras 3"));
  }
  if (options.Find("loss_scale_factor") != nullptr) {
    options.Problem("loss_scale_factor", "is not supported: gradients are float32 and need none");
  }
  if (options.Find("gradient_accumulation_steps") != nullptr) {
    options.Problem("gradient_accumulation_steps",
                    "is not supported: multiply the job's \"batch\" by it and set \"accumulate\" "
                    "to it, which is the same mean of gradients in one step");
  }
  options.Find("name");
}

// True if an expression matches the variable's own name, or the whole name if the expression has a
// "/".
bool IsExcludedFromDecay(const Optimizer& optimizer, std::string_view variable) {
  const std::string whole(variable);
  const std::string own = whole.substr(whole.rfind('/') + 1);
  for (const std::string& name : optimizer.exclude_from_weight_decay) {
    const bool by_path = name.find('/') != std::string::npos;
    if (RE2::PartialMatch(by_path ? whole : own, RE2(name, RE2::Quiet))) return true;
  }
  return false;
}

}  // namespace

namespace {

absl::StatusOr<Optimizer> Parse(const NamedSpec& spec, const std::string& path, bool of_table) {
  const Entry* const entry = FindEntry(spec.name);
  if (entry == nullptr) return NoSuchOptimizer(path, spec.name);
  if (entry->read == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".name: ", spec.name, " cannot be had: ", entry->why_not));
  }
  Problems problems;
  JsonFields options(spec.options, path, problems, JsonFields::Null::kAbsent);
  Optimizer optimizer;
  entry->read(options, optimizer);
  ReadRowWise(options, *entry, of_table, optimizer);
  if (of_table) RefuseClipByNorm(options);
  ReadCommon(options, *entry, optimizer, problems);
  options.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  return optimizer;
}

// Parses a table's own optimizer.
absl::StatusOr<Optimizer> OwnOptimizer(const VariableSpec& variable) {
  const std::string path = absl::StrCat(variable.name(), ": optimizer");
  Problems problems;
  const std::optional<NamedSpec> spec =
      ReadNamedSpec(NamedKind::kOptimizer, JsonOf(variable.table().optimizer()), path, problems);
  RETURN_IF_ERROR(problems.ToStatus());
  if (!spec.has_value()) return absl::InvalidArgumentError(path + " has no name");
  ASSIGN_OR_RETURN(Optimizer own, ParseTableOptimizer(*spec, path));
  if (own.row_wise && !variable.table().lazy() && !IsGrowing(variable)) {
    return absl::InvalidArgumentError(path + ".row_wise needs updates row by row");
  }
  return own;
}

}  // namespace

absl::StatusOr<Optimizer> ParseOptimizer(const NamedSpec& spec) {
  return Parse(spec, "optimizer", /*of_table=*/false);
}

absl::StatusOr<Optimizer> ParseTableOptimizer(const NamedSpec& spec, const std::string& path) {
  return Parse(spec, path, /*of_table=*/true);
}

absl::Status CheckOwnOptimizers(std::span<const VariableSpec> variables) {
  for (const VariableSpec& variable : variables) {
    if (!variable.table().optimizer().empty()) RETURN_IF_ERROR(OwnOptimizer(variable).status());
  }
  return absl::OkStatus();
}

Optimizer OptimizerFor(const VariableSpec& variable, const Optimizer& optimizer) {
  if (variable.moving_average() <= 0) {
    Optimizer own = optimizer;
    if (!variable.table().optimizer().empty()) own = OwnOptimizer(variable).value_or(optimizer);
    if (IsExcludedFromDecay(own, variable.name())) own.weight_decay.reset();
    own.lazy = variable.table().lazy();
    own.non_neg = variable.constraint() == "non_neg";
    if (variable.constraint() == "norm") own.norm = variable.norm();
    return own;
  }
  // v * keep + o (1 - keep) is SGD: weight decay subtracts v (1 - keep), and the rate is -(1 -
  // keep).
  Optimizer average;
  average.rule = Optimizer::Rule::kSgd;
  average.learning_rate = ConstantRate{variable.moving_average() - 1};
  average.weight_decay = -1;
  return average;
}

}  // namespace paracord
