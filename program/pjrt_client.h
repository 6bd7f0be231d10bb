// A device of a PJRT plug-in, on which modules of StableHLO are compiled and run. Belongs to one
// thread. Errors name the plug-in and the function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "program/pjrt_plugin.h"

namespace paracord {

uint64_t ElementBytes(PjrtType type);

// An array in the host's memory, dense and row-major.
struct PjrtArray {
  PjrtType type = PjrtType::kFloat32;
  std::vector<int64_t> dims;

  uint64_t bytes() const;
  bool operator==(const PjrtArray&) const = default;
};
std::string ArrayText(const PjrtArray& array);  // "float32 (64, 10)"

class PjrtClient {
 public:
  // A compiled module.
  struct Loaded {
    PjrtOwned<PjrtLoaded> executable;
    std::vector<PjrtArray> results;
  };
  // An array that a run reads. The memory must stay as it is until the run has ended.
  struct Argument {
    const PjrtArray* array = nullptr;
    const void* data = nullptr;
  };

  // Opens these devices of the plug-in, or all that it has if none is named. INVALID_ARGUMENT: it
  // has no such device here, or one is named twice. Of GPUs the client sees these alone, and takes
  // memory of them as it is needed, so that others can use them too.
  static absl::StatusOr<std::unique_ptr<PjrtClient>> Create(PjrtPlugin plugin,
                                                            std::vector<size_t> devices);

  size_t devices() const { return devices_.size(); }

  const std::string& platform() const { return platform_; }  // "cpu", "cuda", "tpu"
  const PjrtPlugin& plugin() const { return plugin_; }

  // `code` is a portable artefact of StableHLO, or MLIR as text.
  absl::StatusOr<Loaded> Compile(std::string_view code) const;

  // Returns a module's compiled form, which Load takes where CompiledFor and the plug-in's file are
  // the same, so that it need not be compiled again. FAILED_PRECONDITION: the plug-in cannot.
  absl::StatusOr<std::string> Serialize(const Loaded& loaded) const;
  absl::StatusOr<Loaded> Load(std::string_view compiled) const;
  // Returns all that a compiled form depends on but the module and the plug-in's file: versions,
  // platform, the kind of the device, options.
  absl::StatusOr<std::string> CompiledFor() const;

  // The results of a run, which are taken from the device one by one. Its end waits until the
  // plug-in uses no memory of the caller any more.
  class Run {
   public:
    // `place` says on which of the client's devices.
    Run(const PjrtClient& client, const Loaded& loaded, size_t place)
        : client_(client), loaded_(loaded), device_(client.devices_[place]) {}
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    absl::Status Start(std::span<const Argument> arguments);
    // Begins to copy a result to `to`, which has room for it.
    absl::Status Fetch(size_t result, void* to);
    // Waits until that copy is complete.
    absl::Status Await(size_t result);

   private:
    absl::Status Put(const Argument& argument);

    const PjrtClient& client_;
    const Loaded& loaded_;
    PjrtDevice* const device_;
    std::vector<PjrtOwned<PjrtEvent>> done_;  // with the arguments' memory
    std::vector<PjrtOwned<PjrtBuffer>> arguments_, results_;
    std::vector<PjrtOwned<PjrtEvent>> fetched_;
    PjrtOwned<PjrtEvent> complete_;
  };

 private:
  explicit PjrtClient(PjrtPlugin plugin) : plugin_(std::move(plugin)) {}
  template <class Object>
  PjrtOwned<Object> Own(Object* object) const {
    return PjrtOwned<Object>(object, PjrtDeleter<Object>{&plugin_});
  }
  absl::Status Open(std::vector<size_t> devices);
  absl::Status MakeClient(const std::vector<size_t>& devices);
  absl::Status AwaitEvent(PjrtEvent* event) const;
  absl::StatusOr<std::vector<PjrtArray>> ResultsOf(PjrtLoaded* loaded) const;

  std::string_view CompileOptions() const;

  const PjrtPlugin plugin_;
  PjrtOwned<PjrtRawClient> client_;
  std::vector<PjrtDevice*> devices_;  // the client's
  bool first_ = true;                 // the client's first device alone
  std::string platform_;
};

// Says which plug-in computes a program.
struct PjrtUse {
  std::string device;  // "pjrt:PATH" as ParsePjrtPlace takes it, or a platform that a plug-in has
                       // to be for: "cuda:N"
  bool automatic = false;            // nobody named the device: any plug-in will do
  int threads = 1;                   // of the processor's
  uint32_t turn = 0;                 // where no number is named, workers take the GPUs in turn
  uint64_t memory_max = UINT64_MAX;  // bytes that this process may take
};
// Counts the GPUs of NVIDIA that this process may use, by CUDA_VISIBLE_DEVICES or the kernel's
// devices; 0: nobody knows. `devices` is where these are.
size_t CountGpus(const std::string& devices = "/dev");
// Opens the device or devices, which where no plug-in is named is that of the first plug-in of
// PARACORD_PJRT_PLUGINS that has it.
absl::StatusOr<std::unique_ptr<PjrtClient>> OpenPjrtDevice(const PjrtUse& use);

}  // namespace paracord
