// Devices of a PJRT plug-in, on which modules of StableHLO are compiled and run. Any thread may
// call const functions; a Run is used by one thread. Errors name the plug-in, and the function that
// failed.
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

// Type and shape of an array in the host's memory, which is dense and row-major.
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
    std::vector<PjrtArray> results;  // types and shapes, equal for all replicas
  };
  // An array that a Run reads. The memory at `data` must stay unchanged until the Run's destructor.
  struct Argument {
    const PjrtArray* array = nullptr;
    const void* data = nullptr;
  };

  // Opens the devices with these numbers, or all devices of the plug-in if `devices` is empty.
  // INVALID_ARGUMENT: a device does not exist here, or is named twice. A GPU plug-in allocates
  // memory of the opened GPUs alone and on demand, to leave room for other processes.
  static absl::StatusOr<std::unique_ptr<PjrtClient>> Create(PjrtPlugin plugin,
                                                            std::vector<size_t> devices);

  size_t devices() const { return devices_.size(); }

  const std::string& platform() const { return platform_; }  // "cpu", "cuda", "tpu"
  const PjrtPlugin& plugin() const { return plugin_; }

  // `code` is a portable artefact of StableHLO, or MLIR as text. A module of several replicas, as
  // many as the client has devices, runs on all devices at once; a module of one replica on any.
  absl::StatusOr<Loaded> Compile(std::string_view code, uint32_t replicas = 1) const;

  // Returns a module's compiled form. Load accepts the form in a process where CompiledFor and the
  // plug-in's file are equal. FAILED_PRECONDITION: the plug-in has no function to serialize.
  absl::StatusOr<std::string> Serialize(const Loaded& loaded) const;
  absl::StatusOr<Loaded> Load(std::string_view compiled) const;
  // Returns everything that determines a compiled form besides the module and the plug-in's file:
  // versions, platform, kind of the first device, compiler options.
  absl::StatusOr<std::string> CompiledFor(uint32_t replicas) const;

  // Runs a module and copies its results from the devices, one after another. The destructor waits
  // until the plug-in no longer uses the caller's memory.
  class Run {
   public:
    // For a module of one replica, on the client's device number `place`, counted from 0.
    Run(const PjrtClient& client, const Loaded& loaded, size_t place);
    // For a module of several replicas, one on each device of the client.
    Run(const PjrtClient& client, const Loaded& loaded);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    // `arguments` has a list for each replica. Called once, before Fetch.
    absl::Status Start(std::span<const std::vector<Argument>> arguments);
    absl::Status Start(const std::vector<Argument>& arguments) { return Start({&arguments, 1}); }
    // Begins to copy a result of a replica to `to`, where PjrtArray::bytes of memory are needed.
    absl::Status Fetch(size_t result, void* to, size_t replica = 0);
    // Waits until the copy that Fetch has begun is complete. Called once for each Fetch.
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
    std::vector<PjrtOwned<PjrtEvent>> done_;  // the plug-in has let go of an argument's memory
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

  // Returns the plug-in's description of a device.
  absl::StatusOr<PjrtDeviceDescription*> Describe(PjrtDevice* device) const;
  // Returns XLA's CompileOptionsProto, serialized.
  absl::StatusOr<std::string> CompileOptions(uint32_t replicas) const;

  const PjrtPlugin plugin_;
  PjrtOwned<PjrtRawClient> client_;
  std::vector<PjrtDevice*> devices_;  // owned by client_
  bool first_ = true;                 // devices_ is only the first device of client_
  std::string platform_;
};

// Returns the status of a Run as GradientProgram::ComputeGradients returns it: OK, INVALID_ARGUMENT
// and RESOURCE_EXHAUSTED unchanged, any other error as DATA_LOSS, which means a lost device.
absl::Status OfRun(const absl::Status& status);

// Which plug-in and devices a program is computed with.
struct PjrtUse {
  std::string device;      // "pjrt:PATH..." (ParsePjrtPlace), or a platform: "cuda:N"
  bool automatic = false;  // `device` was chosen for the user, and any platform will do
  int threads = 1;         // limit on the processor threads of a CPU plug-in
  // If `device` has no number, the GPU number `turn` modulo the count of GPUs is opened.
  uint32_t turn = 0;
  uint64_t memory_max = UINT64_MAX;  // the most bytes of memory that this process may take
};
// Counts the NVIDIA GPUs that this process may use, by CUDA_VISIBLE_DEVICES if set, otherwise by
// the device files in the directory `devices`.
size_t CountGpus(const std::string& devices = "/dev");
// Opens the device or devices of `use`. If `use` has no path of a plug-in, opens the first plug-in
// of PARACORD_PJRT_PLUGINS that is for the platform. NOT_FOUND: there is no such plug-in.
absl::StatusOr<std::unique_ptr<PjrtClient>> OpenPjrtDevice(const PjrtUse& use);

}  // namespace paracord
