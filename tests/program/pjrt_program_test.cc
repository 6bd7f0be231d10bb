// StableHLO programs on a fake PJRT plug-in that fails on demand (tests/fake_pjrt).
#include "program/pjrt_program.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/aligned_memory.h"
#include "common/steady_ms.h"
#include "config/program_spec.h"
#include "program/program_file.h"
#include "tests/fakes.h"
#include "tests/program/stablehlo_file.h"

namespace paracord {
namespace {

using nlohmann::json;

const std::string kFakePjrt = PARACORD_BIN_DIR "/fake_plugins/fake_pjrt.so";

// Gives the plug-in orders during its lifetime.
struct Telling {
  explicit Telling(const std::string& what) { setenv("PARACORD_FAKE_PJRT", what.c_str(), 1); }
  ~Telling() { unsetenv("PARACORD_FAKE_PJRT"); }
};

struct PjrtRig {
  PjrtRig() {
    job.model = StableHloModel(FakeProgramFile());
    job.batch = 4;
    schema.inputs = {{"x", {2}, {}}};
    schema.targets = {{"", {}, {}}};
    batch = schema;
    batch.examples = 4;
    batch.inputs[0].values = {1, 2, 3, 4, 5, 6, 7, 8};
    batch.targets[0].values = {3, 2, 1, 0};
    values = {{1, 2, 3, 4, 5, 6}, {7, 8, 9}, {10, 11}, {12}};
  }

  absl::Status Make(const std::string& device = "pjrt:" + kFakePjrt, bool automatic = false) {
    auto made = PjrtProgram::Make(job, schema, {device, automatic});
    if (made.ok()) program = *std::move(made);
    return made.status();
  }

  absl::StatusOr<double> Step(uint64_t key = 0) {
    gradients = {std::vector<float>(6), std::vector<float>(3), std::vector<float>(2), {}};
    std::vector<std::span<const float>> in(values.begin(), values.end());
    std::vector<std::span<float>> out(gradients.begin(), gradients.end());
    return program->ComputeGradients(batch, key, in, out);
  }

  absl::StatusOr<std::vector<Column>> Predict() {
    std::vector<std::span<const float>> in(values.begin(), values.end());
    return program->Predict(batch, in);
  }

  Job job;
  Batch schema, batch;
  std::vector<AlignedVector<float>> values;
  std::vector<std::vector<float>> gradients;
  std::unique_ptr<PjrtProgram> program;
};

using Values = std::vector<std::vector<float>>;

void CheckSaid(const absl::Status& status, const std::string& why) {
  INFO(status);
  CHECK_FALSE(status.ok());
  CHECK(absl::StrContains(status.message(), why));
}

TEST_CASE("a plug-in computes steps and predictions of a program file") {
  PjrtRig rig;
  const absl::Status made = rig.Make();
  INFO(made);
  REQUIRE(made.ok());
  CHECK(rig.program->BatchSizes() == std::vector<uint32_t>{2, 4});
  CHECK(absl::StrContains(rig.program->Summary(), "mean (2,) zeros, moving average of 0.5"));
  CHECK(absl::StrContains(rig.program->device(), "cpu by /"));
  std::vector<size_t> there;
  rig.program->OnGradient([&](size_t v) { there.push_back(v); });
  CHECK(rig.Step(7).value() == 7.5);
  CHECK(rig.gradients == Values{{2, 4, 6, 8, 10, 12}, {4, 3, 2}, {1, 2}, {}});
  CHECK(there == std::vector<size_t>{0, 1, 2});
  // Another batch size has a separate module.
  rig.batch.examples = 2;
  rig.batch.inputs[0].values.resize(4);
  rig.batch.targets[0].values.resize(2);
  CHECK(rig.Step(uint64_t{1} << 40).value() == 0.5);
  CHECK(rig.gradients[1] == std::vector<float>{4, 3, 4});
}

TEST_CASE("a plug-in for the processor is given arrays that it can read in place") {
  const Telling telling("aligned=1");
  PjrtRig rig;
  for (const char* const type : {"int32", "int64"}) {
    rig.job.model["file"]["targets"][0]["dtype"] = type;
    REQUIRE(rig.Make().ok());
    // Several batches, since one may be aligned by chance.
    std::vector<Batch> batches(8, rig.batch);
    for (const Batch& batch : batches) {
      rig.batch = batch;
      CHECK(rig.Step(7).status() == absl::OkStatus());
      CHECK(rig.gradients == Values{{2, 4, 6, 8, 10, 12}, {4, 3, 2}, {1, 2}, {}});
      CHECK(rig.Predict().status() == absl::OkStatus());
    }
  }
}

TEST_CASE("predictions of any number of examples are put together") {
  PjrtRig rig;
  REQUIRE(rig.Make().ok());
  for (const uint32_t examples : {1u, 4u, 6u, 9u}) {
    rig.batch.examples = examples;
    rig.batch.inputs[0].values.clear();
    for (uint32_t i = 0; i < 2 * examples; ++i) {
      rig.batch.inputs[0].values.push_back(static_cast<float>(i));
    }
    rig.batch.targets[0].values.assign(examples, 0);
    const auto columns = rig.Predict();
    REQUIRE(columns.ok());
    REQUIRE((*columns)[0].values.size() == 2 * examples);
    for (uint32_t i = 0; i < 2 * examples; ++i) {
      CHECK((*columns)[0].values[i] == 10 * static_cast<float>(i));
    }
  }
}

TEST_CASE("each call of a plug-in may fail as the program is made, which names both") {
  const std::string function =
      GENERATE("PJRT_Plugin_Initialize", "PJRT_Client_Create", "PJRT_Client_PlatformName",
               "PJRT_Client_AddressableDevices", "PJRT_Client_Compile",
               "PJRT_LoadedExecutable_GetExecutable", "PJRT_Executable_NumOutputs",
               "PJRT_Executable_OutputElementTypes", "PJRT_Executable_OutputDimensions",
               "PJRT_Client_BufferFromHostBuffer", "PJRT_LoadedExecutable_Execute",
               "PJRT_Buffer_ToHostBuffer", "PJRT_Event_Await");
  const bool missing = GENERATE(false, true);
  const Telling telling((missing ? "missing=" : "fail=") + function);
  PjrtRig rig;
  const absl::Status status = rig.Make();
  CHECK(absl::IsInvalidArgument(status));
  CheckSaid(status, missing ? "(API 0.90) has no function " + function + ": it is too old"
                            : kFakePjrt + ": " + function + ": told to fail in " + function);
}

TEST_CASE("a failure to free something disturbs nothing") {
  const std::string object = GENERATE(as<std::string>(), "PJRT_Event_Destroy",
                                      "PJRT_Buffer_Destroy", "PJRT_Executable_Destroy");
  const Telling telling("fail=" + object);
  PjrtRig rig;
  REQUIRE(rig.Make().ok());
  CHECK(rig.Step().ok());
}

TEST_CASE("an error of a run is the batch's, the memory's, or the loss of the plug-in") {
  const std::string function =
      GENERATE(as<std::string>(), "PJRT_Client_BufferFromHostBuffer",
               "PJRT_LoadedExecutable_Execute", "PJRT_Buffer_ToHostBuffer", "PJRT_Event_Await");
  PjrtRig rig;
  REQUIRE(rig.Make().ok());
  const auto code = [&](int number) {
    const Telling telling("fail=" + function + ":" + std::to_string(number));
    return rig.Step().status().code();
  };
  CHECK(code(3) == absl::StatusCode::kInvalidArgument);
  CHECK(code(8) == absl::StatusCode::kResourceExhausted);
  CHECK(code(13) == absl::StatusCode::kDataLoss);
  CHECK(code(14) == absl::StatusCode::kDataLoss);
  CHECK(code(99) == absl::StatusCode::kDataLoss);
  CHECK(rig.Step().ok());
}

TEST_CASE("an old plug-in is refused by what it lacks") {
  const auto [told, why] = GENERATE(table<std::string, std::string>({
      {"functions=91", "has no function PJRT_Executable_OutputDimensions"},
      {"functions=10", "has no function PJRT_Client_Create"},
      {"functions=0", "has no function PJRT_Plugin_Initialize"},
      {"major=1", "has version 1.90 of the API, and this program 0.x"},
  }));
  const Telling telling(told);
  CheckSaid(PjrtRig().Make(), why);
}

TEST_CASE("results that come late are waited for") {
  PjrtRig rig;
  REQUIRE(rig.Make().ok());
  const Telling telling("slow_ms=30");
  const int64_t begin_ms = SteadyMs();
  CHECK(rig.Step().value() == 0.5);
  CHECK(SteadyMs() - begin_ms >= 29);
  CHECK(rig.gradients[0][5] == 12);
}

TEST_CASE("a device is a plug-in's by its path and number, or by its platform") {
  PjrtRig rig;
  const Telling telling("devices=2 platform=cuda");
  CHECK(rig.Make("pjrt:" + kFakePjrt + ":1").ok());
  CHECK(rig.Step().ok());
  CheckSaid(rig.Make("pjrt:" + kFakePjrt + ":2"), "has 2 devices here, the first is 0");
  CheckSaid(rig.Make("pjrt:/no/such.so"), "there is no PJRT plug-in at /no/such.so");
  CheckSaid(rig.Make("pjrt:" + kFakePjrt + ":x"),
            kFakePjrt + ":x: a device's number has to follow the last colon");
  unsetenv("PARACORD_PJRT_PLUGINS");
  CheckSaid(rig.Make("cpu", true), "say --device pjrt:PATH of its library, or PARACORD_PJRT_");
  setenv("PARACORD_PJRT_PLUGINS", ("/no/such.so:" + kFakePjrt).c_str(), 1);
  CHECK(rig.Make("cpu", true).ok());
  CHECK(rig.Make("cuda:1").ok());
  CheckSaid(rig.Make("cuda:5"), "has 2 devices here");
  CheckSaid(rig.Make("cpu"),
            "no plug-in of PARACORD_PJRT_PLUGINS computes on cpu; there is no "
            "PJRT plug-in at /no/such.so; " +
                kFakePjrt + " is for cuda");
  unsetenv("PARACORD_PJRT_PLUGINS");
}

TEST_CASE(
    "workers of a machine take its GPUs in turn, and no more of their memory than they need") {
  PjrtRig rig;
  const auto make = [&](const std::string& device, bool automatic, uint32_t turn) {
    PjrtUse use = {device, automatic};
    use.turn = turn;
    return PjrtProgram::Make(rig.job, rig.schema, use).status();
  };
  const std::string named = "pjrt:" + kFakePjrt;
  setenv("PARACORD_PJRT_PLUGINS", kFakePjrt.c_str(), 1);
  setenv("CUDA_VISIBLE_DEVICES", "0,1,2", 1);
  {
    const Telling telling("gpus=2");
    for (const auto& [device, automatic] : {std::pair("cpu", true), {named.c_str(), false}}) {
      CHECK(make(device, automatic, 0).ok());
      CHECK(make(device, automatic, 4).ok());
      CheckSaid(make(device, automatic, 5), "there is no GPU 2");
    }
    // The number after the device counts.
    CHECK(make(named + ":1", false, 2).ok());
    CHECK(make("cuda:1", false, 2).ok());
    CheckSaid(make(named + ":2", false, 0), "there is no GPU 2");
  }
  // Plug-ins for other devices get no options.
  CHECK(make("cpu", true, 5).ok());
  unsetenv("CUDA_VISIBLE_DEVICES");
  unsetenv("PARACORD_PJRT_PLUGINS");
}

TEST_CASE("several devices of a plug-in have one client, and modules that are compiled once") {
  PjrtRig rig;
  const size_t modules = ReadProgramFile(rig.job.model.at("file"))->modules.size();
  // Further calls would fail.
  const std::string fail = GENERATE_COPY(absl::StrCat("PJRT_Client_Compile:13:", modules),
                                         std::string("PJRT_Client_Create:13:1"));
  const Telling telling(absl::StrCat("devices=4 fail=", fail));
  auto made = PjrtProgram::MakeOnEach(rig.job, rig.schema, {"pjrt:" + kFakePjrt + ":all"});
  INFO(made.status());
  REQUIRE(made.ok());
  REQUIRE(made->size() == 4);
  std::vector<std::thread> threads;
  std::vector<double> losses(4);
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::vector<std::vector<float>> gradients = {
          std::vector<float>(6), std::vector<float>(3), std::vector<float>(2), {}};
      const std::vector<std::span<const float>> in(rig.values.begin(), rig.values.end());
      const std::vector<std::span<float>> out(gradients.begin(), gradients.end());
      losses[i] = (*made)[i]->ComputeGradients(rig.batch, 7, in, out).value_or(-1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(losses == std::vector<double>(4, 7.5));
  // The client lives as long as any of the programs.
  made->erase(made->begin(), made->begin() + 3);
  rig.program = std::move(made->front());
  CHECK(rig.Step(7).value() == 7.5);
}

TEST_CASE("devices of a plug-in are named by their numbers, each once") {
  PjrtRig rig;
  const Telling telling("devices=4");
  const auto made = [&](const std::string& which) {
    return PjrtProgram::MakeOnEach(rig.job, rig.schema, {"pjrt:" + kFakePjrt + which});
  };
  CHECK(made(":0,2")->size() == 2);
  CHECK(made(":3")->size() == 1);
  CHECK(made("")->size() == 1);
  CheckSaid(made(":1,1").status(), "is named twice");
  CheckSaid(made(":0,4").status(), "has 4 devices here, the first is 0");
  CheckSaid(made(":0,x").status(), ":0,x: a device's number has to follow the last colon");
  CheckSaid(rig.Make("pjrt:" + kFakePjrt + ":0,1"),
            ":0,1: several devices are for workers that train; name one");
}

TEST_CASE("GPUs are counted by the environment, or else the kernel's devices") {
  const TestDirectory devices;
  CHECK(CountGpus(devices / "none") == 0);
  for (const char* const name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"}) {
    devices.Write(name, "");
  }
  CHECK(CountGpus(devices.path()) == 2);
  setenv("CUDA_VISIBLE_DEVICES", "GPU-7a,GPU-7b,3", 1);
  CHECK(CountGpus(devices.path()) == 3);
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK(CountGpus(devices.path()) == 0);
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_CASE("a program that takes more memory than there is gets no further than its sizes") {
  const auto [change, why] = GENERATE(table<std::function<void(json&)>, std::string>({
      {[](json& file) { file["modules"][1]["batch"] = 1u << 24; },
       "modules[1], a step of 16777216 "},
      {[](json& file) {
         file["variables"][0]["shape"] = {1u << 20, 1u << 10};
       },
       "modules[0], a step of 4 "},
      {[](json& file) { file["outputs"][0]["shape"] = {1u << 20}; },
       "modules[2], a prediction of 4 "},
  }));
  PjrtRig rig;
  change(rig.job.model["file"]);
  PjrtUse use = {"pjrt:" + kFakePjrt};
  use.memory_max = 2 << 20;
  const Telling telling("fail=PJRT_Client_Compile");
  const absl::Status status = PjrtProgram::Make(rig.job, rig.schema, use).status();
  CheckSaid(status, "model.file: " + why);
  CheckSaid(status, "its arguments and results take ");
  CheckSaid(status, "and this process may take 2.0 MiB");
}

TEST_CASE("a library that is no plug-in is refused") {
  const TestDirectory directory;
  const std::string text = directory.Write("text.so", "not a library");
  CheckSaid(PjrtRig().Make("pjrt:" + text), text + " does not load: ");
}

TEST_CASE("a module that does not fit its file or its plug-in is named") {
  const auto [code, why] = GENERATE(table<std::string, std::string>({
      {"rubbish\n", "this is no module"},
      {"call Sharding 0 0 0\n", "No registered implementation for custom call to Sharding"},
      {"f32 - 0 0 0\n", "it has 1 results, and the file names 4"},
      {"f32 - 0 0 0\nf32 2x3 0 0 0\nf32 4 0 0 0\nf32 2 0 0 0\n",
       "its result 2 is float32 (4,), and by the file float32 (3,)"},
      {"i32 - 0 0 0\nf32 2x3 0 0 0\nf32 3 0 0 0\nf32 2 0 0 0\n", "its result 0 is int32 ()"},
      {"f32 - 0 1 9\nf32 2x3 0 0 0\nf32 3 0 0 0\nf32 2 0 0 0\n", "the module has more arguments"},
  }));
  PjrtRig rig;
  rig.job.model["file"]["modules"][1]["code"] = FakeCode(code);
  const absl::Status status = rig.Make();
  CheckSaid(status, "model.file: modules[1], a step of 2 examples (StableHLO 1.0.0): ");
  CheckSaid(status, why);
}

TEST_CASE("columns that a program does not take are refused") {
  const auto [change, why] = GENERATE(table<std::function<void(PjrtRig&)>, std::string>({
      {[](PjrtRig& rig) { rig.schema.inputs[0].shape = {3}; },
       "takes input \"x\" of shape (2,), and that of the data has the shape (3,)"},
      {[](PjrtRig& rig) { rig.schema.inputs[0].text = true; }, "input \"x\" is strings"},
      {[](PjrtRig& rig) { rig.schema.targets.clear(); }, "takes 1 targets, and the data have 0"},
      {[](PjrtRig& rig) {
         rig.schema.weights = {{"", {}, {}}};
       },
       "takes 0 weights, and the data have 1"},
      {[](PjrtRig& rig) { rig.job.accumulate = 2; }, "accumulate: is the program's own affair"},
      {[](PjrtRig& rig) { rig.job.tables.by_layer["w"].growing = true; },
       "tables.w: the program declares no table"},
  }));
  PjrtRig rig;
  change(rig);
  CheckSaid(rig.Make(), why);
}

TEST_CASE("batches that a program does not take are their own fault") {
  const auto [change, why] = GENERATE(table<std::function<void(PjrtRig&)>, std::string>({
      {[](PjrtRig& rig) { rig.batch.examples = 3; },
       "the batch has 3 examples, and the program has steps of 2, 4 alone"},
      {[](PjrtRig& rig) { rig.batch.inputs[0].shape = {1}; }, "has another shape than before"},
      {[](PjrtRig& rig) { rig.batch.inputs.clear(); }, "the batch has 0 columns of input"},
      {[](PjrtRig& rig) { rig.batch.targets[0].values[1] = 3e9f; }, "no whole number is certain"},
      {[](PjrtRig& rig) { rig.batch.targets[0].values[1] = 1.5f; },
       "example 1 of the batch: target has 1.5, which is no whole number"},
      {[](PjrtRig& rig) {
         rig.batch.targets[0].values[1] = 3e9f;
         rig.batch.targets[0].exact = {{1, 3000000001}};
       },
       "has the number 3000000001, and the program takes it as int32"},
      {[](PjrtRig& rig) {
         rig.batch.inputs[0].exact = {{0, 16777217}};
       },
       "has the number 16777217, and float32 lacks some"},
  }));
  PjrtRig rig;
  REQUIRE(rig.Make().ok());
  change(rig);
  const absl::Status status = rig.Step().status();
  CHECK(absl::IsInvalidArgument(status));
  CheckSaid(status, why);
}

TEST_CASE("whole numbers beyond float32 reach a program that takes int64") {
  PjrtRig rig;
  rig.job.model["file"]["targets"][0]["dtype"] = "int64";
  REQUIRE(rig.Make().ok());
  rig.batch.targets[0].values[1] = 3e9f;
  rig.batch.targets[0].exact = {{1, 3000000001}};
  REQUIRE(rig.Step().ok());
  CHECK(rig.gradients[1] == std::vector<float>{4, 3e9f, 2});
  rig.batch.targets[0].values[1] = 18446744073709551615.0f;
  rig.batch.targets[0].exact = {{1, -1}};
  const absl::Status beyond = rig.Step().status();
  CHECK(absl::IsInvalidArgument(beyond));
  CheckSaid(beyond, "example 1 of the batch: target has 18446744073709551615, which is beyond");
}

}  // namespace
}  // namespace paracord
