// The cuDNN engines that a convolution uses: with a table of functions whose answers a test sets,
// and with cuDNN itself, which can choose engines for a described GPU without having one. Built
// only if cuDNN's header exists.
#ifdef PARACORD_CUDNN
#include "tensor/cuda/toolkit_convolution.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace paracord::cuda {
namespace {

// An engine that the heuristics propose.
struct Engine {
  int number = 0;
  std::vector<cudnnBackendNumericalNote_t> notes = {};
  bool compiled = false;
  int64_t bytes = 100;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;  // the status of making its plan
};
using Engines = std::vector<Engine>;
struct Made {
  cudnnBackendDescriptorType_t type{};
  std::map<int, std::vector<cudnnBackendDescriptor_t>> parts;
  std::map<int, int64_t> numbers;
  const Engine* engine = nullptr;
  const Engines* engines = nullptr;
};
struct Answers {
  // The fastest engines, by a graph's first operation and its number of operations.
  std::function<Engines(cudnnBackendDescriptorType_t, size_t)> quickest = [](auto, auto) {
    return Engines{};
  };
  Engines fallback;
  cudnnStatus_t heuristics = CUDNN_STATUS_SUCCESS, computed = CUDNN_STATUS_SUCCESS;
  // A record of the calls.
  std::map<cudnnBackendDescriptor_t, Made> made;
  std::deque<Engines> named;  // plans have pointers into it
  std::vector<int> ran;
  int64_t bound = 0;
  intptr_t last = 0;
};
Answers* answers = nullptr;

Made& Find(cudnnBackendDescriptor_t at) { return answers->made.at(at); }

cudnnStatus_t Finalize(cudnnBackendDescriptor_t at) {
  Made& made = Find(at);
  if (made.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    if (answers->heuristics != CUDNN_STATUS_SUCCESS) return answers->heuristics;
    const Made& graph = Find(made.parts[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH][0]);
    const auto& operations = graph.parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    answers->named.push_back(made.numbers[CUDNN_ATTR_ENGINEHEUR_MODE] == CUDNN_HEUR_MODE_A
                                 ? answers->quickest(Find(operations[0]).type, operations.size())
                                 : answers->fallback);
    made.engines = &answers->named.back();
  }
  if (made.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    made.engine = Find(made.parts[CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG][0]).engine;
    return made.engine->status;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t SetAttribute(cudnnBackendDescriptor_t at, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* parts = static_cast<const cudnnBackendDescriptor_t*>(values);
    Find(at).parts[name].assign(parts, parts + count);
  } else if (type == CUDNN_TYPE_HEUR_MODE) {
    Find(at).numbers[name] = *static_cast<const cudnnBackendHeurMode_t*>(values);
  } else {
    Find(at).numbers[name] = count;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t GetAttribute(cudnnBackendDescriptor_t at, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t, int64_t count, int64_t* found,
                           void* values) {
  Made& made = Find(at);
  const auto give = [&](const auto& all) {
    *found = static_cast<int64_t>(all.size());
    const int64_t given = std::min(count, *found);
    if (given > 0) {
      std::memcpy(values, all.data(), static_cast<size_t>(given) * sizeof(all.front()));
    }
  };
  auto* const parts = static_cast<cudnnBackendDescriptor_t*>(values);
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      const Engines& all = *made.engines;
      *found = static_cast<int64_t>(all.size());
      for (int64_t i = 0; i < count; ++i) Find(parts[i]).engine = &all[static_cast<size_t>(i)];
      break;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      Find(parts[0]).engine = made.engine;
      *found = 1;
      break;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      give(made.engine->notes);
      break;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      give(std::vector<cudnnBackendBehaviorNote_t>(made.engine->compiled ? 1 : 0));
      break;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      give(std::vector<int64_t>{made.engine->number});
      break;
    default:  // the size of the workspace
      give(std::vector<int64_t>{made.engine->bytes});
  }
  return CUDNN_STATUS_SUCCESS;
}

Libraries Table() {
  Libraries table;
  table.cudnnGetErrorString = [](cudnnStatus_t) { return "as asked"; };
  table.cudnnSetStream = [](cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; };
  table.cudnnBackendCreateDescriptor = [](cudnnBackendDescriptorType_t type,
                                          cudnnBackendDescriptor_t* made) {
    *made = reinterpret_cast<cudnnBackendDescriptor_t>(++answers->last);  // NOLINT
    answers->made[*made].type = type;
    return CUDNN_STATUS_SUCCESS;
  };
  table.cudnnBackendDestroyDescriptor = [](cudnnBackendDescriptor_t at) {
    return answers->made.erase(at) == 1 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
  };
  table.cudnnBackendFinalize = Finalize;
  table.cudnnBackendSetAttribute = SetAttribute;
  table.cudnnBackendGetAttribute = GetAttribute;
  table.cudnnBackendExecute = [](cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                 cudnnBackendDescriptor_t pack) {
    answers->ran.push_back(Find(plan).engine->number);
    answers->bound = Find(pack).numbers[CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS];
    return answers->computed;
  };
  return table;
}

ConvShape SmallShape() {
  ConvShape shape{.batch = 1, .in_channels = 1, .out_channels = 1, .bias = true, .relu = true};
  shape.height = shape.width = {.in = 4, .out = 2, .size = 3};
  return shape;
}

// Makes a convolution and runs it forward.
absl::Status Run(Answers& all, Operands operands, bool deterministic = true) {
  answers = &all;
  const Libraries table = Table();
  absl::Status status;
  {
    const auto made = MakeToolkitConvolution(
        table, {}, {.deterministic = deterministic},
        {.shape = SmallShape(), .operands = operands, .workspace_max = 1000});
    status = made.status();
    if (status.ok()) status = (*made)->Forward(nullptr, nullptr, nullptr, nullptr, nullptr, {});
  }
  CHECK(all.made.empty());
  return status;
}

TEST_CASE("the first engine is taken that may be: its determinism, arithmetic and workspace") {
  Answers all;
  all.quickest = [](auto, auto) {
    return Engines{
        {1, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
        {2, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, false, 1001},
        {3, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, true},
        {4, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}},
        {5, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, false, 0, CUDNN_STATUS_NOT_SUPPORTED},
        {6, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, false, 1000},
        {7, {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6}},
        {8, {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}}};
  };
  REQUIRE(Run(all, Operands::kTf32).ok());
  REQUIRE(Run(all, Operands::kFloat32).ok());
  REQUIRE(Run(all, Operands::kTf32, /*deterministic=*/false).ok());
  CHECK(all.ran == std::vector<int>{6, 8, 1});
  CHECK(all.bound == 4);
}

TEST_CASE("in 16 bits an engine without tensor cores, which TF32 beats, is none") {
  Answers all;
  all.quickest = [](auto, auto) { return Engines{{1}, {2, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}}}; };
  REQUIRE(Run(all, Operands::kTf32).ok());
  REQUIRE(Run(all, Operands::kBfloat16).ok());
  CHECK(all.ran == std::vector<int>{1, 2});
  CHECK(all.bound == 3);  // the last one has neither bias nor ReLU
  all.quickest = [](auto, auto) { return Engines{{1}}; };
  CHECK(absl::IsUnimplemented(Run(all, Operands::kFloat16)));
}

// Statuses with which cuDNN reports an unsupported operation.
constexpr cudnnStatus_t kRefusals[] = {CUDNN_STATUS_NOT_SUPPORTED,
                                       CUDNN_STATUS_NOT_SUPPORTED_LAYOUT,
                                       CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH,
                                       CUDNN_STATUS_BAD_PARAM,
                                       CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                                       CUDNN_STATUS_INTERNAL_ERROR,
                                       CUDNN_STATUS_EXECUTION_FAILED_CUDART};
// Statuses with which cuDNN reports that it is unusable on this machine.
constexpr cudnnStatus_t kOfMachine[] = {CUDNN_STATUS_NOT_INITIALIZED,
                                        CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED,
                                        CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE,
                                        CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER};

TEST_CASE("an engine that cannot do it after all is passed over, for those of the fallback too") {
  for (const cudnnStatus_t refusal : kRefusals) {
    INFO(refusal);
    Answers all;
    all.quickest = [&](auto, auto) { return Engines{{1, {}, false, 0, refusal}}; };
    all.fallback = {{2, {}, false, 0, refusal}, {3}};
    REQUIRE(Run(all, Operands::kFloat32).ok());
    CHECK(all.ran == std::vector<int>{3});
  }
}

TEST_CASE("where no engine adds the bias it is left to others") {
  Answers all;
  answers = &all;
  all.quickest = [](auto, size_t operations) { return operations > 1 ? Engines{} : Engines{{1}}; };
  const Libraries table = Table();
  const auto made =
      MakeToolkitConvolution(table, {}, {}, {.shape = SmallShape(), .workspace_max = 1000}).value();
  CHECK(made->can().forward);
  CHECK_FALSE(made->can().finishes);
  REQUIRE(made->Forward(nullptr, nullptr, nullptr, nullptr, nullptr, {}).ok());
  CHECK(all.bound == 3);
}

TEST_CASE("a direction that cuDNN cannot do leaves the others") {
  Answers all;
  answers = &all;
  all.quickest = [](cudnnBackendDescriptorType_t type, size_t) {
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? Engines{}
                                                                                : Engines{{1}};
  };
  const Libraries table = Table();
  const auto made =
      MakeToolkitConvolution(table, {}, {}, {.shape = SmallShape(), .workspace_max = 1000}).value();
  CHECK(made->can().forward);
  CHECK(made->can().finishes);
  CHECK_FALSE(made->can().data);
  CHECK(made->can().filter);
  CHECK(made->workspace_bytes() == 100);
}

TEST_CASE("what cuDNN cannot do is UNIMPLEMENTED, and that it can nothing is not") {
  for (const cudnnStatus_t refusal : kRefusals) {
    Answers none;
    none.quickest = [&](auto, auto) { return Engines{{1, {}, false, 0, refusal}}; };
    CHECK(absl::IsUnimplemented(Run(none, Operands::kFloat32)));
    none.heuristics = refusal;
    CHECK(absl::IsUnimplemented(Run(none, Operands::kFloat32)));
  }
  for (const cudnnStatus_t of_machine : kOfMachine) {
    Answers fails;
    fails.quickest = [&](auto, auto) { return Engines{{1, {}, false, 0, of_machine}}; };
    CHECK(absl::IsInternal(Run(fails, Operands::kFloat32)));
    fails.heuristics = of_machine;
    CHECK(absl::IsInternal(Run(fails, Operands::kFloat32)));
  }
  Answers full;
  full.heuristics = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  CHECK(absl::IsResourceExhausted(Run(full, Operands::kFloat32)));
}

TEST_CASE("what cuDNN refuses only when it is to compute is UNIMPLEMENTED, too") {
  Answers refuses;
  refuses.fallback = {{1}};
  for (const cudnnStatus_t status :
       {CUDNN_STATUS_NOT_SUPPORTED_SHAPE, CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH}) {
    refuses.computed = status;
    CHECK(absl::IsUnimplemented(Run(refuses, Operands::kFloat32)));
  }
  refuses.computed = CUDNN_STATUS_EXECUTION_FAILED_CUBLAS;
  CHECK(absl::IsInternal(Run(refuses, Operands::kFloat32)));
}

// The properties of a GPU that cuDNN needs, from data sheets and CUDA's tables of compute
// capabilities.
std::string Properties(int capability, int processors, int threads, int shared, int cache_mb) {
  return R"({"deviceVer": )" + std::to_string(capability) + R"(0, "multiProcessorCount": )" +
         std::to_string(processors) + R"(, "maxThreadsPerSM": )" + std::to_string(threads) +
         R"(, "maxSharedMemoryPerBlockOptin": )" + std::to_string(shared) + R"(, "l2CacheSize": )" +
         std::to_string(cache_mb << 20) +
         R"(, "cudaDeviceId": 0, "deviceName": "GPU", "driverVer": 13000,
             "isTccDriver": 0, "maxBlockSize": [1024, 1024, 64], "maxCtasPerSM": 24,
             "maxGridSize": [2147483647, 65535, 65535], "maxRegistersPerSM": 65536,
             "maxSharedMemoryPerBlock": 49152, "maxThreadsPerBlock": 1024,
             "memClockRateKHz": 1600000, "pciDeviceId": 0, "regsPerBlock": 65536,
             "reservedSharedMemoryPerBlock": 1024, "smClockRateKHz": 1600000,
             "supportCoopLaunch": 1, "totalGlobalMem": 16000000000, "warpSize": 32})";
}

WindowAxis Same(int64_t in, int64_t size, int64_t stride) {
  const int64_t out = (in + stride - 1) / stride,
                pad = std::max((out - 1) * stride + size - in, int64_t{0});
  return {.in = in,
          .out = out,
          .size = size,
          .stride = stride,
          .pad_before = pad / 2,
          .pad_after = pad - pad / 2};
}

// The shapes of ResNet-18 on 32 x 32 pixels, of the CNN in the examples, and unusual ones. Half of
// them are padded at one end only, as Keras does with strides.
std::vector<ConvShape> Shapes() {
  std::vector<ConvShape> all;
  const auto add = [&](int64_t batch, int64_t in, int64_t out, WindowAxis axis,
                       int64_t groups = 1) {
    all.push_back({.batch = batch,
                   .in_channels = in,
                   .out_channels = out,
                   .groups = groups,
                   .height = axis,
                   .width = axis,
                   .bias = all.size() % 3 != 1,
                   .relu = all.size() % 3 != 2});
  };
  add(128, 3, 64, Same(32, 3, 1));
  for (int64_t channels = 64, pixels = 32; channels <= 512; channels *= 2, pixels /= 2) {
    add(128, channels, channels, Same(pixels, 3, 1));
    if (channels == 512) continue;
    add(128, channels, 2 * channels, Same(pixels, 3, 2));
    add(128, channels, 2 * channels, Same(pixels, 1, 2));
  }
  add(64, 1, 32, {.in = 28, .out = 26, .size = 3});
  add(1024, 32, 64, {.in = 13, .out = 11, .size = 3});
  add(8, 32, 32, Same(16, 3, 1), 32);
  add(3, 7, 5, {.in = 19, .out = 8, .size = 3, .stride = 2, .dilation = 2, .pad_after = 1});
  add(1, 3, 64, Same(224, 7, 2));
  return all;
}

TEST_CASE("cuDNN has engines for all directions of common convolutions on every kind of GPU") {
  const auto libraries = OpenLibraries(kCublas, kCudnn);
  if (!libraries.ok()) {
    WARN("skipped: " << libraries.status());
    return;
  }
  // The T4 is last: once it was described, cuDNN names no tensor cores for other GPUs in this
  // process.
  const std::vector<std::pair<std::string, std::string>> gpus = {
      {"A100", Properties(80, 108, 2048, 166912, 40)},
      {"RTX 3090", Properties(86, 82, 1536, 101376, 6)},
      {"L4", Properties(89, 58, 1536, 101376, 48)},
      {"H100", Properties(90, 132, 2048, 232448, 50)},
      {"B200", Properties(100, 148, 2048, 232448, 126)},
      {"RTX 5090", Properties(120, 170, 1536, 101376, 96)},
      {"T4", Properties(75, 40, 1024, 65536, 4)}};
  for (const auto& [name, json] : gpus) {
    Descriptor properties(**libraries, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    properties.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                   std::span<const char>(json.data(), json.size()));
    const absl::Status described = properties.Finish();
    INFO(name << " " << described);
    REQUIRE(described.ok());
    for (ConvShape shape : Shapes()) {
      for (const Operands operands :
           {Operands::kFloat32, Operands::kTf32, Operands::kFloat16, Operands::kBfloat16}) {
        if (operands == Operands::kBfloat16 && name == "T4") continue;  // the T4 has no bfloat16
        INFO(shape.in_channels << " to " << shape.out_channels << " channels, " << shape.height.in
                               << " pixels, by " << shape.height.size << ", operands "
                               << static_cast<int>(operands));
        shape.x_bfloat16 = shape.y_bfloat16 = operands == Operands::kBfloat16;
        const auto made = MakeToolkitConvolution(
            **libraries, {.properties = &properties}, {},
            {.shape = shape, .operands = operands, .workspace_max = size_t{256} << 20});
        INFO(made.status());
        REQUIRE(made.ok());
        const Directions can = (*made)->can();
        CHECK(can.forward);
        CHECK(can.finishes == (operands != Operands::kFloat16 && (shape.bias || !shape.relu)));
        CHECK(can.data);
        CHECK(can.filter);
      }
    }
  }
}

TEST_CASE("a library whose parts are not there is not whole, and the part is named") {
  void* const library = OpenLibrary("maths", "libm.so.6").value();
  constexpr const char* kThere[] = {"libc.so.6", "libstdc++.so.6"};
  CHECK(CheckParts("maths", library, kThere).ok());
  constexpr const char* kMissing[] = {"libc.so.6", "libnone.so.7"};
  const absl::Status status = CheckParts("maths", library, kMissing);
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(std::string(status.message()).ends_with("is not whole: libnone.so.7 is missing"));
}

}  // namespace
}  // namespace paracord::cuda
#endif
