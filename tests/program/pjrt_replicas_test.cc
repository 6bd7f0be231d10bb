// Steps of StableHLO for several replicas, whose gradients the devices of a plug-in add up. Uses a
// fake PJRT plug-in that knows which device an argument is on (tests/fake_pjrt).
#include "program/pjrt_replicas.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/random.h"
#include "config/program_spec.h"
#include "program/pjrt_program.h"
#include "tests/fakes.h"
#include "tests/program/stablehlo_file.h"

namespace paracord {
namespace {

using Programs = std::vector<std::unique_ptr<PjrtProgram>>;

const std::string kReplicaPlugin = "pjrt:" PARACORD_BIN_DIR "/fake_plugins/fake_pjrt.so";

struct ReplicaRig {
  explicit ReplicaRig(uint32_t replicas = 2) {
    nlohmann::json file = FakeProgramFile();
    // Without code equal to that of the first module, whose compiled form would do.
    file["modules"][1]["code"] = FakeCode("f32 - 9 0 0\nf32 2x3 9 0 0\nf32 3 9 0 0\nf32 2 9 0 0\n");
    file["modules"].push_back(JsonOf(TextOf(FakeReplicaStep(/*batch=*/4, replicas))));
    job.model = StableHloModel(file);
    job.batch = 4;
    job.guarantees.consistency = "sync";
    job.guarantees.consistency_said = true;
    job.guarantees.reduce_fast = true;
    schema.inputs = {{"x", {2}, {}}};
    schema.targets = {{"", {}, {}}};
    for (uint32_t i = 0; i < replicas; ++i) {
      Batch& batch = batches.emplace_back(schema);
      batch.examples = 4;
      const auto from = static_cast<float>(10 * i);
      for (int n = 1; n <= 8; ++n) {
        batch.inputs[0].values.push_back(from + static_cast<float>(n));
      }
      batch.targets[0].values = {from + 3, from + 2, from + 1, from};
    }
  }
  ~ReplicaRig() { unsetenv("PARACORD_FAKE_PJRT"); }

  // `told`: orders to the plug-in.
  absl::StatusOr<Programs> Make(const std::string& devices, const std::string& told = "devices=4",
                                const CompiledPlace& place = {}) {
    setenv("PARACORD_FAKE_PJRT", told.c_str(), 1);
    return PjrtProgram::MakeOnEach(job, schema, {kReplicaPlugin + devices}, place);
  }

  // The key of batch i is i + 1.
  absl::StatusOr<std::vector<double>> Sum(PjrtProgram& program) {
    std::vector<KeyedBatch> keyed;
    for (const Batch& batch : batches) keyed.push_back({&batch, keyed.size() + 1});
    sum = {std::vector<float>(6), std::vector<float>(3), std::vector<float>(2), {}};
    const std::vector<std::span<const float>> in(values.begin(), values.end());
    const std::vector<std::span<float>> out(sum.begin(), sum.end());
    return program.ComputeSum(keyed, in, out);
  }

  Job job;
  Batch schema;
  std::vector<Batch> batches;
  std::vector<std::vector<float>> values = {{1, 2, 3, 4, 5, 6}, {7, 8, 9}, {10, 11}, {12}};
  std::vector<std::vector<float>> sum;
};

TEST_CASE("devices compute a batch each, and give the losses of each and the sum of gradients") {
  // In any order of the client's devices.
  const std::string devices = GENERATE(as<std::string>(), ":0,1", ":1,3", ":3,0");
  CAPTURE(devices);
  ReplicaRig rig;
  const auto made = rig.Make(devices);
  INFO(made.status());
  REQUIRE(made.ok());
  REQUIRE(made->size() == 2);
  CHECK((*made)[0]->replicas() == 2);
  CHECK((*made)[1]->replicas() == 0);
  CHECK((*made)[0]->BatchSizes() == std::vector<uint32_t>{2, 4});
  CHECK(absl::StrContains((*made)[0]->Memory(), "4 modules, "));
  CHECK(absl::StrContains((*made)[0]->Memory(),
                          "; those for 2 replicas add up the lanes of all devices"));
  CHECK(absl::StrContains((*made)[0]->Summary(), "adds up the gradients of 2 batches itself"));
  CHECK(rig.Sum(*(*made)[0]).value() == std::vector<double>{1.5, 2.5});
  // Twice w, one more than y's first examples, and x's first examples, of both batches.
  CHECK(rig.sum ==
        std::vector<std::vector<float>>{{4, 8, 12, 16, 20, 24}, {18, 16, 14}, {12, 14}, {}});
}

TEST_CASE("as many devices as replicas add up, without a limit of two") {
  ReplicaRig rig(8);
  const auto made = rig.Make(":all", "devices=8");
  REQUIRE(made.ok());
  CHECK(rig.Sum(*(*made)[0]).value() ==
        std::vector<double>{1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5});
  CHECK(rig.sum[0] == std::vector<float>{16, 32, 48, 64, 80, 96});
  CHECK(rig.sum[2] == std::vector<float>{8 + 280, 16 + 280});
}

TEST_CASE("each device still computes lanes by itself") {
  ReplicaRig rig;
  const auto made = rig.Make(":0,1");
  REQUIRE(made.ok());
  rig.sum = {std::vector<float>(6), std::vector<float>(3), std::vector<float>(2), {}};
  const std::vector<std::span<const float>> in(rig.values.begin(), rig.values.end());
  const std::vector<std::span<float>> out(rig.sum.begin(), rig.sum.end());
  for (const auto& program : *made) {
    CHECK(program->ComputeGradients(rig.batches[1], 1, in, out).value() == 1.5);
    CHECK(rig.sum[2] == std::vector<float>{11, 12});
  }
}

TEST_CASE("a program for replicas wants sums that may differ in bits, and says both keys") {
  ReplicaRig rig;
  GuaranteesSpec& guarantees = rig.job.guarantees;
  const bool sync = GENERATE(false, true);
  guarantees.consistency = sync ? "sync" : "async";
  guarantees.reduce_fast = !sync;
  for (const absl::Status& status :
       {rig.Make(":0,1").status(),
        PjrtProgram::Check(rig.job, rig.schema, uint64_t{1} << 30).status()}) {
    INFO(status);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(
        absl::StrContains(status.message(), "model.file: the program was exported for 2 replicas"));
    CHECK(absl::StrContains(status.message(), "`consistency` \"sync\" and `reduce` \"fast\""));
  }
  // The strategy, which nobody has chosen yet, may make the job synchronous.
  guarantees.consistency = "async";
  guarantees.consistency_said = false;
  CHECK(PjrtProgram::Check(rig.job, rig.schema, uint64_t{1} << 30).ok() == !sync);
}

TEST_CASE("a program for replicas wants as many devices, and says how to name them") {
  const auto [devices, count] =
      GENERATE(table<std::string, std::string>({{"", " names 1 device: name 2"},
                                                {":2", " names 1 device: name 2"},
                                                {":0,1,2", " names 3 devices: name 2"},
                                                {":all", " names 4 devices: name 2"}}));
  ReplicaRig rig;
  const absl::Status status = rig.Make(devices).status();
  INFO(status);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(absl::StrContains(status.message(),
                          "model.file: the program was exported for 2 replicas, "
                          "and --device pjrt:"));
  CHECK(absl::StrContains(status.message(), devices + count));
}

TEST_CASE("one device computes and predicts without the steps for replicas") {
  ReplicaRig rig;
  rig.job.guarantees = {};
  // Compiles nothing but the three modules for one replica.
  setenv("PARACORD_FAKE_PJRT", "fail=PJRT_Client_Compile:14:3", 1);
  const auto made = PjrtProgram::Make(rig.job, rig.schema, {kReplicaPlugin});
  INFO(made.status());
  REQUIRE(made.ok());
  CHECK((*made)->replicas() == 0);
  CHECK(absl::StartsWith((*made)->Memory(), "3 modules, compiled"));
  const std::vector<std::span<const float>> in(rig.values.begin(), rig.values.end());
  CHECK((*made)->Predict(rig.batches[0], in).value()[0].values[7] == 80);
}

TEST_CASE("devices add up whole batches of one size that the program has a step for") {
  ReplicaRig rig;
  const auto made = rig.Make(":0,1");
  REQUIRE(made.ok());
  Batch& batch = rig.batches[GENERATE(0u, 1u)];
  const uint32_t examples = GENERATE(2u, 3u);
  batch.examples = examples;
  batch.inputs[0].values.resize(2 * examples);
  batch.targets[0].values.resize(examples);
  CHECK(absl::IsInvalidArgument(rig.Sum(*(*made)[0]).status()));
  batch.examples = 4;  // more than its columns have
  CHECK(absl::IsInvalidArgument(rig.Sum(*(*made)[0]).status()));
}

TEST_CASE("an error of a run on all devices is the batches', the memory's, or their loss") {
  const std::string function =
      GENERATE(as<std::string>(), "PJRT_Client_BufferFromHostBuffer",
               "PJRT_LoadedExecutable_Execute", "PJRT_Buffer_ToHostBuffer", "PJRT_Event_Await");
  ReplicaRig rig;
  const auto made = rig.Make(":0,1");
  REQUIRE(made.ok());
  // Also a call in the middle of a run.
  const int call = GENERATE(0, 1);
  const auto code = [&](int number) {
    const std::string fail = absl::StrCat("fail=", function, ":", number, ":", call);
    setenv("PARACORD_FAKE_PJRT", fail.c_str(), 1);
    absl::StatusCode found = absl::StatusCode::kOk;
    for (int run = 0; run < 2 && found == absl::StatusCode::kOk; ++run) {
      found = rig.Sum(*(*made)[0]).status().code();
    }
    unsetenv("PARACORD_FAKE_PJRT");
    return found;
  };
  CHECK(code(3) == absl::StatusCode::kInvalidArgument);
  CHECK(code(8) == absl::StatusCode::kResourceExhausted);
  CHECK(code(13) == absl::StatusCode::kDataLoss);
  CHECK(rig.Sum(*(*made)[0]).ok());
}

TEST_CASE("a plug-in that cannot say which device is which is refused by what it lacks") {
  ReplicaRig rig;
  const auto status = [&](const std::string& told) {
    return std::string(rig.Make(":0,1", "devices=2 " + told).status().message());
  };
  const std::string module = "model.file: modules[3], a step of 4 examples on each of 2 replicas ";
  const std::string lacks = status("missing=PJRT_DeviceDescription_Id");
  CHECK(absl::StrContains(lacks, module));
  CHECK(absl::StrContains(lacks, "has no function PJRT_DeviceDescription_Id: it is too old"));
  CHECK(absl::StrContains(status("fail=PJRT_DeviceDescription_Id"), "told to fail in"));
}

TEST_CASE("the compiled form of a step for replicas is kept for the same devices") {
  const TestDirectory directory;
  PosixFiles files;
  SystemRandom random;
  const CompiledPlace place = CompiledIn(files, directory.path(), random, true);
  ReplicaRig rig;
  const auto kept = [&](const std::string& devices, const std::string& told) {
    const auto made = rig.Make(devices, "devices=4 " + told, place);
    INFO(made.status());
    REQUIRE(made.ok());
    CHECK(rig.Sum(*(*made)[0]).ok());
    return (*made)[0]->modules_kept();
  };
  CHECK(kept(":0,1", "") == 0);
  CHECK(kept(":0,1", "fail=PJRT_Client_Compile") == 4);
  CHECK(kept(":1,0", "") == 3);
  CHECK(kept(":1,0", "fail=PJRT_Client_Compile") == 4);
}

}  // namespace
}  // namespace paracord
