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

// A CompileOptionsProto with one replica and one partition in its ExecutableBuildOptionsProto. A
// plug-in aborts the process if either is 0.
constexpr std::string_view kCompileOptions = "\x1a\x04\x20\x01\x28\x01";
// Options with compile_portable_executable, to make a program for any device of the client.
constexpr std::string_view kPortable = "\x1a\x04\x20\x01\x28\x01\x20\x01";
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

}  // namespace

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

std::string_view PjrtClient::CompileOptions() const { return first_ ? kCompileOptions : kPortable; }

absl::StatusOr<PjrtClient::Loaded> PjrtClient::Compile(std::string_view code) const {
  std::string text(code);  // the API takes a non-const pointer
  PjrtProgramCode program;
  program.code = text.data();
  program.code_size = text.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  const std::string_view options = CompileOptions();
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

absl::StatusOr<std::string> PjrtClient::CompiledFor() const {
  PjrtClientPlatformVersionArgs platform;
  platform.client = client_.get();
  RETURN_IF_ERROR(plugin_.Call(platform));
  PjrtDeviceGetDescriptionArgs device;
  device.device = devices_[0];
  RETURN_IF_ERROR(plugin_.Call(device));
  PjrtDeviceDescriptionKindArgs kind;
  kind.device_description = device.device_description;
  RETURN_IF_ERROR(plugin_.Call(kind));
  return absl::StrCat(plugin_.version(), "\n", platform_, "\n",
                      absl::string_view(platform.platform_version, platform.platform_version_size),
                      "\n", absl::string_view(kind.device_kind, kind.device_kind_size), "\n",
                      absl::CHexEscape(std::string(CompileOptions())));
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

PjrtClient::Run::~Run() {
  if (complete_ != nullptr) client_.AwaitEvent(complete_.get()).IgnoreError();
  for (const PjrtOwned<PjrtEvent>& event : fetched_) {
    if (event != nullptr) client_.AwaitEvent(event.get()).IgnoreError();
  }
  results_.clear();
  arguments_.clear();  // releases the arguments; the plug-in no longer views their memory
  for (const PjrtOwned<PjrtEvent>& event : done_) client_.AwaitEvent(event.get()).IgnoreError();
}

absl::Status PjrtClient::Run::Put(const Argument& argument) {
  PjrtClientBufferFromHostBufferArgs args;
  args.client = client_.client_.get();
  args.data = argument.data;
  args.type = argument.array->type;
  args.dims = argument.array->dims.data();
  args.num_dims = argument.array->dims.size();
  args.device = device_;
  RETURN_IF_ERROR(client_.plugin_.Call(args));
  arguments_.push_back(client_.Own(args.buffer));
  if (args.done_with_host_buffer != nullptr) {
    done_.push_back(client_.Own(args.done_with_host_buffer));
  }
  return absl::OkStatus();
}

absl::Status PjrtClient::Run::Start(std::span<const Argument> arguments) {
  for (const Argument& argument : arguments) RETURN_IF_ERROR(Put(argument));
  std::vector<PjrtBuffer*> given, results(loaded_.results.size());
  for (const PjrtOwned<PjrtBuffer>& buffer : arguments_) given.push_back(buffer.get());
  PjrtBuffer* const* const argument_list = given.data();
  PjrtBuffer** const output_list = results.data();
  PjrtEvent* complete = nullptr;
  // The caller's values must stay unchanged, whatever aliases the module declares.
  std::vector<int64_t> kept(given.size());
  std::iota(kept.begin(), kept.end(), 0);
  PjrtExecuteOptions options;
  options.non_donatable_input_indices = kept.data();
  options.num_non_donatable_input_indices = kept.size();
  PjrtLoadedExecuteArgs args;
  args.executable = loaded_.executable.get();
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_args = given.size();
  args.output_lists = &output_list;
  args.device_complete_events = &complete;
  args.execute_device = client_.first_ ? nullptr : device_;
  const absl::Status status = client_.plugin_.Call(args);
  if (complete != nullptr) complete_ = client_.Own(complete);
  for (PjrtBuffer* const result : results) {
    if (result != nullptr) results_.push_back(client_.Own(result));
  }
  fetched_.resize(results.size());
  RETURN_IF_ERROR(status);
  if (results_.size() == results.size()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the PJRT plug-in ", client_.plugin_.path(),
                                          " has left out results of a module"));
}

absl::Status PjrtClient::Run::Fetch(size_t result, void* to) {
  const PjrtArray& array = loaded_.results[result];
  std::vector<int64_t> minor_to_major(array.dims.size());
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  PjrtLayout layout;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  PjrtBufferToHostBufferArgs args;
  args.src = results_[result].get();
  args.host_layout = &layout;
  args.dst = to;
  args.dst_size = array.bytes();
  RETURN_IF_ERROR(client_.plugin_.Call(args));
  fetched_[result] = client_.Own(args.event);
  return absl::OkStatus();
}

absl::Status PjrtClient::Run::Await(size_t result) {
  const PjrtOwned<PjrtEvent> event = std::move(fetched_[result]);
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
