// The "config" of one layer in a Keras model file, read key by key. The first mistake is kept and
// every later read gives a default, so that a reader of a layer is a plain list of its keys; Finish
// then says what was wrong, or which key nobody read. Keras adds keys with every release: one at
// its off value is skipped, any other is refused. Used by one thread, while a model is read.
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

// What becomes of a variable after each update: not negative where there are no axes; else its norm
// over them goes by `rate` of the way into [least, most] (proto: NormConstraint).
struct Constraint {
  std::string variable;  // its name within the layer: "kernel"
  std::vector<int64_t> axes;
  double least = 0, most = 0, rate = 1;
};

// A penalty on what a layer gives: loss += the mean over examples of l1 sum |y| + l2 sum y^2.
struct ActivityPenalty {
  float l1 = 0, l2 = 0;
};

// In which mode a call computes: the run's, or one that it asks for itself. (No
// std::optional<bool>: GCC 14 makes a bool that is neither 0 nor 1 of `empty != false`.)
enum class CallMode { kOfRun, kTraining, kInference };

// In the arguments of a call, {kTensorKey: i} stands for the i-th input of the node, with
// kConstantKey: true if that is no tensor but an array of numbers.
inline constexpr const char* kTensorKey = "$tensor";
inline constexpr const char* kConstantKey = "$constant";

// A value as messages show it, cut where it is long.
std::string Shown(const nlohmann::json& value);

class LayerConfig {
 public:
  // `config` must outlive this. `keras2`: a file of Keras 2, where some defaults differ.
  LayerConfig(std::string class_name, std::string name, const nlohmann::json& config, bool keras2);

  const std::string& name() const { return name_; }
  const std::string& class_name() const { return class_name_; }
  bool trainable() const { return trainable_; }
  bool keras2() const { return keras2_; }
  const nlohmann::json& values() const { return config_; }
  // As the layer's policy allows; nullopt: as those that its inputs come from.
  std::optional<Operands> operands() const { return operands_; }
  void FollowInputs() { operands_ = std::nullopt; }
  bool Has(absl::string_view key) const;
  // True if the file has the key, be it null.
  bool Says(absl::string_view key) const { return config_.find(key) != config_.end(); }
  const std::vector<Regularizer>& regularizers() const { return regularizers_; }
  const std::vector<Constraint>& constraints() const { return constraints_; }
  const std::optional<ActivityPenalty>& activity() const { return activity_; }
  // The arguments of the (first) call: see NodeSpec. Who asks for those by position takes them all.
  const nlohmann::json& TakeArgs() {
    args_taken_ = true;
    return args_;
  }
  bool CallFlag(absl::string_view name);  // false where the call does not say it
  double CallNumber(absl::string_view name, double fallback);  // which may be infinite
  static bool IsTensor(const nlohmann::json& argument) {
    return argument.is_object() && !argument.contains("class_name");
  }
  // Of a tensor: it is numbers of the model file.
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
  // Of the (first) call.
  CallMode mode() const { return mode_; }
  void SetMode(CallMode mode) { mode_ = mode; }

  // A key that is not there gives `fallback`.
  double Number(absl::string_view key, double fallback);
  double Bound(absl::string_view key, double fallback);  // a number that may be infinite
  int64_t Integer(absl::string_view key, int64_t fallback, int64_t least);
  int64_t RequiredInteger(absl::string_view key, int64_t least);
  bool Flag(absl::string_view key, bool fallback);
  // One of `known`.
  std::string Choice(absl::string_view key, absl::string_view fallback,
                     std::vector<std::string_view> known);
  // A number for both axes, or two of them.
  std::pair<int64_t, int64_t> Pair(absl::string_view key, int64_t fallback);
  // Any whole number; one in a list, as Keras 2 writes axes, counts too.
  int64_t AnyInteger(absl::string_view key, int64_t fallback);
  // What lies before and after each of so many axes: n, [n, m], or [[a, b], [c, d]]; for one axis
  // [a, b].
  std::vector<std::pair<int64_t, int64_t>> Frame(absl::string_view key, size_t axes);
  // A list of whole numbers, negative ones too.
  std::vector<int64_t> Integers(absl::string_view key);
  // The raw value; null if there is none.
  const nlohmann::json* Value(absl::string_view key) { return Find(key); }
  // Numbers; -1 stands for null.
  std::vector<int64_t> Dims(absl::string_view key);
  Activation ActivationOf(absl::string_view key, absl::string_view fallback = "linear");
  // Of a layer that is an activation (LeakyReLU, ...), by this config's own keys; false if it is
  // none.
  bool ActivationOfClass(Activation& activation);
  Initializer InitializerOf(absl::string_view key, absl::string_view fallback);
  void Ignore(absl::string_view key) { read_.insert(std::string(key)); }

  // Records a mistake: "<what>" gets the layer's name in front.
  void Fail(absl::string_view key, absl::string_view what);
  // The first mistake, or the first key that was not read and is not off, or the first argument of
  // the call that nobody took.
  absl::Status Finish();

 private:
  // Null if the key is absent or null, and marks it as read.
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

// "layer "dense_1" (Dense)", as every error about a layer begins.
std::string LayerTitle(absl::string_view class_name, absl::string_view name);

// The axes of a value that is a number or a list of them; none if it is anything else.
std::vector<int64_t> AxesOf(const nlohmann::json& value);

// An activation by Keras' name ("relu"); false if there is none.
bool FindActivation(const std::string& name, bool keras2, Activation& activation);

}  // namespace paracord
