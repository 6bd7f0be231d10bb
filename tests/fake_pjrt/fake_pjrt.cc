// A PJRT plug-in for tests, without XLA. Its "StableHLO" is a text with a line for each result,
//   TYPE DIMS CONSTANT FACTOR ARGUMENT [sum]
// such as "f32 2x3 0.5 2 1" or, for a scalar, "f32 - 1 0 0". Element i of the result is the
// constant plus the factor times element i of the argument, modulo the argument's size. With "sum"
// each replica has the sum of the results of all replicas.
// PARACORD_FAKE_PJRT has words that make the plug-in fail:
//   fail=FUNCTION[:CODE[:CALLS]]  the function returns the error, from call number CALLS on
//   missing=FUNCTION              the function's pointer is null
//   functions=N                   struct_size has room for N functions only
//   major=N, platform=NAME, devices=N, slow_ms=N (delay of events)
//   gpus=N                        a GPU plug-in: a client must say which GPUs it may see, and not
//                                 to take all memory at once
//   version=TEXT                  the version; compiled forms of other versions are refused
//   aligned=1                     refuses arrays that XLA would have to copy in order to read them
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/aligned_memory.h"
#include "program/pjrt_api.h"

namespace paracord {

struct PjrtError {
  int code;
  std::string message;
};
struct PjrtEvent {
  std::chrono::steady_clock::time_point at;
  PjrtError* error = nullptr;
};
struct PjrtDeviceDescription {
  std::string kind;
  int id = 0;
};
struct PjrtDevice {
  PjrtDeviceDescription description;
};
struct PjrtSerialized {
  std::string bytes;
};
struct PjrtRawClient {
  PjrtRawClient() {
    // Ids differ from places, and some take two bytes as a varint.
    for (int i = 0; i < 8; ++i) devices[i].description = {"fake", 50 * i + 3};
  }
  std::string platform;
  PjrtDevice devices[8];
  std::vector<PjrtDevice*> list;
};
struct PjrtBuffer {
  const PjrtDevice* device;
  int type;
  std::vector<int64_t> dims;
  std::vector<double> numbers;
};
struct FakeResult {
  int type;
  std::vector<int64_t> dims;
  double constant, factor;
  size_t argument;
  bool sum;
};
// What a module is compiled for: the ids of the replicas' devices, or any device (portable), or the
// first.
struct FakeTarget {
  bool portable = false;
  std::vector<int> replicas;
};
struct PjrtLoaded {
  std::vector<FakeResult> results;
  FakeTarget target;
  std::string code;
};
struct PjrtExecutable {
  std::string code;
  FakeTarget target;
  std::vector<int> types;
  std::vector<int64_t> dims;
  std::vector<size_t> sizes;
};

namespace {

// Returns the value of a word in PARACORD_FAKE_PJRT, or "".
std::string Said(const std::string& key) {
  const char* const set = std::getenv("PARACORD_FAKE_PJRT");
  std::istringstream words(set == nullptr ? "" : set);
  for (std::string word; words >> word;) {
    if (word.starts_with(key + "=")) return word.substr(key.size() + 1);
  }
  return "";
}

PjrtError* Fail(int code, const std::string& message) { return new PjrtError{code, message}; }

// Returns the error that PARACORD_FAKE_PJRT orders for a call of the function.
PjrtError* Told(const PjrtFunction& function) {
  static std::map<std::string, int> calls;
  const std::string told = Said("fail"), name = told.substr(0, told.find(':'));
  if (name != function.name) return nullptr;
  int code = 13, from = 0;
  std::istringstream rest(told.substr(name.size()));
  char colon = 0;
  rest >> colon >> code >> colon >> from;
  if (calls[told]++ < from) return nullptr;
  return Fail(code, std::string("told to fail in ") + function.name);
}

PjrtEvent* Event() {
  const std::string slow = Said("slow_ms");
  const auto wait = std::chrono::milliseconds(slow.empty() ? 0 : std::atoi(slow.c_str()));
  return new PjrtEvent{std::chrono::steady_clock::now() + wait};
}

void Do(PjrtErrorDestroyArgs& args) { delete args.error; }
void Do(PjrtErrorMessageArgs& args) {
  args.message = args.error->message.data();
  args.message_size = args.error->message.size();
}
PjrtError* Do(PjrtErrorGetCodeArgs& args) { return args.code = args.error->code, nullptr; }
PjrtError* Do(PjrtPluginInitializeArgs&) { return nullptr; }

PjrtError* Do(PjrtEventAwaitArgs& args) {
  std::this_thread::sleep_until(args.event->at);
  return nullptr;
}

PjrtError* SeeGpus(const PjrtClientCreateArgs& args, int gpus) {
  bool whole = true;
  for (size_t i = 0; i < args.num_options; ++i) {
    const PjrtNamedValue& option = args.create_options[i];
    const std::string name(option.name, option.name_size);
    if (name == "preallocate" && option.type == PjrtNamedValue::kBool) {
      whole = option.bool_value;
      continue;
    }
    if (name != "visible_devices" || option.type != PjrtNamedValue::kInt64List) {
      return Fail(3, "unknown option " + name);
    }
    for (size_t n = 0; n < option.value_size; ++n) {
      const int64_t gpu = option.int64_array_value[n];
      if (gpu < 0 || gpu >= gpus) return Fail(3, "there is no GPU " + std::to_string(gpu));
      args.client->list.push_back(&args.client->devices[gpu]);
    }
  }
  return whole ? Fail(8, "another process has the memory") : nullptr;
}

PjrtError* SeeDevices(const PjrtClientCreateArgs& args) {
  const std::string platform = Said("platform"), devices = Said("devices"), gpus = Said("gpus");
  args.client->platform = platform.empty() ? gpus.empty() ? "cpu" : "cuda" : platform;
  if (!gpus.empty()) return SeeGpus(args, std::atoi(gpus.c_str()));
  if (args.num_options != 0) return Fail(3, "a client has no options");
  const int count = devices.empty() ? 1 : std::atoi(devices.c_str());
  for (int i = 0; i < count; ++i) args.client->list.push_back(&args.client->devices[i]);
  return nullptr;
}

PjrtError* Do(PjrtClientCreateArgs& args) {
  args.client = new PjrtRawClient;
  PjrtError* const error = SeeDevices(args);
  if (error != nullptr) delete std::exchange(args.client, nullptr);
  return error;
}

PjrtError* Do(PjrtClientPlatformNameArgs& args) {
  args.platform_name = args.client->platform.data();
  args.platform_name_size = args.client->platform.size();
  return nullptr;
}

PjrtError* Do(PjrtClientPlatformVersionArgs& args) {
  static std::string version;
  version = Said("version");
  args.platform_version = version.data();
  args.platform_version_size = version.size();
  return nullptr;
}

PjrtError* Do(PjrtDeviceGetDescriptionArgs& args) {
  args.device_description = &args.device->description;
  return nullptr;
}

PjrtError* Do(PjrtDeviceDescriptionIdArgs& args) {
  return args.id = args.device_description->id, nullptr;
}

PjrtError* Do(PjrtDeviceDescriptionKindArgs& args) {
  args.device_kind = args.device_description->kind.data();
  args.device_kind_size = args.device_description->kind.size();
  return nullptr;
}

PjrtError* Do(PjrtClientAddressableDevicesArgs& args) {
  args.addressable_devices = args.client->list.data();
  args.num_addressable_devices = args.client->list.size();
  return nullptr;
}

PjrtError* Compile(const std::string& code, FakeTarget target, PjrtLoaded*& compiled) {
  std::istringstream text(code);
  auto* const loaded = new PjrtLoaded{{}, std::move(target), code};
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string type, dims, axis;
    FakeResult result{};
    if (!(words >> type >> dims >> result.constant >> result.factor >> result.argument)) {
      delete loaded;
      return Fail(3, "this is no module: " + line);
    }
    if (type == "call") {
      delete loaded;
      return Fail(12, "No registered implementation for custom call to " + dims);
    }
    result.type = type == "f32" ? 11 : type == "i32" ? 4 : 1;
    std::string sum;
    result.sum = words >> sum && sum == "sum";
    std::istringstream axes(dims == "-" ? "" : dims);
    while (std::getline(axes, axis, 'x')) result.dims.push_back(std::atoll(axis.c_str()));
    loaded->results.push_back(result);
  }
  compiled = loaded;
  return nullptr;
}

// Takes fields of protobuf's wire format: numbers by field, and bytes by field.
struct FakeFields {
  explicit FakeFields(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const uint64_t tag = Varint(bytes, at);
      const uint64_t number = Varint(bytes, at);
      if (tag % 8 == 0) {
        numbers[tag / 8] = number;
      } else {
        texts[tag / 8] = bytes.substr(at, number);
        at += number;
      }
    }
  }
  static uint64_t Varint(const std::string& bytes, size_t& at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
  }
  std::map<uint64_t, uint64_t> numbers;
  std::map<uint64_t, std::string> texts;
};

PjrtError* Do(PjrtClientCompileArgs& args) {
  const FakeFields options(std::string(args.compile_options, args.compile_options_size));
  FakeFields build(options.texts.at(3));
  const uint64_t replicas = build.numbers[4];
  if (replicas == 0 || build.numbers[5] != 1) std::abort();  // XLA's plug-ins abort here, too
  FakeTarget target;
  target.portable = options.numbers.contains(4);
  if (replicas > 1) {
    FakeFields assignment(build.texts.at(9));
    const std::string ids = FakeFields(assignment.texts.at(3)).texts.at(1);
    for (size_t at = 0; at < ids.size();) {
      target.replicas.push_back(static_cast<int>(FakeFields::Varint(ids, at)));
    }
    if (assignment.numbers[1] != replicas || assignment.numbers[2] != 1 ||
        target.replicas.size() != replicas) {
      return Fail(3, "not each replica has a device");
    }
  }
  const std::string code(args.program->code, args.program->code_size);
  return Compile(code, std::move(target), args.executable);
}

// A compiled form is the version, a line of the devices, and the code.
PjrtError* Do(PjrtExecutableSerializeArgs& args) {
  std::string form = "fake " + Said("version") + "\n";
  if (args.executable->target.portable) form += "any";
  for (const int id : args.executable->target.replicas) form += std::to_string(id) + " ";
  args.serialized_executable = new PjrtSerialized{form + "\n" + args.executable->code};
  args.serialized_bytes = args.serialized_executable->bytes.data();
  args.serialized_bytes_size = args.serialized_executable->bytes.size();
  args.serialized_executable_deleter = [](PjrtSerialized* serialized) { delete serialized; };
  return nullptr;
}

PjrtError* Do(PjrtExecutableDeserializeAndLoadArgs& args) {
  const std::string bytes(args.serialized_executable, args.serialized_executable_size);
  const std::string head = "fake " + Said("version") + "\n";
  if (!bytes.starts_with(head)) return Fail(3, "the compiled form is of another version");
  const size_t end = std::min(bytes.find('\n', head.size()), bytes.size() - 1);
  const std::string devices = bytes.substr(head.size(), end - head.size());
  std::istringstream ids(devices);
  FakeTarget target{devices == "any", {}};
  for (int id = 0; ids >> id;) target.replicas.push_back(id);
  return Compile(bytes.substr(end + 1), std::move(target), args.loaded_executable);
}

PjrtError* Do(PjrtClientBufferFromHostBufferArgs& args) {
  if (Said("aligned") == "1" && !IsArrayAligned(args.data)) {
    return Fail(3, "an array begins elsewhere than at a cache line");
  }
  size_t elements = 1;
  for (size_t i = 0; i < args.num_dims; ++i) elements *= static_cast<size_t>(args.dims[i]);
  auto* const buffer = new PjrtBuffer{
      args.device, static_cast<int>(args.type), {args.dims, args.dims + args.num_dims}, {}};
  for (size_t i = 0; i < elements; ++i) {
    const auto number = [&](auto zero) {
      std::memcpy(&zero, static_cast<const char*>(args.data) + i * sizeof(zero), sizeof(zero));
      buffer->numbers.push_back(static_cast<double>(zero));
    };
    if (args.type == PjrtType::kFloat32) number(0.f);
    if (args.type == PjrtType::kInt32) number(int32_t{0});
    if (args.type == PjrtType::kUint32) number(uint32_t{0});
    if (args.type == PjrtType::kInt64) number(int64_t{0});
  }
  args.buffer = buffer;
  args.done_with_host_buffer = Event();
  return nullptr;
}

PjrtError* Do(PjrtLoadedGetExecutableArgs& args) {
  const PjrtLoaded& loaded = *args.loaded_executable;
  args.executable = new PjrtExecutable{loaded.code, loaded.target, {}, {}, {}};
  for (const FakeResult& result : args.loaded_executable->results) {
    args.executable->types.push_back(result.type);
    args.executable->sizes.push_back(result.dims.size());
    for (const int64_t axis : result.dims) args.executable->dims.push_back(axis);
  }
  return nullptr;
}

PjrtError* Do(PjrtExecutableNumOutputsArgs& args) {
  return args.num_outputs = args.executable->types.size(), nullptr;
}
PjrtError* Do(PjrtExecutableOutputElementTypesArgs& args) {
  args.output_types = args.executable->types.data();
  args.num_output_types = args.executable->types.size();
  return nullptr;
}
PjrtError* Do(PjrtExecutableOutputDimensionsArgs& args) {
  args.dims = args.executable->dims.data();
  args.dim_sizes = args.executable->sizes.data();
  return nullptr;
}

// Returns the error of a run on other devices than those that the module was compiled for.
PjrtError* Misplaced(const PjrtLoadedExecuteArgs& args) {
  const FakeTarget& target = args.executable->target;
  const size_t replicas = std::max<size_t>(target.replicas.size(), 1);
  if (args.num_devices != replicas || target.portable != (args.execute_device != nullptr)) {
    return Fail(3, "the device is not the one that the module was compiled for");
  }
  for (size_t d = 0; d < args.num_devices; ++d) {
    for (size_t i = 0; i < args.num_args; ++i) {
      const int id = args.argument_lists[d][i]->device->description.id;
      const bool placed = target.replicas.empty() ? args.execute_device == nullptr ||
                                                        args.execute_device->description.id == id
                                                  : target.replicas[d] == id;
      if (!placed) return Fail(3, "an argument is on another device");
    }
  }
  return nullptr;
}

double Element(const FakeResult& result, const PjrtBuffer* const* arguments, size_t i) {
  if (result.factor == 0) return result.constant;
  const std::vector<double>& from = arguments[result.argument]->numbers;
  return result.constant + result.factor * from[i % from.size()];
}

PjrtError* Do(PjrtLoadedExecuteArgs& args) {
  if (PjrtError* const error = Misplaced(args); error != nullptr) return error;
  for (size_t r = 0; r < args.executable->results.size(); ++r) {
    const FakeResult& result = args.executable->results[r];
    if (result.argument >= args.num_args && result.factor != 0) {
      return Fail(3, "the module has more arguments");
    }
    size_t elements = 1;
    for (const int64_t axis : result.dims) elements *= static_cast<size_t>(axis);
    for (size_t d = 0; d < args.num_devices; ++d) {
      auto* const buffer = new PjrtBuffer{nullptr, result.type, result.dims, {}};
      for (size_t i = 0; i < elements; ++i) {
        double number = result.sum ? 0 : Element(result, args.argument_lists[d], i);
        for (size_t from = 0; result.sum && from < args.num_devices; ++from) {
          number += Element(result, args.argument_lists[from], i);
        }
        buffer->numbers.push_back(number);
      }
      args.output_lists[d][r] = buffer;
    }
  }
  for (size_t d = 0; d < args.num_devices; ++d) args.device_complete_events[d] = Event();
  return nullptr;
}

PjrtError* Do(PjrtBufferToHostBufferArgs& args) {
  if (args.dst_size < args.src->numbers.size() * sizeof(float)) return Fail(3, "too little room");
  for (size_t i = 0; i < args.src->numbers.size(); ++i) {
    static_cast<float*>(args.dst)[i] = static_cast<float>(args.src->numbers[i]);
  }
  args.event = Event();
  return nullptr;
}

template <class Object>
PjrtError* Do(PjrtDestroyArgs<Object>& args) {
  delete args.object;
  return nullptr;
}

template <class Args>
PjrtError* Called(Args* args) {
  PjrtError* const told = Told(Args::kFunction);
  if constexpr (requires { args->object; }) {
    Do(*args);  // avoids a leak
    return told;
  }
  return told != nullptr ? told : Do(*args);
}
// The functions about errors cannot fail.
template <class Args>
void CalledVoid(Args* args) {
  Do(*args);
}

constexpr size_t kFunctions = 128;
struct FakeApi {
  size_t struct_size;
  const PjrtExtension* extension_start;
  PjrtApi::Version version;
  void (*functions[kFunctions])();
};

template <class... Args>
void Add(FakeApi& api) {
  const std::string missing = Said("missing");
  const auto add = [&](const PjrtFunction& function, void (*pointer)()) {
    api.functions[function.index] = missing == function.name ? nullptr : pointer;
  };
  (add(Args::kFunction, reinterpret_cast<void (*)()>(&Called<Args>)), ...);
}

}  // namespace
}  // namespace paracord

extern "C" const paracord::PjrtApi* GetPjrtApi() {
  using namespace paracord;
  static FakeApi api;
  api = {};
  const std::string functions = Said("functions"), major = Said("major");
  api.struct_size = offsetof(FakeApi, functions) +
                    sizeof(void*) * (functions.empty() ? kFunctions : std::stoul(functions));
  // The extension follows another one without meaning here.
  static constexpr PjrtExtension kGpus = {sizeof(PjrtExtension), PjrtExtension::kGpuCustomCall,
                                          nullptr};
  static constexpr PjrtExtension kOther = {sizeof(PjrtExtension), 7, &kGpus};
  if (!Said("gpus").empty()) api.extension_start = &kOther;
  api.version = {sizeof(PjrtApi::Version), nullptr, std::atoi(major.c_str()), 90};
  Add<PjrtErrorGetCodeArgs, PjrtPluginInitializeArgs, PjrtEventAwaitArgs, PjrtClientCreateArgs,
      PjrtClientPlatformNameArgs, PjrtClientAddressableDevicesArgs, PjrtClientCompileArgs,
      PjrtClientBufferFromHostBufferArgs, PjrtExecutableNumOutputsArgs, PjrtLoadedGetExecutableArgs,
      PjrtLoadedExecuteArgs, PjrtBufferToHostBufferArgs, PjrtExecutableOutputElementTypesArgs,
      PjrtExecutableOutputDimensionsArgs, PjrtClientPlatformVersionArgs,
      PjrtDeviceGetDescriptionArgs, PjrtDeviceDescriptionIdArgs, PjrtDeviceDescriptionKindArgs,
      PjrtExecutableSerializeArgs, PjrtExecutableDeserializeAndLoadArgs, PjrtDestroyArgs<PjrtEvent>,
      PjrtDestroyArgs<PjrtRawClient>, PjrtDestroyArgs<PjrtExecutable>, PjrtDestroyArgs<PjrtLoaded>,
      PjrtDestroyArgs<PjrtBuffer>>(api);
  api.functions[0] = reinterpret_cast<void (*)()>(&CalledVoid<PjrtErrorDestroyArgs>);
  api.functions[1] = reinterpret_cast<void (*)()>(&CalledVoid<PjrtErrorMessageArgs>);
  return reinterpret_cast<const PjrtApi*>(&api);
}
