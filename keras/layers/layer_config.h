// Reads the "config" of a layer of a Keras model file, key by key. A function that finds a mistake
// records it and returns a default, so that a layer's code is a plain list of keys. Finish then
// returns the first mistake, or an error for a key that was not read. Because Keras adds keys with
// every release, an unread key is no error if its value means "off" (null, false, "none", or an
// empty list or object). Used by one thread.
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
  std::string variable;  // the variable's name within the layer, such as "kernel"
  float l1 = 0, l2 = 0;
};

// A constraint applied to a variable after each update. Without axes, negative values become 0.
// With axes, a norm over these axes that is outside of [least, most] moves towards the nearer
// bound, by the share `rate` of the distance (proto: NormConstraint).
struct Constraint {
  std::string variable;  // the variable's name within the layer, such as "kernel"
  std::vector<int64_t> axes;
  double least = 0, most = 0, rate = 1;
};

// A penalty on a layer's output: loss += the mean over examples of l1 sum |y| + l2 sum y^2.
struct ActivityPenalty {
  float l1 = 0, l2 = 0;
};

// The mode of a call of a layer: the mode of the run, or the mode that the model file fixes for the
// call. Not std::optional<bool>, because GCC 14 miscompiles its comparison with `false`.
enum class CallMode { kOfRun, kTraining, kInference };

// In the arguments of a call, the object {kTensorKey: i} stands for input i of the call. The object
// also has the key kConstantKey if the input is an array of numbers from the model file.
inline constexpr const char* kTensorKey = "$tensor";
inline constexpr const char* kConstantKey = "$constant";

// Returns the text of a value for an error message, shortened if long.
std::string Shown(const nlohmann::json& value);

class LayerConfig {
 public:
  // `config` must outlive this object. `keras2` is true if the model file is of Keras 2.
  LayerConfig(std::string class_name, std::string name, const nlohmann::json& config, bool keras2);

  const std::string& name() const { return name_; }
  const std::string& class_name() const { return class_name_; }
  bool trainable() const { return trainable_; }
  bool keras2() const { return keras2_; }
  const nlohmann::json& values() const { return config_; }
  // The precision of products by the layer's dtype policy; nullopt: that of the layers before.
  std::optional<Operands> operands() const { return operands_; }
  void FollowInputs() { operands_ = std::nullopt; }
  bool Has(absl::string_view key) const;
  // True if the config has the key, even with the value null.
  bool Says(absl::string_view key) const { return config_.find(key) != config_.end(); }
  const std::vector<Regularizer>& regularizers() const { return regularizers_; }
  const std::vector<Constraint>& constraints() const { return constraints_; }
  const std::optional<ActivityPenalty>& activity() const { return activity_; }
  // Returns the positional arguments of the layer's first call (NodeSpec::args). The caller must
  // check all of them: after TakeArgs, Finish does not.
  const nlohmann::json& TakeArgs() {
    args_taken_ = true;
    return args_;
  }
  bool CallFlag(absl::string_view name);  // false if the call has no argument of this name
  double CallNumber(absl::string_view name, double fallback);  // may return an infinite number
  static bool IsTensor(const nlohmann::json& argument) {
    return argument.is_object() && !argument.contains("class_name");
  }
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

  // The functions from here to InitializerOf return the fallback, if they have one, for a key that
  // is absent or null. A value of a wrong kind or range is a mistake.
  double Number(absl::string_view key, double fallback);
  double Bound(absl::string_view key, double fallback);  // a number that may be infinite
  // A whole number from `least` to 2^31 - 1. `named_most` is only the upper limit that the error
  // names; it is smaller if the layer has a stricter check.
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
  // The padding before and after each of `axes` axes; 1 if the key is absent. For two axes the
  // value is n, [n, m], or [[a, b], [c, d]]; for one axis it is n or [a, b].
  std::vector<std::pair<int64_t, int64_t>> Frame(absl::string_view key, size_t axes);
  // A list of whole numbers, perhaps negative. An absent key is a mistake.
  std::vector<int64_t> Integers(absl::string_view key);
  // The value of the key; null if the key is absent or null.
  const nlohmann::json* Value(absl::string_view key) { return Find(key); }
  // A list of sizes, in which null becomes -1. An absent key gives an empty list.
  std::vector<int64_t> Dims(absl::string_view key);
  Activation ActivationOf(absl::string_view key, absl::string_view fallback = "linear");
  // If the class of this config is an activation layer with options (LeakyReLU, ELU, ReLU, Softmax,
  // ThresholdedReLU), reads the activation; otherwise returns false.
  bool ActivationOfClass(Activation& activation);
  Initializer InitializerOf(absl::string_view key, absl::string_view fallback);
  void Ignore(absl::string_view key) { read_.insert(std::string(key)); }

  // Records the mistake `what` of a key. The message of the error names the layer and the key.
  void Fail(absl::string_view key, absl::string_view what);
  // Returns the first mistake that was recorded. If there is none, returns an error for an argument
  // of the first call that was not read, or for an unread key that is not "off".
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

// Returns the beginning of an error about a layer: `layer "dense_1" (Dense)`.
std::string LayerTitle(absl::string_view class_name, absl::string_view name);
// The end of an error about an unsupported layer or operation.
inline constexpr char kExportInstead[] =
    "; paracord.keras.export makes a program of a model with others (docs/stablehlo.md)";

// Returns the axes in `value`, a number or a list of numbers from -1000 to 1000; empty otherwise.
std::vector<int64_t> AxesOf(const nlohmann::json& value);

// Finds an activation by Keras' name, such as "relu". Returns false if no activation has the name.
bool FindActivation(const std::string& name, bool keras2, Activation& activation);

}  // namespace paracord
