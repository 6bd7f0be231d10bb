// Devices of a PJRT plug-in, for which modules of StableHLO are compiled and on which they run. Any
// thread may call const functions; a Run is used by one thread. Errors name the plug-in.
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

// The type and shape of an array that lies dense and row-major in the host's memory.
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
    std::vector<PjrtArray> results;  // the results' types and shapes, equal for all replicas
  };
  // An array that a Run reads. The memory at `data` must stay unchanged until the Run's destructor.
  struct Argument {
    const PjrtArray* array = nullptr;
    const void* data = nullptr;
  };

  // Opens the devices with these numbers, or all devices of the plug-in if `devices` is empty.
  // INVALID_ARGUMENT: a number is given twice, or the plug-in reports no device of that number. A
  // GPU plug-in allocates memory only on the opened GPUs and only when needed.
  static absl::StatusOr<std::unique_ptr<PjrtClient>> Create(PjrtPlugin plugin,
                                                            std::vector<size_t> devices);

  size_t devices() const { return devices_.size(); }

  const std::string& platform() const { return platform_; }  // "cpu", "cuda", "tpu"
  const PjrtPlugin& plugin() const { return plugin_; }

  // `code` is a portable artefact of StableHLO, or MLIR as text. With `replicas` above 1, which
  // must equal devices(), the module runs on all devices at once; otherwise on any one device.
  absl::StatusOr<Loaded> Compile(std::string_view code, uint32_t replicas = 1) const;

  // Returns a module's compiled form, for Load in a process with an equal CompiledFor and the same
  // file of the plug-in. FAILED_PRECONDITION: the plug-in has no function to serialize.
  absl::StatusOr<std::string> Serialize(const Loaded& loaded) const;
  absl::StatusOr<Loaded> Load(std::string_view compiled) const;
  // Returns what a compiled form depends on besides the module, the plug-in's file and the machine:
  // versions, platform, kind of the first device, and the compiler's options.
  absl::StatusOr<std::string> CompiledFor(uint32_t replicas) const;

  // Runs a module once, by Start, and copies its results to the host, each by Fetch and Await. The
  // destructor waits until the plug-in no longer uses the caller's memory.
  class Run {
   public:
    // For a module of one replica. `place`: the device's index among those that the client opened.
    Run(const PjrtClient& client, const Loaded& loaded, size_t place);
    // For a module of several replicas, one on each device of the client.
    Run(const PjrtClient& client, const Loaded& loaded);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    // `arguments` has a list for each replica. Called once, before the first Fetch.
    absl::Status Start(std::span<const std::vector<Argument>> arguments);
    absl::Status Start(const std::vector<Argument>& arguments) { return Start({&arguments, 1}); }
    // Begins to copy a result of a replica to `to`, which needs room for PjrtArray::bytes() bytes.
    absl::Status Fetch(size_t result, void* to, size_t replica = 0);
    // Waits until the copy that Fetch has begun is complete. Called at most once for each Fetch.
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
    std::vector<PjrtOwned<PjrtEvent>> done_;  // the memory of an argument is no longer used
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

  absl::StatusOr<PjrtDeviceDescription*> Describe(PjrtDevice* device) const;
  // Returns XLA's CompileOptionsProto, serialized.
  absl::StatusOr<std::string> CompileOptions(uint32_t replicas) const;

  const PjrtPlugin plugin_;
  PjrtOwned<PjrtRawClient> client_;
  std::vector<PjrtDevice*> devices_;  // owned by client_
  bool first_ = true;                 // devices_ has only the first device of client_
  std::string platform_;
};

// Returns the status of a Run as GradientProgram::ComputeGradients returns it: OK, INVALID_ARGUMENT
// and RESOURCE_EXHAUSTED unchanged, any other error as DATA_LOSS, which means a lost device.
absl::Status OfRun(const absl::Status& status);

// Which plug-in and devices a program is computed with.
struct PjrtUse {
  std::string device;      // "pjrt:PATH..." (PjrtPlace), or a platform such as "cpu" or "cuda:N"
  bool automatic = false;  // the user named no `device`: any platform will do
  int threads = 1;         // the most processor threads of a CPU plug-in
  // With several GPUs, number `turn` modulo their count is opened if `device` is "pjrt:PATH"
  // without a number, or if `automatic` and `device` is a platform.
  uint32_t turn = 0;
  uint64_t memory_max = UINT64_MAX;  // the most bytes of memory that this process may take
};
// Counts the NVIDIA GPUs that this process may use, by CUDA_VISIBLE_DEVICES if set, otherwise by
// the device files in the directory `devices`.
size_t CountGpus(const std::string& devices = "/dev");
// Opens the device or devices of `use`. If use.device is a platform, tries the plug-ins of
// PARACORD_PJRT_PLUGINS in order, and takes the first that opens and is for the platform (if
// `automatic`, for any platform). NOT_FOUND: there is no such plug-in.
absl::StatusOr<std::unique_ptr<PjrtClient>> OpenPjrtDevice(const PjrtUse& use);

}  // namespace paracord
