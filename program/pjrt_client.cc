#include "program/pjrt_client.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "config/shape.h"

namespace paracord {
namespace {

constexpr std::string_view kFormat = "mlir";
constexpr size_t kResultsMax = size_t{1} << 24;

const char* NameOf(PjrtType type) {
  switch (type) {
    case PjrtType::kInt32:
      return "int32";
    case PjrtType::kInt64:
      return "int64";
    case PjrtType::kUint32:
      return "uint32";
    case PjrtType::kFloat32:
      return "float32";
  }
  return "of another type";
}

// Appends a varint, and fields of numbers and of bytes, in protobuf's wire format.
void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}
void AppendNumber(uint32_t field, uint64_t value, std::string& to) {
  AppendVarint(field << 3, to);
  AppendVarint(value, to);
}
void AppendBytes(uint32_t field, std::string_view bytes, std::string& to) {
  AppendVarint(field << 3 | 2, to);
  AppendVarint(bytes.size(), to);
  to += bytes;
}

// Returns XLA's DeviceAssignmentProto of one computation, whose replica i runs on device ids[i].
std::string DeviceAssignment(std::span<const uint64_t> ids) {
  constexpr uint32_t kReplicaCount = 1, kComputationCount = 2, kComputationDevices = 3;
  constexpr uint32_t kReplicaDeviceIds = 1;  // of ComputationDevice
  std::string numbers, devices, assignment;
  for (const uint64_t id : ids) AppendVarint(id, numbers);
  AppendBytes(kReplicaDeviceIds, numbers, devices);
  AppendNumber(kReplicaCount, ids.size(), assignment);
  AppendNumber(kComputationCount, 1, assignment);
  AppendBytes(kComputationDevices, devices, assignment);
  return assignment;
}

}  // namespace

absl::Status OfRun(const absl::Status& status) {
  if (status.ok() || absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status)) {
    return status;
  }
  return absl::DataLossError(status.message());
}

uint64_t ElementBytes(PjrtType type) {
  return type == PjrtType::kInt64 ? sizeof(int64_t) : sizeof(float);
}

uint64_t PjrtArray::bytes() const {
  return static_cast<uint64_t>(Elements(dims)) * ElementBytes(type);
}

std::string ArrayText(const PjrtArray& array) {
  return absl::StrCat(NameOf(array.type), " ", ShapeName(array.dims));
}

absl::StatusOr<std::unique_ptr<PjrtClient>> PjrtClient::Create(PjrtPlugin plugin,
                                                               std::vector<size_t> devices) {
  std::unique_ptr<PjrtClient> client(new PjrtClient(std::move(plugin)));
  RETURN_IF_ERROR(client->Open(std::move(devices)));
  return client;
}

absl::Status PjrtClient::MakeClient(const std::vector<size_t>& devices) {
  static constexpr std::string_view kVisible = "visible_devices", kPreallocate = "preallocate";
  const std::vector<int64_t> visible(devices.begin(), devices.end());
  PjrtNamedValue options[2];
  options[0].name = kPreallocate.data();
  options[0].name_size = kPreallocate.size();
  options[0].bool_value = false;  // preallocation would take three quarters of the GPU's memory
  options[1].name = kVisible.data();
  options[1].name_size = kVisible.size();
  options[1].type = PjrtNamedValue::kInt64List;
  options[1].int64_array_value = visible.data();
  options[1].value_size = visible.size();
  PjrtClientCreateArgs create;
  if (plugin_.for_gpus()) {
    create.create_options = options;
    create.num_options = visible.empty() ? 1 : 2;
  }
  RETURN_IF_ERROR(plugin_.Call(create));
  client_ = Own(create.client);
  return absl::OkStatus();
}

absl::Status PjrtClient::Open(std::vector<size_t> devices) {
  std::vector<size_t> sorted = devices;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a device of the PJRT plug-in ", plugin_.path(), " is named twice"));
  }
  RETURN_IF_ERROR(MakeClient(devices));
  PjrtClientPlatformNameArgs name;
  name.client = client_.get();
  RETURN_IF_ERROR(plugin_.Call(name));
  platform_.assign(name.platform_name, name.platform_name_size);
  PjrtClientAddressableDevicesArgs there;
  there.client = client_.get();
  RETURN_IF_ERROR(plugin_.Call(there));
  if (devices.empty()) devices.resize(there.num_addressable_devices);
  // A GPU client sees only the named devices, numbered from 0.
  if (plugin_.for_gpus() || sorted.empty()) std::iota(devices.begin(), devices.end(), 0);
  for (const size_t device : devices) {
    if (device >= there.num_addressable_devices) {
      return absl::InvalidArgumentError(absl::StrCat("the PJRT plug-in ", plugin_.path(), " has ",
                                                     there.num_addressable_devices,
                                                     " devices here, the first is 0"));
    }
    devices_.push_back(there.addressable_devices[device]);
  }
  if (devices_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the PJRT plug-in ", plugin_.path(), " has no device here"));
  }
  first_ = devices.size() == 1 && devices[0] == 0;
  return absl::OkStatus();
}

absl::StatusOr<PjrtDeviceDescription*> PjrtClient::Describe(PjrtDevice* device) const {
  PjrtDeviceGetDescriptionArgs args;
  args.device = device;
  RETURN_IF_ERROR(plugin_.Call(args));
  return args.device_description;
}

absl::StatusOr<std::string> PjrtClient::CompileOptions(uint32_t replicas) const {
  constexpr uint32_t kBuildOptions = 3, kPortable = 4;
  // Fields of ExecutableBuildOptionsProto. A plug-in aborts the process if either number is 0.
  constexpr uint32_t kReplicas = 4, kPartitions = 5, kDeviceAssignment = 9;
  std::string build, options;
  AppendNumber(kReplicas, replicas, build);
  AppendNumber(kPartitions, 1, build);
  if (replicas > 1) {
    std::vector<uint64_t> ids;
    for (PjrtDevice* const device : devices_) {
      PjrtDeviceDescriptionIdArgs args;
      ASSIGN_OR_RETURN(args.device_description, Describe(device));
      RETURN_IF_ERROR(plugin_.Call(args));
      ids.push_back(static_cast<uint64_t>(args.id));
    }
    AppendBytes(kDeviceAssignment, DeviceAssignment(ids), build);
  }
  AppendBytes(kBuildOptions, build, options);
  // A portable executable runs on any device of the client.
  if (replicas == 1 && !first_) AppendNumber(kPortable, 1, options);
  return options;
}

absl::StatusOr<PjrtClient::Loaded> PjrtClient::Compile(std::string_view code,
                                                       uint32_t replicas) const {
  std::string text(code);  // the API takes a non-const pointer
  PjrtProgramCode program;
  program.code = text.data();
  program.code_size = text.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  ASSIGN_OR_RETURN(const std::string options, CompileOptions(replicas));
  PjrtClientCompileArgs args;
  args.client = client_.get();
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  RETURN_IF_ERROR(plugin_.Call(args));
  Loaded loaded{Own(args.executable), {}};
  ASSIGN_OR_RETURN(loaded.results, ResultsOf(loaded.executable.get()));
  return loaded;
}

absl::StatusOr<std::string> PjrtClient::Serialize(const Loaded& loaded) const {
  PjrtLoadedGetExecutableArgs get;
  get.loaded_executable = loaded.executable.get();
  RETURN_IF_ERROR(plugin_.Call(get));
  const PjrtOwned<PjrtExecutable> executable = Own(get.executable);
  PjrtExecutableSerializeArgs args;
  args.executable = executable.get();
  RETURN_IF_ERROR(plugin_.Call(args));
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  if (args.serialized_executable_deleter != nullptr) {
    args.serialized_executable_deleter(args.serialized_executable);
  }
  return bytes;
}

absl::StatusOr<PjrtClient::Loaded> PjrtClient::Load(std::string_view compiled) const {
  PjrtExecutableDeserializeAndLoadArgs args;
  args.client = client_.get();
  args.serialized_executable = compiled.data();
  args.serialized_executable_size = compiled.size();
  RETURN_IF_ERROR(plugin_.Call(args));
  Loaded loaded{Own(args.loaded_executable), {}};
  ASSIGN_OR_RETURN(loaded.results, ResultsOf(loaded.executable.get()));
  return loaded;
}

absl::StatusOr<std::string> PjrtClient::CompiledFor(uint32_t replicas) const {
  PjrtClientPlatformVersionArgs platform;
  platform.client = client_.get();
  RETURN_IF_ERROR(plugin_.Call(platform));
  PjrtDeviceDescriptionKindArgs kind;
  ASSIGN_OR_RETURN(kind.device_description, Describe(devices_[0]));
  RETURN_IF_ERROR(plugin_.Call(kind));
  ASSIGN_OR_RETURN(const std::string options, CompileOptions(replicas));
  return absl::StrCat(plugin_.version(), "\n", platform_, "\n",
                      absl::string_view(platform.platform_version, platform.platform_version_size),
                      "\n", absl::string_view(kind.device_kind, kind.device_kind_size), "\n",
                      absl::CHexEscape(options));
}

absl::StatusOr<std::vector<PjrtArray>> PjrtClient::ResultsOf(PjrtLoaded* loaded) const {
  PjrtLoadedGetExecutableArgs get;
  get.loaded_executable = loaded;
  RETURN_IF_ERROR(plugin_.Call(get));
  const PjrtOwned<PjrtExecutable> executable = Own(get.executable);
  PjrtExecutableNumOutputsArgs number;
  number.executable = executable.get();
  RETURN_IF_ERROR(plugin_.Call(number));
  PjrtExecutableOutputElementTypesArgs types;
  types.executable = executable.get();
  RETURN_IF_ERROR(plugin_.Call(types));
  PjrtExecutableOutputDimensionsArgs sizes;
  sizes.executable = executable.get();
  sizes.num_outputs = number.num_outputs;
  RETURN_IF_ERROR(plugin_.Call(sizes));
  if (number.num_outputs > kResultsMax || types.num_output_types != number.num_outputs) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the PJRT plug-in ", plugin_.path(), " says of a module that it has ", number.num_outputs,
        " results, and of ", types.num_output_types, " what they are"));
  }
  std::vector<PjrtArray> results;
  const int64_t* dims = sizes.dims;
  for (size_t i = 0; i < number.num_outputs; ++i) {
    const size_t axes = sizes.dim_sizes[i];
    results.push_back({static_cast<PjrtType>(types.output_types[i]), {dims, dims + axes}});
    dims += axes;
  }
  return results;
}

absl::Status PjrtClient::AwaitEvent(PjrtEvent* event) const {
  PjrtEventAwaitArgs args;
  args.event = event;
  return plugin_.Call(args);
}

PjrtClient::Run::Run(const PjrtClient& client, const Loaded& loaded, size_t place)
    : client_(client), loaded_(loaded) {
  Add(client.devices_[place]);
}

PjrtClient::Run::Run(const PjrtClient& client, const Loaded& loaded)
    : client_(client), loaded_(loaded) {
  for (PjrtDevice* const device : client.devices_) Add(device);
}

PjrtClient::Run::~Run() {
  const auto await = [&](const PjrtOwned<PjrtEvent>& event) {
    if (event != nullptr) client_.AwaitEvent(event.get()).IgnoreError();
  };
  for (const Replica& replica : replicas_) await(replica.complete);
  for (Replica& replica : replicas_) {
    for (const PjrtOwned<PjrtEvent>& event : replica.fetched) await(event);
    replica.results.clear();
    replica.arguments.clear();  // the plug-in no longer views the arguments' memory
  }
  for (const PjrtOwned<PjrtEvent>& event : done_) await(event);
}

absl::Status PjrtClient::Run::Put(const Argument& argument, Replica& replica) {
  PjrtClientBufferFromHostBufferArgs args;
  args.client = client_.client_.get();
  args.data = argument.data;
  args.type = argument.array->type;
  args.dims = argument.array->dims.data();
  args.num_dims = argument.array->dims.size();
  args.device = replica.device;
  RETURN_IF_ERROR(client_.plugin_.Call(args));
  replica.arguments.push_back(client_.Own(args.buffer));
  if (args.done_with_host_buffer != nullptr) {
    done_.push_back(client_.Own(args.done_with_host_buffer));
  }
  return absl::OkStatus();
}

absl::Status PjrtClient::Run::Start(std::span<const std::vector<Argument>> arguments) {
  for (size_t i = 0; i < replicas_.size(); ++i) {
    for (const Argument& argument : arguments[i]) RETURN_IF_ERROR(Put(argument, replicas_[i]));
  }
  RETURN_IF_ERROR(Execute(arguments[0].size()));
  for (const Replica& replica : replicas_) {
    if (replica.results.size() == loaded_.results.size()) continue;
    return absl::InternalError(absl::StrCat("the PJRT plug-in ", client_.plugin_.path(),
                                            " has left out results of a module"));
  }
  return absl::OkStatus();
}

absl::Status PjrtClient::Run::Execute(size_t arguments) {
  const size_t results = loaded_.results.size();
  std::vector<std::vector<PjrtBuffer*>> given(replicas_.size());
  std::vector<std::vector<PjrtBuffer*>> taken(replicas_.size(), std::vector<PjrtBuffer*>(results));
  std::vector<PjrtBuffer* const*> argument_lists;
  std::vector<PjrtBuffer**> output_lists;
  std::vector<PjrtEvent*> complete(replicas_.size());
  for (size_t i = 0; i < replicas_.size(); ++i) {
    for (const auto& buffer : replicas_[i].arguments) given[i].push_back(buffer.get());
    argument_lists.push_back(given[i].data());
    output_lists.push_back(taken[i].data());
  }
  // The caller's values must stay unchanged, whatever aliases the module declares.
  std::vector<int64_t> kept(arguments);
  std::iota(kept.begin(), kept.end(), 0);
  PjrtExecuteOptions options;
  options.non_donatable_input_indices = kept.data();
  options.num_non_donatable_input_indices = kept.size();
  PjrtLoadedExecuteArgs args;
  args.executable = loaded_.executable.get();
  args.options = &options;
  args.argument_lists = argument_lists.data();
  args.num_devices = replicas_.size();
  args.num_args = arguments;
  args.output_lists = output_lists.data();
  args.device_complete_events = complete.data();
  const bool portable = replicas_.size() == 1 && !client_.first_;
  args.execute_device = portable ? replicas_[0].device : nullptr;
  const absl::Status status = client_.plugin_.Call(args);
  for (size_t i = 0; i < replicas_.size(); ++i) {
    if (complete[i] != nullptr) replicas_[i].complete = client_.Own(complete[i]);
    for (PjrtBuffer* const result : taken[i]) {
      if (result != nullptr) replicas_[i].results.push_back(client_.Own(result));
    }
    replicas_[i].fetched.resize(results);
  }
  return status;
}

absl::Status PjrtClient::Run::Fetch(size_t result, void* to, size_t replica) {
  const PjrtArray& array = loaded_.results[result];
  std::vector<int64_t> minor_to_major(array.dims.size());
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  PjrtLayout layout;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  PjrtBufferToHostBufferArgs args;
  args.src = replicas_[replica].results[result].get();
  args.host_layout = &layout;
  args.dst = to;
  args.dst_size = array.bytes();
  RETURN_IF_ERROR(client_.plugin_.Call(args));
  replicas_[replica].fetched[result] = client_.Own(args.event);
  return absl::OkStatus();
}

absl::Status PjrtClient::Run::Await(size_t result, size_t replica) {
  const PjrtOwned<PjrtEvent> event = std::move(replicas_[replica].fetched[result]);
  return client_.AwaitEvent(event.get());
}

size_t CountGpus(const std::string& devices) {
  constexpr std::string_view kDevice = "nvidia";
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    const std::vector<absl::string_view> names = absl::StrSplit(visible, ',', absl::SkipEmpty());
    return names.size();
  }
  size_t count = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(devices, none)) {
    const std::string name = entry.path().filename();
    uint32_t number = 0;
    count += name.starts_with(kDevice) && absl::SimpleAtoi(name.substr(kDevice.size()), &number);
  }
  return count;
}

absl::StatusOr<std::unique_ptr<PjrtClient>> OpenPjrtDevice(const PjrtUse& use) {
  const auto open = [&](const std::string& path, std::vector<size_t> devices,
                        bool all) -> absl::StatusOr<std::unique_ptr<PjrtClient>> {
    ASSIGN_OR_RETURN(PjrtPlugin plugin, PjrtPlugin::Load(path, use.threads));
    const size_t gpus = plugin.for_gpus() ? CountGpus() : 0;
    if (all) {
      devices.resize(gpus);
      std::iota(devices.begin(), devices.end(), 0);
    } else if (devices.empty()) {
      devices.push_back(gpus == 0 ? 0 : use.turn % gpus);
    }
    return PjrtClient::Create(std::move(plugin), std::move(devices));
  };
  if (IsPjrtDevice(use.device)) {
    PjrtPlace place = ParsePjrtPlace(use.device);
    return open(place.path, std::move(place.devices), place.all);
  }
  const std::vector<std::string> paths = PjrtPluginPaths();
  if (paths.empty()) {
    return absl::NotFoundError(
        "a program of StableHLO is computed by a PJRT plug-in, and none is named: say --device "
        "pjrt:PATH of its library, or PARACORD_PJRT_PLUGINS=PATH in the environment");
  }
  const std::vector<std::string> wanted = absl::StrSplit(use.device, ':');
  size_t index = 0;
  const bool numbered = wanted.size() == 1 || absl::SimpleAtoi(wanted[1], &index);
  std::string why;
  for (const std::string& path : paths) {
    auto client =
        open(path, use.automatic ? std::vector<size_t>() : std::vector<size_t>{index}, false);
    if (!client.ok()) {
      absl::StrAppend(&why, "; ", client.status().message());
    } else if (use.automatic || (numbered && (*client)->platform() == wanted[0])) {
      return client;
    } else {
      absl::StrAppend(&why, "; ", path, " is for ", (*client)->platform());
    }
  }
  return absl::NotFoundError(absl::StrCat("no plug-in of PARACORD_PJRT_PLUGINS computes on ",
                                          use.automatic ? "this machine" : use.device, why));
}

}  // namespace paracord
