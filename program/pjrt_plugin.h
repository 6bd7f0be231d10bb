// A PJRT plug-in: a library of XLA, or of a vendor of accelerators, that compiles and runs
// StableHLO. A loaded library stays for the life of the process, because such libraries cannot be
// unloaded. A call of a function that an old plug-in lacks, or that returns an error, becomes a
// Status that names the plug-in and the function.
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
  // NOT_FOUND: the file does not exist. FAILED_PRECONDITION: the file does not load, or is no
  // plug-in for version 0 of the API. If the plug-in fails to initialize, returns the plug-in's
  // error. `threads`: the most processor threads of a CPU plug-in; ignored if the environment
  // variable PJRT_NPROC is set, as it is after the first Load.
  static absl::StatusOr<PjrtPlugin> Load(const std::string& path, int threads);

  const std::string& path() const { return path_; }
  std::string version() const;  // the plug-in's version of the API, such as "0.115"
  bool for_gpus() const;        // whether this is XLA's plug-in for GPUs

  // Calls the function Args::kFunction.
  template <class Args>
  absl::Status Call(Args& args) const {
    const auto function = Find<PjrtError*(Args*)>(Args::kFunction);
    if (function == nullptr) return Lacks(Args::kFunction);
    return TakeError(Args::kFunction, function(&args));
  }

  // Destroys an object of the plug-in; errors are ignored, because no caller could act on them.
  template <class Object>
  void Destroy(Object* object) const {
    PjrtDestroyArgs<Object> args;
    args.object = object;
    Call(args).IgnoreError();
  }

 private:
  PjrtPlugin(std::string path, const PjrtApi* api) : path_(std::move(path)), api_(api) {}

  template <class Signature>
  Signature* Find(const PjrtFunction& function) const {
    const size_t at = offsetof(PjrtApi, functions) + function.index * sizeof(api_->functions[0]);
    if (api_->struct_size < at + sizeof(api_->functions[0])) return nullptr;
    Signature* found = nullptr;
    std::memcpy(&found, reinterpret_cast<const char*>(api_) + at, sizeof(found));
    return found;
  }
  absl::Status Lacks(const PjrtFunction& function) const;
  // Returns the error as a Status, and frees it.
  absl::Status TakeError(const PjrtFunction& function, PjrtError* error) const;

  std::string path_;
  const PjrtApi* api_;
};

// Deletes an object of a plug-in. The PjrtPlugin must outlive the object.
template <class Object>
struct PjrtDeleter {
  const PjrtPlugin* plugin = nullptr;
  void operator()(Object* object) const { plugin->Destroy(object); }
};
template <class Object>
using PjrtOwned = std::unique_ptr<Object, PjrtDeleter<Object>>;

// The value of --device that names a plug-in: "pjrt:PATH", "pjrt:PATH:N", "pjrt:PATH:N,M" or
// "pjrt:PATH:all".
struct PjrtPlace {
  std::string path;                  // absolute
  std::vector<size_t> devices = {};  // the numbers; empty without numbers, and with "all"
  bool all = false;
};
bool IsPjrtDevice(const std::string& device);
PjrtPlace ParsePjrtPlace(const std::string& device);

// Returns the absolute paths listed in the environment variable PARACORD_PJRT_PLUGINS.
std::vector<std::string> PjrtPluginPaths();

}  // namespace paracord
