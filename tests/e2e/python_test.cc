// Tests the wire from another language: Python calls a ps and works for a coordinator, with plain
// protobuf and grpcio.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "config/job.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/kills.h"
#include "e2e/process.h"
#include "exchange/codec.h"
#include "tests/fakes.h"
#include "tests/parts.h"

namespace paracord::e2e {
namespace {

// Returns a load order for one matrix in one partition, streamed in several messages.
LoadRequest Load() {
  Job job;
  job.name = "python";
  job.model = {{"class_name", "Sequential"}, {"config", {{"layers", nlohmann::json::array()}}}};
  job.train = {"npy", {{"features", "/f.npy"}, {"labels", "/l.npy"}}};
  job.loss = {"mean_squared_error"};
  job.optimizer = {"sgd", {{"learning_rate", 1.0}}};
  LoadRequest load;
  load.set_job_json(JobToJson(job));
  load.mutable_plan()->set_records(1000);
  load.mutable_plan()->set_batch(10);
  load.mutable_plan()->set_split_batches(10);
  VariableSpec& variable = *load.add_variables();
  variable.set_name("kernel");
  variable.add_shape(700);
  variable.add_shape(1001);
  variable.set_dtype(FLOAT32);
  variable.set_trainable(true);
  variable.mutable_initializer()->set_name("zeros");
  PartitionSpec& partition = *load.add_partitions();
  partition.set_name("kernel/part_0");
  partition.set_row_end(700);
  return load;
}

// PARACORD_PYTHON names an interpreter with grpcio and protobuf.
TEST_CASE("Python's protobuf and grpcio speak to a ps, and read what C++ encodes", "[.slow]") {
  const TestDirectory dir;
  ExchangeRequest header;
  header.set_worker("worker:0");
  header.mutable_batch()->set_batch(3);
  header.add_push()->set_bytes(8);
  std::string large(3 << 19, 'x');  // fills two pieces
  const float last = 2.5f;
  large.append(reinterpret_cast<const char*>(&last), sizeof(last));
  const absl::Cord encoded =
      Joined(EncodeExchange(header, {{0, 0, absl::Cord("abcdefgh")}, {7, 4, absl::Cord(large)}}));
  WriteText(dir.path() + "/request", std::string(encoded));
  WriteText(dir.path() + "/load", Load().SerializeAsString());

  const std::string protos = dir.path() + "/descriptors";
  Process protoc({"/usr/bin/protoc", absl::StrCat("-I", PARACORD_SOURCE_DIR), "--include_imports",
                  "--descriptor_set_out=" + protos, "proto/paracord.proto"},
                 {}, dir.path() + "/protoc.log");
  REQUIRE(protoc.Wait(20000) == 0);
  const std::string address = absl::StrCat("unix:", dir.path(), "/ps");
  const std::string cluster =
      absl::StrCat(R"({"cluster": {"chief": ["unix:/none"], "worker": ["unix:/no-one"], "ps": [")",
                   address, R"("]}})");
  Process ps({absl::StrCat(PARACORD_BIN_DIR, "/paracord-ps"), "--task", "ps:0", "--dir",
              dir.path() + "/job"},
             {{"TF_CONFIG", cluster}}, dir.path() + "/ps.log");
  const char* const chosen = std::getenv("PARACORD_PYTHON");
  Process python({"/usr/bin/env", chosen == nullptr ? "python3" : chosen,
                  absl::StrCat(PARACORD_SOURCE_DIR, "/tests/e2e/python_client.py"), address, protos,
                  dir.path() + "/load", dir.path() + "/request", dir.path() + "/back"},
                 {}, dir.path() + "/python.log");
  const std::optional<Exit> exit = python.Wait(60000);
  INFO(ReadText(dir.path() + "/python.log"));
  INFO(ReadText(dir.path() + "/ps.log"));
  if (exit == 77) {
    WARN("skipped: this Python has no grpcio or protobuf (PARACORD_PYTHON names another)");
    return;
  }
  REQUIRE(exit == 0);
  const auto back = DecodeExchangeRequest(absl::Cord(ReadText(dir.path() + "/back")));
  REQUIRE(back.ok());
  CHECK(back->header.SerializeAsString() == header.SerializeAsString());
  REQUIRE(back->pieces.size() == 3);
  CHECK(std::string(back->pieces[0].data) == "abcdefgh");
  CHECK(back->pieces[2].partition == 7);
}

// Returns the command of a worker in Python, whose messages are in `stubs`; none if this Python
// lacks what the worker needs.
std::vector<std::string> PythonWorker(const TestDirectory& stubs, const std::string& script) {
  const char* const chosen = std::getenv("PARACORD_PYTHON");
  const std::string python = chosen == nullptr ? "python3" : chosen;
  if (std::system((python + " -c 'import grpc, google.protobuf, numpy'").c_str()) != 0) {
    WARN("skipped: this Python has no grpcio, protobuf or NumPy (PARACORD_PYTHON names another)");
    return {};
  }
  std::vector<std::string> command = {"/usr/bin/protoc", absl::StrCat("-I", PARACORD_SOURCE_DIR),
                                      "--python_out=" + stubs.path()};
  for (const auto& file : std::filesystem::directory_iterator(PARACORD_SOURCE_DIR "/proto")) {
    if (file.path().extension() == ".proto") command.push_back(file.path().string());
  }
  Process protoc(command, {}, stubs.path() + "/protoc.log");
  REQUIRE(protoc.Wait(20000) == 0);
  return {"/usr/bin/env", python, absl::StrCat(PARACORD_SOURCE_DIR, "/tests/e2e/", script)};
}

// Trains the counting job with workers in Python, while every process is killed at random.
void CountInPython(nlohmann::json job, uint64_t batches, uint64_t updates) {
  const TestDirectory stubs;
  const std::vector<std::string> worker = PythonWorker(stubs, "python_worker.py");
  if (worker.empty()) return;
  job["failures"] = {{"per_batch", 50}, {"deaths_per_batch", 50}};
  Cluster cluster({.environment = {{"PYTHONPATH", stubs.path()}}, .job = job, .worker = worker});
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  KillAtRandom(cluster,
               {{"ps:0", "ps:1", "worker:0", "worker:1", "coordinator"}, 12, batches, 2000});
  CHECK(cluster.Finish(180000) == 0);
  CheckCounted(cluster.dir(), batches, 0, updates);
  CHECK(cluster.WaitAllGone(10000));
  CHECK(cluster.at("worker:0").Poll() == 0);
  CHECK(cluster.Summary().at("recoveries").at("ps") > 0);
}

TEST_CASE("a worker in Python counts exactly through kills of ps, coordinator and workers",
          "[.slow]") {
  constexpr uint64_t kSteps = 2500;
  CountInPython({{"steps", kSteps}}, kSteps, kSteps);
}

TEST_CASE("a worker in Python trains synchronously through kills of everybody", "[.slow]") {
  constexpr uint64_t kEpochs = 50, kRounds = 13;  // rounds of three lanes, per epoch
  CountInPython({{"consistency", "sync"},
                 {"round_batches", 3},
                 {"split_batches", nullptr},
                 {"epochs", kEpochs}},
                kEpochs * kBatchesPerEpoch, kEpochs * kRounds);
}

TEST_CASE("batches that nobody leased are refused by every ps, and count nothing", "[.slow]") {
  constexpr uint64_t kSteps = 100;
  const TestDirectory stubs;
  const std::vector<std::string> worker = PythonWorker(stubs, "python_intruder.py");
  if (worker.empty()) return;
  Cluster cluster({.workers = 1,
                   .environment = {{"PYTHONPATH", stubs.path()}},
                   .job = {{"steps", kSteps}},
                   .worker = worker});
  cluster.StartAll();
  CHECK(cluster.Finish() == 0);
  const std::vector<std::string> lines = absl::StrSplit(cluster.Log("worker:0"), '\n');
  for (const std::string ps : {"ps:0", "ps:1"}) {
    const std::string refused = ps + " refuses with PERMISSION_DENIED: worker:0 pushes batch 0 of ";
    const auto count = [&](const std::string& text) {
      return std::ranges::count_if(lines, [&](const std::string& line) {
        return line.starts_with(refused) && line.find(text) != std::string::npos;
      });
    };
    CAPTURE(ps);
    CHECK(count("") == 4);
    CHECK(count("split 3 of epoch 90000") >= 2);
    CHECK(count("of epoch 0") == 1);
  }
  CHECK_FALSE(cluster.Logged("worker:0", "has taken"));
  CheckCounted(cluster.dir(), kSteps);
}

}  // namespace
}  // namespace paracord::e2e
