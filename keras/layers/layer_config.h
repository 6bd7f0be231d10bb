// Reads the "config" of a layer of a Keras model file, key by key. A read that finds a mistake
// records it and returns a default; a layer's code is thus a plain list of keys. Finish then
// returns the first mistake, or names an unread key. Keras adds keys with every release: an unread
// key whose value means "off" (null, false, "none", empty) is skipped, any other refused. Used by
// one thread, while a model is read.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"
#include "tensor/ops.h"

namespace paracord {

// A penalty on a variable: loss += l1 sum |x| + l2 sum x^2.
struct Regularizer {
  std::string variable;  // its name within the layer: "kernel"
  float l1 = 0, l2 = 0;
};

// A constraint on a variable after each update. Without axes, negative values become 0; with axes,
// the norm over these axes moves by `rate` of the way into [least, most] (proto: NormConstraint).
struct Constraint {
  std::string variable;  // its name within the layer: "kernel"
  std::vector<int64_t> axes;
  double least = 0, most = 0, rate = 1;
};

// A penalty on a layer's output: loss += the mean over examples of l1 sum |y| + l2 sum y^2.
struct ActivityPenalty {
  float l1 = 0, l2 = 0;
};

// The mode of a call: the run's mode, or a mode that the model file fixes for the call. Not
// std::optional<bool>, because GCC 14 miscompiles its comparison with `false`.
enum class CallMode { kOfRun, kTraining, kInference };

// In the arguments of a call, {kTensorKey: i} stands for the call's input i. It also has
// {kConstantKey: true} if the input is an array of numbers from the model file.
inline constexpr const char* kTensorKey = "$tensor";
inline constexpr const char* kConstantKey = "$constant";

// Returns a value for an error message, shortened if long.
std::string Shown(const nlohmann::json& value);

class LayerConfig {
 public:
  // `config` must outlive this object. `keras2`: the model file is Keras 2's, where some defaults
  // differ.
  LayerConfig(std::string class_name, std::string name, const nlohmann::json& config, bool keras2);

  const std::string& name() const { return name_; }
  const std::string& class_name() const { return class_name_; }
  bool trainable() const { return trainable_; }
  bool keras2() const { return keras2_; }
  const nlohmann::json& values() const { return config_; }
  // The precision that the layer's dtype policy allows its products; nullopt: the inputs'
  // precision.
  std::optional<Operands> operands() const { return operands_; }
  void FollowInputs() { operands_ = std::nullopt; }
  bool Has(absl::string_view key) const;
  // True if the config has the key, even with the value null.
  bool Says(absl::string_view key) const { return config_.find(key) != config_.end(); }
  const std::vector<Regularizer>& regularizers() const { return regularizers_; }
  const std::vector<Constraint>& constraints() const { return constraints_; }
  const std::optional<ActivityPenalty>& activity() const { return activity_; }
  // The positional arguments of the layer's first call (NodeSpec::args). Finish does not check them
  // then; the caller must use all of them.
  const nlohmann::json& TakeArgs() {
    args_taken_ = true;
    return args_;
  }
  bool CallFlag(absl::string_view name);  // false if the call has no argument of this name
  double CallNumber(absl::string_view name, double fallback);  // may return an infinite number
  static bool IsTensor(const nlohmann::json& argument) {
    return argument.is_object() && !argument.contains("class_name");
  }
  // True if an argument is an array of numbers from the model file.
  static bool IsConstant(const nlohmann::json& argument) {
    return argument.is_object() && argument.contains(kConstantKey);
  }
  void SetCall(const nlohmann::json& args, const nlohmann::json& kwargs) {
    args_ = args;
    kwargs_ = kwargs;
  }
  void SetCallOf(const LayerConfig& other) {
    SetCall(other.args_, other.kwargs_);
    mode_ = other.mode_;
  }
  // The mode of the layer's first call.
  CallMode mode() const { return mode_; }
  void SetMode(CallMode mode) { mode_ = mode; }

  // The readers below return `fallback` for a key that is absent or null. A value of the wrong kind
  // or range is a mistake.
  double Number(absl::string_view key, double fallback);
  double Bound(absl::string_view key, double fallback);  // a number that may be infinite
  // A whole number from `least` to 2^31 - 1. `named_most` is the upper limit in the message,
  // smaller if a later check of the layer is stricter.
  int64_t Integer(absl::string_view key, int64_t fallback, int64_t least,
                  int64_t named_most = std::numeric_limits<int32_t>::max());
  int64_t RequiredInteger(absl::string_view key, int64_t least,
                          int64_t named_most = std::numeric_limits<int32_t>::max());
  bool Flag(absl::string_view key, bool fallback);
  // A string, which must be in `known`.
  std::string Choice(absl::string_view key, absl::string_view fallback,
                     std::vector<std::string_view> known);
  // Two whole numbers from 1 to 1,000,000, given as a list, or as one number for both.
  std::pair<int64_t, int64_t> Pair(absl::string_view key, int64_t fallback);
  // A whole number between -10^9 and 10^9, or a list of one, Keras 2's notation for an axis.
  int64_t AnyInteger(absl::string_view key, int64_t fallback);
  // The padding before and after each of `axes` axes: n, [n, m], or [[a, b], [c, d]]; for a single
  // axis [a, b]. 1 if the key is absent.
  std::vector<std::pair<int64_t, int64_t>> Frame(absl::string_view key, size_t axes);
  // A list of whole numbers, perhaps negative. An absent key is a mistake.
  std::vector<int64_t> Integers(absl::string_view key);
  // The value of the key; null if the key is absent or null.
  const nlohmann::json* Value(absl::string_view key) { return Find(key); }
  // A list of sizes, with -1 for null; empty without the key.
  std::vector<int64_t> Dims(absl::string_view key);
  Activation ActivationOf(absl::string_view key, absl::string_view fallback = "linear");
  // Reads the activation of an activation layer (LeakyReLU, ...) from the keys of this config.
  // Returns false if the class is no activation layer.
  bool ActivationOfClass(Activation& activation);
  Initializer InitializerOf(absl::string_view key, absl::string_view fallback);
  void Ignore(absl::string_view key) { read_.insert(std::string(key)); }

  // Records a mistake; Finish returns the first. The message names the layer and the key.
  void Fail(absl::string_view key, absl::string_view what);
  // Returns the first mistake, or an error for the first unused argument of the call, or for the
  // first unread key that is not "off".
  absl::Status Finish();

 private:
  // Returns null if the key is absent or null. Marks the key as read.
  const nlohmann::json* Find(absl::string_view key);
  void CheckDType();
  void CheckCall();
  void ReadRegularizers();
  void ReadConstraint(const std::string& key, const nlohmann::json& value);

  const std::string class_name_;
  const std::string name_;
  const nlohmann::json& config_;
  const bool keras2_;
  bool trainable_ = true;
  std::optional<Operands> operands_ = Operands::kFloat32;
  std::vector<Regularizer> regularizers_;
  std::vector<Constraint> constraints_;
  std::optional<ActivityPenalty> activity_;
  nlohmann::json args_, kwargs_;
  bool args_taken_ = false;
  std::set<std::string, std::less<>> kwargs_taken_;
  CallMode mode_ = CallMode::kOfRun;
  std::set<std::string, std::less<>> read_;
  absl::Status error_;
};

// Returns the beginning of every error about a layer: `layer "dense_1" (Dense)`.
std::string LayerTitle(absl::string_view class_name, absl::string_view name);
// The end of an error about an unsupported layer or operation.
inline constexpr char kExportInstead[] =
    "; paracord.keras.export makes a program of a model with others (docs/stablehlo.md)";

// Returns the axes in `value`, a number or a list of numbers; empty for anything else.
std::vector<int64_t> AxesOf(const nlohmann::json& value);

// Finds an activation by Keras' name ("relu"). Returns false if there is none.
bool FindActivation(const std::string& name, bool keras2, Activation& activation);

}  // namespace paracord
