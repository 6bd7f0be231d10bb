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
    std::vector<PjrtArray> results;  // by replica
  };
  // An array read by a run. Its memory must stay unchanged until the run has ended.
  struct Argument {
    const PjrtArray* array = nullptr;
    const void* data = nullptr;
  };

  // Opens the named devices of the plug-in, or all its devices. INVALID_ARGUMENT: a device does not
  // exist here, or is named twice. A GPU client sees only the named GPUs and allocates their memory
  // on demand, to leave room for other processes.
  static absl::StatusOr<std::unique_ptr<PjrtClient>> Create(PjrtPlugin plugin,
                                                            std::vector<size_t> devices);

  size_t devices() const { return devices_.size(); }

  const std::string& platform() const { return platform_; }  // "cpu", "cuda", "tpu"
  const PjrtPlugin& plugin() const { return plugin_; }

  // `code` is a portable artefact of StableHLO, or MLIR as text. A module of several replicas, as
  // many as the client has devices, runs on all of them at once; one of a single replica on any.
  absl::StatusOr<Loaded> Compile(std::string_view code, uint32_t replicas = 1) const;

  // Returns a module's compiled form. Load accepts the form where CompiledFor and the plug-in's
  // file are equal. FAILED_PRECONDITION: the plug-in cannot serialize.
  absl::StatusOr<std::string> Serialize(const Loaded& loaded) const;
  absl::StatusOr<Loaded> Load(std::string_view compiled) const;
  // Returns everything that determines a compiled form besides the module and the plug-in's file:
  // versions, platform, kind of device, options.
  absl::StatusOr<std::string> CompiledFor(uint32_t replicas) const;

  // The results of a run, copied from the devices one by one. The destructor waits until the
  // plug-in no longer uses the caller's memory.
  class Run {
   public:
    // Runs a module of one replica on a device; `place` is the device's index in the client.
    Run(const PjrtClient& client, const Loaded& loaded, size_t place);
    // Runs a module of several replicas, one on each device of the client.
    Run(const PjrtClient& client, const Loaded& loaded);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    // `arguments` has a list for each replica.
    absl::Status Start(std::span<const std::vector<Argument>> arguments);
    absl::Status Start(const std::vector<Argument>& arguments) { return Start({&arguments, 1}); }
    // Begins to copy a replica's result to `to`, which must have room for all of it.
    absl::Status Fetch(size_t result, void* to, size_t replica = 0);
    // Waits until the copy of a replica's `result` is complete.
    absl::Status Await(size_t result, size_t replica = 0);

   private:
    struct Replica {
      PjrtDevice* device = nullptr;
      std::vector<PjrtOwned<PjrtBuffer>> arguments, results;
      std::vector<PjrtOwned<PjrtEvent>> fetched;
      PjrtOwned<PjrtEvent> complete;
    };
    void Add(PjrtDevice* device) { replicas_.emplace_back().device = device; }
    absl::Status Put(const Argument& argument, Replica& replica);
    absl::Status Execute(size_t arguments);

    const PjrtClient& client_;
    const Loaded& loaded_;
    std::vector<Replica> replicas_;
    std::vector<PjrtOwned<PjrtEvent>> done_;  // with the arguments' memory
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

  // A device as the plug-in describes it.
  absl::StatusOr<PjrtDeviceDescription*> Describe(PjrtDevice* device) const;
  // A CompileOptionsProto of XLA.
  absl::StatusOr<std::string> CompileOptions(uint32_t replicas) const;

  const PjrtPlugin plugin_;
  PjrtOwned<PjrtRawClient> client_;
  std::vector<PjrtDevice*> devices_;  // the client's
  bool first_ = true;                 // the client's first device alone
  std::string platform_;
};

// Returns the error of a run as one of GradientProgram: the batch's, or the memory's, or else that
// the device is lost.
absl::Status OfRun(const absl::Status& status);

// The choice of a plug-in for a program.
struct PjrtUse {
  std::string device;                // "pjrt:PATH" for ParsePjrtPlace, or a platform: "cuda:N"
  bool automatic = false;            // nobody named the device: any plug-in will do
  int threads = 1;                   // processor threads
  uint32_t turn = 0;                 // where no number is named, workers take the GPUs in turn
  uint64_t memory_max = UINT64_MAX;  // bytes allowed to this process
};
// Counts the NVIDIA GPUs available to this process, by CUDA_VISIBLE_DEVICES or the device files in
// `devices`; 0: unknown.
size_t CountGpus(const std::string& devices = "/dev");
// Opens the device or devices. Without the path of a plug-in, uses the first plug-in of
// PARACORD_PJRT_PLUGINS for the platform.
absl::StatusOr<std::unique_ptr<PjrtClient>> OpenPjrtDevice(const PjrtUse& use);

}  // namespace paracord
