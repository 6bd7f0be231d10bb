// A PJRT plug-in: a library of XLA, or of a vendor of accelerators, that compiles and runs
// StableHLO. It is loaded once and stays in the process, since such libraries cannot be unloaded.
// Calls are checked: a function that this plug-in is too old for, and an error that it returns, are
// a Status that names the plug-in and the function.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "program/pjrt_api.h"

namespace paracord {

class PjrtPlugin {
 public:
  // NOT_FOUND: there is no such file. FAILED_PRECONDITION: it does not load, or is no plug-in of
  // version 0 of the API. `threads` is how many of the processor's a plug-in for it may use.
  static absl::StatusOr<PjrtPlugin> Load(const std::string& path, int threads);

  const std::string& path() const { return path_; }
  std::string version() const;  // of the API, "0.115"
  bool for_gpus() const;        // whether it is XLA's for GPUs, whose clients have options

  // Calls a function; `Args` says which.
  template <class Args>
  absl::Status Call(Args& args) const {
    const auto function = Find<PjrtError*(Args*)>(Args::kFunction);
    if (function == nullptr) return Lacks(Args::kFunction);
    return TakeError(Args::kFunction, function(&args));
  }

  // Frees what an object of the plug-in holds; there is nobody whom an error would help.
  template <class Object>
  void Destroy(Object* object) const {
    PjrtDestroyArgs<Object> args;
    args.object = object;
    Call(args).IgnoreError();
  }

 private:
  PjrtPlugin(std::string path, const PjrtApi* api) : path_(std::move(path)), api_(api) {}

  // Null: the plug-in has no such function.
  template <class Signature>
  Signature* Find(const PjrtFunction& function) const {
    const size_t at = offsetof(PjrtApi, functions) + function.index * sizeof(api_->functions[0]);
    if (api_->struct_size < at + sizeof(api_->functions[0])) return nullptr;
    Signature* found = nullptr;
    std::memcpy(&found, reinterpret_cast<const char*>(api_) + at, sizeof(found));
    return found;
  }
  absl::Status Lacks(const PjrtFunction& function) const;
  // The error is freed.
  absl::Status TakeError(const PjrtFunction& function, PjrtError* error) const;

  std::string path_;
  const PjrtApi* api_;
};

// Owns an object of a plug-in, which must outlive it.
template <class Object>
struct PjrtDeleter {
  const PjrtPlugin* plugin = nullptr;
  void operator()(Object* object) const { plugin->Destroy(object); }
};
template <class Object>
using PjrtOwned = std::unique_ptr<Object, PjrtDeleter<Object>>;

// A plug-in and which of its devices: "pjrt:PATH", "pjrt:PATH:N", "pjrt:PATH:N,M" or
// "pjrt:PATH:all" of --device.
struct PjrtPlace {
  std::string path;
  std::vector<size_t> devices = {};  // none: it is not said which, or all are meant
  bool all = false;
};
bool IsPjrtDevice(const std::string& device);
PjrtPlace ParsePjrtPlace(const std::string& device);

// The plug-ins that PARACORD_PJRT_PLUGINS names, separated by colons.
std::vector<std::string> PjrtPluginPaths();

}  // namespace paracord
