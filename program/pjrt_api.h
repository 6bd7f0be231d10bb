// The part of the PJRT C API that runs programs of StableHLO, declared here anew: the structs, and
// the functions' indices in PJRT_Api. New minor versions of the API only add functions and fields.
// Fields are named as in the API's own header; tests/program/pjrt_api_test.cc compares the layouts.
// In struct_size the caller says how large the struct is that the caller was compiled with.
// PJRT_Api.struct_size shows which functions the plug-in has (PjrtPlugin::Call).
#pragma once

#include <cstddef>
#include <cstdint>

namespace paracord {

// Opaque objects of the plug-in.
struct PjrtError;
struct PjrtEvent;
struct PjrtRawClient;
struct PjrtDevice;
struct PjrtDeviceDescription;
struct PjrtExecutable;  // describes a loaded executable
struct PjrtLoaded;      // an executable ready to run
struct PjrtBuffer;
struct PjrtSerialized;  // owns the bytes of a serialized executable

// The element types used here, numbered as in PJRT_Buffer_Type.
enum class PjrtType : int { kInt32 = 4, kInt64 = 5, kUint32 = 8, kFloat32 = 11 };

// A function's index in PJRT_Api, and its name for texts of errors.
struct PjrtFunction {
  size_t index;
  const char* name;
};

// The plug-in's linked list of extensions to the API.
struct PjrtExtension {
  static constexpr int kGpuCustomCall = 0;  // a `type` that only XLA's plug-in for GPUs has
  size_t struct_size;
  int type;
  const PjrtExtension* next;
};

struct PjrtApi {
  size_t struct_size;  // the size of PJRT_Api in the plug-in, functions included
  const PjrtExtension* extension_start;
  struct Version {
    size_t struct_size;
    void* extension_start;
    int major_version;
    int minor_version;
  } pjrt_api_version;
  void (*functions[1])();  // the number of functions follows from struct_size
};
inline constexpr int kPjrtMajor = 0;

// The arguments of each function; fields that the function writes are marked "out". The functions
// PJRT_Error_Destroy and PJRT_Error_Message return void, the other functions return a PjrtError*,
// which is null after success.
struct PjrtErrorDestroyArgs {
  static constexpr PjrtFunction kFunction = {0, "PJRT_Error_Destroy"};
  size_t struct_size = sizeof(PjrtErrorDestroyArgs);
  void* extension_start = nullptr;
  PjrtError* error = nullptr;
};

struct PjrtErrorMessageArgs {
  static constexpr PjrtFunction kFunction = {1, "PJRT_Error_Message"};
  size_t struct_size = sizeof(PjrtErrorMessageArgs);
  void* extension_start = nullptr;
  const PjrtError* error = nullptr;
  const char* message = nullptr;  // out
  size_t message_size = 0;        // out
};

struct PjrtErrorGetCodeArgs {
  static constexpr PjrtFunction kFunction = {2, "PJRT_Error_GetCode"};
  // The size without the padding at the end, where a later version may add a field.
  size_t struct_size = offsetof(PjrtErrorGetCodeArgs, code) + sizeof(int);
  void* extension_start = nullptr;
  const PjrtError* error = nullptr;
  int code = 0;  // out: an absl::StatusCode
};

struct PjrtPluginInitializeArgs {
  static constexpr PjrtFunction kFunction = {3, "PJRT_Plugin_Initialize"};
  size_t struct_size = sizeof(PjrtPluginInitializeArgs);
  void* extension_start = nullptr;
};

struct PjrtEventAwaitArgs {
  static constexpr PjrtFunction kFunction = {8, "PJRT_Event_Await"};
  size_t struct_size = sizeof(PjrtEventAwaitArgs);
  void* extension_start = nullptr;
  PjrtEvent* event = nullptr;
};

// The name and value of a client option.
struct PjrtNamedValue {
  static constexpr int kInt64List = 2, kBool = 4;
  size_t struct_size = sizeof(PjrtNamedValue);
  void* extension_start = nullptr;
  const char* name = nullptr;
  size_t name_size = 0;
  int type = kBool;
  union {
    const int64_t* int64_array_value = nullptr;
    bool bool_value;
  };
  size_t value_size = 1;  // the count of numbers in a list; 1 for a bool
};

struct PjrtClientCreateArgs {
  static constexpr PjrtFunction kFunction = {10, "PJRT_Client_Create"};
  size_t struct_size = sizeof(PjrtClientCreateArgs);
  void* extension_start = nullptr;
  const PjrtNamedValue* create_options = nullptr;
  size_t num_options = 0;
  void* kv_get_callback = nullptr;
  void* kv_get_user_arg = nullptr;
  void* kv_put_callback = nullptr;
  void* kv_put_user_arg = nullptr;
  PjrtRawClient* client = nullptr;  // out
  void* kv_try_get_callback = nullptr;
  void* kv_try_get_user_arg = nullptr;
};

struct PjrtClientPlatformNameArgs {
  static constexpr PjrtFunction kFunction = {12, "PJRT_Client_PlatformName"};
  size_t struct_size = sizeof(PjrtClientPlatformNameArgs);
  void* extension_start = nullptr;
  PjrtRawClient* client = nullptr;
  const char* platform_name = nullptr;  // out
  size_t platform_name_size = 0;        // out
};

struct PjrtClientPlatformVersionArgs {
  static constexpr PjrtFunction kFunction = {14, "PJRT_Client_PlatformVersion"};
  size_t struct_size = sizeof(PjrtClientPlatformVersionArgs);
  void* extension_start = nullptr;
  PjrtRawClient* client = nullptr;
  const char* platform_version = nullptr;  // out
  size_t platform_version_size = 0;        // out
};

struct PjrtClientAddressableDevicesArgs {
  static constexpr PjrtFunction kFunction = {16, "PJRT_Client_AddressableDevices"};
  size_t struct_size = sizeof(PjrtClientAddressableDevicesArgs);
  void* extension_start = nullptr;
  PjrtRawClient* client = nullptr;
  PjrtDevice* const* addressable_devices = nullptr;  // out
  size_t num_addressable_devices = 0;                // out
};

struct PjrtProgramCode {
  size_t struct_size = sizeof(PjrtProgramCode);
  void* extension_start = nullptr;
  char* code = nullptr;
  size_t code_size = 0;
  const char* format = nullptr;
  size_t format_size = 0;
};

struct PjrtClientCompileArgs {
  static constexpr PjrtFunction kFunction = {20, "PJRT_Client_Compile"};
  size_t struct_size = sizeof(PjrtClientCompileArgs);
  void* extension_start = nullptr;
  PjrtRawClient* client = nullptr;
  const PjrtProgramCode* program = nullptr;
  const char* compile_options = nullptr;  // XLA's CompileOptionsProto, serialized
  size_t compile_options_size = 0;
  PjrtLoaded* executable = nullptr;  // out
};

struct PjrtClientBufferFromHostBufferArgs {
  static constexpr PjrtFunction kFunction = {22, "PJRT_Client_BufferFromHostBuffer"};
  // Lets the plug-in read the caller's memory in place until the buffer is destroyed.
  static constexpr int kImmutableZeroCopy = 2;
  size_t struct_size = sizeof(PjrtClientBufferFromHostBufferArgs);
  void* extension_start = nullptr;
  PjrtRawClient* client = nullptr;
  const void* data = nullptr;
  PjrtType type = PjrtType::kFloat32;
  const int64_t* dims = nullptr;
  size_t num_dims = 0;
  const int64_t* byte_strides = nullptr;  // null: dense, row-major
  size_t num_byte_strides = 0;
  int host_buffer_semantics = kImmutableZeroCopy;
  PjrtDevice* device = nullptr;
  void* memory = nullptr;
  void* device_layout = nullptr;
  PjrtEvent* done_with_host_buffer = nullptr;  // out
  PjrtBuffer* buffer = nullptr;                // out
};

// Asks for the number that identifies a device among all devices of the client's platform.
struct PjrtDeviceDescriptionIdArgs {
  static constexpr PjrtFunction kFunction = {23, "PJRT_DeviceDescription_Id"};
  // The size without the padding at the end, where a later version may add a field.
  size_t struct_size = offsetof(PjrtDeviceDescriptionIdArgs, id) + sizeof(int);
  void* extension_start = nullptr;
  PjrtDeviceDescription* device_description = nullptr;
  int id = 0;  // out
};

struct PjrtDeviceDescriptionKindArgs {
  static constexpr PjrtFunction kFunction = {26, "PJRT_DeviceDescription_Kind"};
  size_t struct_size = sizeof(PjrtDeviceDescriptionKindArgs);
  void* extension_start = nullptr;
  PjrtDeviceDescription* device_description = nullptr;
  const char* device_kind = nullptr;  // out
  size_t device_kind_size = 0;        // out
};

struct PjrtDeviceGetDescriptionArgs {
  static constexpr PjrtFunction kFunction = {29, "PJRT_Device_GetDescription"};
  size_t struct_size = sizeof(PjrtDeviceGetDescriptionArgs);
  void* extension_start = nullptr;
  PjrtDevice* device = nullptr;
  PjrtDeviceDescription* device_description = nullptr;  // out
};

struct PjrtExecutableNumOutputsArgs {
  static constexpr PjrtFunction kFunction = {44, "PJRT_Executable_NumOutputs"};
  size_t struct_size = sizeof(PjrtExecutableNumOutputsArgs);
  void* extension_start = nullptr;
  PjrtExecutable* executable = nullptr;
  size_t num_outputs = 0;  // out
};

// Asks for the bytes of a compiled module, which PJRT_Executable_DeserializeAndLoad takes.
struct PjrtExecutableSerializeArgs {
  static constexpr PjrtFunction kFunction = {49, "PJRT_Executable_Serialize"};
  size_t struct_size = sizeof(PjrtExecutableSerializeArgs);
  void* extension_start = nullptr;
  const PjrtExecutable* executable = nullptr;
  const char* serialized_bytes = nullptr;                                       // out
  size_t serialized_bytes_size = 0;                                             // out
  PjrtSerialized* serialized_executable = nullptr;                              // out
  void (*serialized_executable_deleter)(PjrtSerialized* executable) = nullptr;  // out
};

struct PjrtLoadedGetExecutableArgs {
  static constexpr PjrtFunction kFunction = {51, "PJRT_LoadedExecutable_GetExecutable"};
  size_t struct_size = sizeof(PjrtLoadedGetExecutableArgs);
  void* extension_start = nullptr;
  PjrtLoaded* loaded_executable = nullptr;
  PjrtExecutable* executable = nullptr;  // out
};

struct PjrtExecuteOptions {
  size_t struct_size = sizeof(PjrtExecuteOptions);
  void* extension_start = nullptr;
  void** send_callbacks = nullptr;
  void** recv_callbacks = nullptr;
  size_t num_send_ops = 0;
  size_t num_recv_ops = 0;
  int launch_id = 0;
  const int64_t* non_donatable_input_indices = nullptr;
  size_t num_non_donatable_input_indices = 0;
  void* context = nullptr;
  const char* call_location = nullptr;
  size_t num_tasks = 0;
  int* task_ids = nullptr;
  int64_t* incarnation_ids = nullptr;
};

struct PjrtLoadedExecuteArgs {
  static constexpr PjrtFunction kFunction = {55, "PJRT_LoadedExecutable_Execute"};
  size_t struct_size = sizeof(PjrtLoadedExecuteArgs);
  void* extension_start = nullptr;
  PjrtLoaded* executable = nullptr;
  PjrtExecuteOptions* options = nullptr;
  PjrtBuffer* const* const* argument_lists = nullptr;  // (num_devices, num_args)
  size_t num_devices = 1;
  size_t num_args = 0;
  PjrtBuffer** const* output_lists = nullptr;    // in and out: (num_devices, outputs)
  PjrtEvent** device_complete_events = nullptr;  // in and out: (num_devices)
  PjrtDevice* execute_device = nullptr;          // for a portable executable; otherwise null
};

struct PjrtExecutableDeserializeAndLoadArgs {
  static constexpr PjrtFunction kFunction = {56, "PJRT_Executable_DeserializeAndLoad"};
  size_t struct_size = sizeof(PjrtExecutableDeserializeAndLoadArgs);
  void* extension_start = nullptr;
  PjrtRawClient* client = nullptr;
  const char* serialized_executable = nullptr;
  size_t serialized_executable_size = 0;
  PjrtLoaded* loaded_executable = nullptr;                      // out
  const char* overridden_serialized_compile_options = nullptr;  // null: as the module was compiled
  size_t overridden_serialized_compile_options_size = 0;
};

// How an array lies in the host's memory: `minor_to_major` lists the axes, the innermost first.
struct PjrtLayout {
  size_t struct_size = offsetof(PjrtLayout, type) + sizeof(int);
  void* extension_start = nullptr;
  struct Tiled {
    size_t struct_size = sizeof(Tiled);
    void* extension_start = nullptr;
    const int64_t* minor_to_major = nullptr;
    size_t minor_to_major_size = 0;
    const int64_t* tile_dims = nullptr;
    const size_t* tile_dim_sizes = nullptr;
    size_t num_tiles = 0;
  } tiled;
  int type = 0;  // 0: `tiled` has the layout
};

struct PjrtBufferToHostBufferArgs {
  static constexpr PjrtFunction kFunction = {70, "PJRT_Buffer_ToHostBuffer"};
  size_t struct_size = sizeof(PjrtBufferToHostBufferArgs);
  void* extension_start = nullptr;
  PjrtBuffer* src = nullptr;
  PjrtLayout* host_layout = nullptr;
  void* dst = nullptr;
  size_t dst_size = 0;
  PjrtEvent* event = nullptr;  // out
};

struct PjrtExecutableOutputElementTypesArgs {
  static constexpr PjrtFunction kFunction = {90, "PJRT_Executable_OutputElementTypes"};
  size_t struct_size = sizeof(PjrtExecutableOutputElementTypesArgs);
  void* extension_start = nullptr;
  PjrtExecutable* executable = nullptr;
  int* output_types = nullptr;  // out
  size_t num_output_types = 0;  // out
};

struct PjrtExecutableOutputDimensionsArgs {
  static constexpr PjrtFunction kFunction = {91, "PJRT_Executable_OutputDimensions"};
  size_t struct_size = sizeof(PjrtExecutableOutputDimensionsArgs);
  void* extension_start = nullptr;
  PjrtExecutable* executable = nullptr;
  size_t num_outputs = 0;             // out
  const int64_t* dims = nullptr;      // out: concatenated over all outputs
  const size_t* dim_sizes = nullptr;  // out: the number of dims of each output
};

// The arguments of all functions that destroy an object have the layout of PjrtDestroyArgs.
template <class Object>
constexpr PjrtFunction kPjrtDestroy = {};
template <>
inline constexpr PjrtFunction kPjrtDestroy<PjrtEvent> = {5, "PJRT_Event_Destroy"};
template <>
inline constexpr PjrtFunction kPjrtDestroy<PjrtRawClient> = {11, "PJRT_Client_Destroy"};
template <>
inline constexpr PjrtFunction kPjrtDestroy<PjrtExecutable> = {40, "PJRT_Executable_Destroy"};
template <>
inline constexpr PjrtFunction kPjrtDestroy<PjrtLoaded> = {50, "PJRT_LoadedExecutable_Destroy"};
template <>
inline constexpr PjrtFunction kPjrtDestroy<PjrtBuffer> = {58, "PJRT_Buffer_Destroy"};

template <class Object>
struct PjrtDestroyArgs {
  static constexpr PjrtFunction kFunction = kPjrtDestroy<Object>;
  size_t struct_size = sizeof(PjrtDestroyArgs);
  void* extension_start = nullptr;
  Object* object = nullptr;
};

}  // namespace paracord
