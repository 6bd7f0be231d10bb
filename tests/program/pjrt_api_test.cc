// The tree's declarations of the PJRT C API must have the layout of the API's header: a golden
// list, and the header itself if the build found one.
#include "program/pjrt_api.h"

#include <catch2/catch.hpp>
#include <cstring>

#ifdef PARACORD_PJRT_HEADER
#include "xla/pjrt/c/pjrt_c_api.h"
#endif

namespace paracord {
namespace {

// PJRT(our type, the header's type, field, offset)
#define PARACORD_PJRT_FIELDS(PJRT)                                                                 \
  PJRT(PjrtErrorDestroyArgs, PJRT_Error_Destroy_Args, error, 16)                                   \
  PJRT(PjrtErrorMessageArgs, PJRT_Error_Message_Args, message_size, 32)                            \
  PJRT(PjrtErrorGetCodeArgs, PJRT_Error_GetCode_Args, code, 24)                                    \
  PJRT(PjrtEventAwaitArgs, PJRT_Event_Await_Args, event, 16)                                       \
  PJRT(PjrtClientCreateArgs, PJRT_Client_Create_Args, num_options, 24)                             \
  PJRT(PjrtClientCreateArgs, PJRT_Client_Create_Args, client, 64)                                  \
  PJRT(PjrtClientCreateArgs, PJRT_Client_Create_Args, kv_try_get_user_arg, 80)                     \
  PJRT(PjrtClientPlatformNameArgs, PJRT_Client_PlatformName_Args, platform_name_size, 32)          \
  PJRT(PjrtClientAddressableDevicesArgs, PJRT_Client_AddressableDevices_Args,                      \
       num_addressable_devices, 32)                                                                \
  PJRT(PjrtClientPlatformVersionArgs, PJRT_Client_PlatformVersion_Args, platform_version_size, 32) \
  PJRT(PjrtDeviceDescriptionIdArgs, PJRT_DeviceDescription_Id_Args, id, 24)                        \
  PJRT(PjrtDeviceDescriptionKindArgs, PJRT_DeviceDescription_Kind_Args, device_kind_size, 32)      \
  PJRT(PjrtDeviceGetDescriptionArgs, PJRT_Device_GetDescription_Args, device_description, 24)      \
  PJRT(PjrtExecutableSerializeArgs, PJRT_Executable_Serialize_Args, serialized_bytes_size, 32)     \
  PJRT(PjrtExecutableSerializeArgs, PJRT_Executable_Serialize_Args, serialized_executable_deleter, \
       48)                                                                                         \
  PJRT(PjrtExecutableDeserializeAndLoadArgs, PJRT_Executable_DeserializeAndLoad_Args,              \
       loaded_executable, 40)                                                                      \
  PJRT(PjrtExecutableDeserializeAndLoadArgs, PJRT_Executable_DeserializeAndLoad_Args,              \
       overridden_serialized_compile_options_size, 56)                                             \
  PJRT(PjrtProgramCode, PJRT_Program, format_size, 40)                                             \
  PJRT(PjrtClientCompileArgs, PJRT_Client_Compile_Args, program, 24)                               \
  PJRT(PjrtClientCompileArgs, PJRT_Client_Compile_Args, executable, 48)                            \
  PJRT(PjrtClientBufferFromHostBufferArgs, PJRT_Client_BufferFromHostBuffer_Args, type, 32)        \
  PJRT(PjrtClientBufferFromHostBufferArgs, PJRT_Client_BufferFromHostBuffer_Args,                  \
       host_buffer_semantics, 72)                                                                  \
  PJRT(PjrtClientBufferFromHostBufferArgs, PJRT_Client_BufferFromHostBuffer_Args, device, 80)      \
  PJRT(PjrtClientBufferFromHostBufferArgs, PJRT_Client_BufferFromHostBuffer_Args, buffer, 112)     \
  PJRT(PjrtExecutableNumOutputsArgs, PJRT_Executable_NumOutputs_Args, num_outputs, 24)             \
  PJRT(PjrtLoadedGetExecutableArgs, PJRT_LoadedExecutable_GetExecutable_Args, executable, 24)      \
  PJRT(PjrtExecuteOptions, PJRT_ExecuteOptions, launch_id, 48)                                     \
  PJRT(PjrtExecuteOptions, PJRT_ExecuteOptions, num_non_donatable_input_indices, 64)               \
  PJRT(PjrtExecuteOptions, PJRT_ExecuteOptions, incarnation_ids, 104)                              \
  PJRT(PjrtLoadedExecuteArgs, PJRT_LoadedExecutable_Execute_Args, argument_lists, 32)              \
  PJRT(PjrtLoadedExecuteArgs, PJRT_LoadedExecutable_Execute_Args, output_lists, 56)                \
  PJRT(PjrtLoadedExecuteArgs, PJRT_LoadedExecutable_Execute_Args, execute_device, 72)              \
  PJRT(PjrtLayout::Tiled, PJRT_Buffer_MemoryLayout_Tiled, num_tiles, 48)                           \
  PJRT(PjrtLayout, PJRT_Buffer_MemoryLayout, tiled, 16)                                            \
  PJRT(PjrtLayout, PJRT_Buffer_MemoryLayout, type, 72)                                             \
  PJRT(PjrtBufferToHostBufferArgs, PJRT_Buffer_ToHostBuffer_Args, dst_size, 40)                    \
  PJRT(PjrtBufferToHostBufferArgs, PJRT_Buffer_ToHostBuffer_Args, event, 48)                       \
  PJRT(PjrtExecutableOutputElementTypesArgs, PJRT_Executable_OutputElementTypes_Args,              \
       num_output_types, 32)                                                                       \
  PJRT(PjrtExecutableOutputDimensionsArgs, PJRT_Executable_OutputDimensions_Args, dim_sizes, 40)   \
  PJRT(PjrtNamedValue, PJRT_NamedValue, name_size, 24)                                             \
  PJRT(PjrtNamedValue, PJRT_NamedValue, type, 32)                                                  \
  PJRT(PjrtNamedValue, PJRT_NamedValue, int64_array_value, 40)                                     \
  PJRT(PjrtNamedValue, PJRT_NamedValue, bool_value, 40)                                            \
  PJRT(PjrtNamedValue, PJRT_NamedValue, value_size, 48)                                            \
  PJRT(PjrtExtension, PJRT_Extension_Base, type, 8)                                                \
  PJRT(PjrtExtension, PJRT_Extension_Base, next, 16)                                               \
  PJRT(PjrtApi, PJRT_Api, extension_start, 8)                                                      \
  PJRT(PjrtApi, PJRT_Api, pjrt_api_version, 16)

// PJRT(our argument type, the header's, function, index)
#define PARACORD_PJRT_FUNCTIONS(PJRT)                                                              \
  PJRT(PjrtErrorDestroyArgs, PJRT_Error_Destroy_Args, PJRT_Error_Destroy, 0)                       \
  PJRT(PjrtErrorMessageArgs, PJRT_Error_Message_Args, PJRT_Error_Message, 1)                       \
  PJRT(PjrtErrorGetCodeArgs, PJRT_Error_GetCode_Args, PJRT_Error_GetCode, 2)                       \
  PJRT(PjrtPluginInitializeArgs, PJRT_Plugin_Initialize_Args, PJRT_Plugin_Initialize, 3)           \
  PJRT(PjrtDestroyArgs<PjrtEvent>, PJRT_Event_Destroy_Args, PJRT_Event_Destroy, 5)                 \
  PJRT(PjrtEventAwaitArgs, PJRT_Event_Await_Args, PJRT_Event_Await, 8)                             \
  PJRT(PjrtClientCreateArgs, PJRT_Client_Create_Args, PJRT_Client_Create, 10)                      \
  PJRT(PjrtDestroyArgs<PjrtRawClient>, PJRT_Client_Destroy_Args, PJRT_Client_Destroy, 11)          \
  PJRT(PjrtClientPlatformNameArgs, PJRT_Client_PlatformName_Args, PJRT_Client_PlatformName, 12)    \
  PJRT(PjrtClientPlatformVersionArgs, PJRT_Client_PlatformVersion_Args,                            \
       PJRT_Client_PlatformVersion, 14)                                                            \
  PJRT(PjrtDeviceDescriptionIdArgs, PJRT_DeviceDescription_Id_Args, PJRT_DeviceDescription_Id, 23) \
  PJRT(PjrtDeviceDescriptionKindArgs, PJRT_DeviceDescription_Kind_Args,                            \
       PJRT_DeviceDescription_Kind, 26)                                                            \
  PJRT(PjrtDeviceGetDescriptionArgs, PJRT_Device_GetDescription_Args, PJRT_Device_GetDescription,  \
       29)                                                                                         \
  PJRT(PjrtExecutableSerializeArgs, PJRT_Executable_Serialize_Args, PJRT_Executable_Serialize, 49) \
  PJRT(PjrtExecutableDeserializeAndLoadArgs, PJRT_Executable_DeserializeAndLoad_Args,              \
       PJRT_Executable_DeserializeAndLoad, 56)                                                     \
  PJRT(PjrtClientAddressableDevicesArgs, PJRT_Client_AddressableDevices_Args,                      \
       PJRT_Client_AddressableDevices, 16)                                                         \
  PJRT(PjrtClientCompileArgs, PJRT_Client_Compile_Args, PJRT_Client_Compile, 20)                   \
  PJRT(PjrtClientBufferFromHostBufferArgs, PJRT_Client_BufferFromHostBuffer_Args,                  \
       PJRT_Client_BufferFromHostBuffer, 22)                                                       \
  PJRT(PjrtDestroyArgs<PjrtExecutable>, PJRT_Executable_Destroy_Args, PJRT_Executable_Destroy, 40) \
  PJRT(PjrtExecutableNumOutputsArgs, PJRT_Executable_NumOutputs_Args, PJRT_Executable_NumOutputs,  \
       44)                                                                                         \
  PJRT(PjrtDestroyArgs<PjrtLoaded>, PJRT_LoadedExecutable_Destroy_Args,                            \
       PJRT_LoadedExecutable_Destroy, 50)                                                          \
  PJRT(PjrtLoadedGetExecutableArgs, PJRT_LoadedExecutable_GetExecutable_Args,                      \
       PJRT_LoadedExecutable_GetExecutable, 51)                                                    \
  PJRT(PjrtLoadedExecuteArgs, PJRT_LoadedExecutable_Execute_Args, PJRT_LoadedExecutable_Execute,   \
       55)                                                                                         \
  PJRT(PjrtDestroyArgs<PjrtBuffer>, PJRT_Buffer_Destroy_Args, PJRT_Buffer_Destroy, 58)             \
  PJRT(PjrtBufferToHostBufferArgs, PJRT_Buffer_ToHostBuffer_Args, PJRT_Buffer_ToHostBuffer, 70)    \
  PJRT(PjrtExecutableOutputElementTypesArgs, PJRT_Executable_OutputElementTypes_Args,              \
       PJRT_Executable_OutputElementTypes, 90)                                                     \
  PJRT(PjrtExecutableOutputDimensionsArgs, PJRT_Executable_OutputDimensions_Args,                  \
       PJRT_Executable_OutputDimensions, 91)

TEST_CASE("the declarations of PJRT have the layout that plug-ins have") {
#define PARACORD_GOLDEN(ours, theirs, field, offset) CHECK(offsetof(ours, field) == (offset));
  PARACORD_PJRT_FIELDS(PARACORD_GOLDEN)
#define PARACORD_PLACE(ours, theirs, function, place)         \
  {                                                           \
    CHECK(ours::kFunction.index == (place));                  \
    CHECK(std::strcmp(ours::kFunction.name, #function) == 0); \
  }
  PARACORD_PJRT_FUNCTIONS(PARACORD_PLACE)
  CHECK(offsetof(PjrtApi, functions) == 40);
  CHECK(sizeof(PjrtApi::Version) == 24);
}

#ifdef PARACORD_PJRT_HEADER
TEST_CASE("the declarations of PJRT have the layout of the API's own header") {
#define PARACORD_SAME(ours, theirs, field, offset) \
  CHECK(offsetof(ours, field) == offsetof(::theirs, field));
  PARACORD_PJRT_FIELDS(PARACORD_SAME)
  // Our declarations may be older, with fewer fields.
#define PARACORD_SAME_PLACE(ours, theirs, function, place)                 \
  {                                                                        \
    CHECK(offsetof(::PJRT_Api, function) == 40 + sizeof(void*) * (place)); \
    CHECK(ours().struct_size <= ::theirs##_STRUCT_SIZE);                   \
  }
  PARACORD_PJRT_FUNCTIONS(PARACORD_SAME_PLACE)
  CHECK(PjrtExtension::kGpuCustomCall == PJRT_Extension_Type_Gpu_Custom_Call);
  CHECK(PjrtNamedValue::kInt64List == PJRT_NamedValue_kInt64List);
  CHECK(PjrtNamedValue::kBool == PJRT_NamedValue_kBool);
  CHECK(static_cast<int>(PjrtType::kInt32) == PJRT_Buffer_Type_S32);
  CHECK(static_cast<int>(PjrtType::kInt64) == PJRT_Buffer_Type_S64);
  CHECK(static_cast<int>(PjrtType::kUint32) == PJRT_Buffer_Type_U32);
  CHECK(static_cast<int>(PjrtType::kFloat32) == PJRT_Buffer_Type_F32);
  CHECK(PjrtClientBufferFromHostBufferArgs::kImmutableZeroCopy ==
        PJRT_HostBufferSemantics_kImmutableZeroCopy);
}
#endif

}  // namespace
}  // namespace paracord
