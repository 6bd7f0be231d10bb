// Tests `paracord train`, which runs a cluster of processes under one command.
#include "e2e/train.h"

#include <dirent.h>
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/json_text.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/process.h"
#include "tests/fakes.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

constexpr uint64_t kSteps = Train::kSteps;

TEST_CASE("train survives the death of each of its daemons, and its trace shows all their lives") {
  Train train;
  const std::string trace = train.dir() + ".trace";
  const auto command = train.Start({"--ps", "2", "--workers", "2", "--trace", trace});
  REQUIRE(train.WaitForCheckpoint());
  for (int i = 0; i < 5; ++i) {
    const std::vector<pid_t> daemons = train.Daemons();
    REQUIRE(daemons.size() >= 4);
    const pid_t victim = daemons[static_cast<size_t>(i) % daemons.size()];
    kill(victim, SIGKILL);
    WaitUntil(10000, [&] {
      const std::vector<pid_t> now = train.Daemons();
      return now.size() == 5 && std::find(now.begin(), now.end(), victim) == now.end();
    });
  }
  CHECK(command->Wait(60000) == 0);
  CHECK(train.Said("and was restarted"));
  CheckCounted(train.dir(), kSteps);
  CHECK(train.Daemons().empty());
  CHECK(PosixFiles().List(train.dir() + "/tensorboard").ok());
  CHECK(OpenToOthers(train.dir()) == std::vector<std::string>());
  std::map<std::string, std::set<int64_t>> lives;
  std::set<std::string> spans;
  const json whole = JsonOf(ReadText(trace));
  for (const json& event : whole.at("traceEvents")) {
    if (event.at("name") == "process_name") {
      lives[event.at("args").at("name")].insert(event.at("pid").get<int64_t>());
    }
    if (event.at("ph") == "X") spans.insert(event.at("name").get<std::string>());
  }
  size_t all = 0;
  for (const auto& [task, pids] : lives) all += pids.size();
  CHECK(lives.size() == 5);
  CHECK(all > 5);  // some processes were killed before they wrote
  for (const char* span : {"data", "forward", "backward", "push", "pull", "apply", "event"}) {
    CAPTURE(span);
    CHECK(spans.contains(span));
  }
}

TEST_CASE("after Ctrl-C train goes on from its checkpoint") {
  Train train(kSteps, 0);
  auto command = train.Start({"--ps", "2", "--workers", "2", "--device", "cpu"});
  REQUIRE(train.WaitUntilTraining());
  command->Signal(SIGINT);
  CHECK(command->Wait(15000) == 143);
  CHECK(train.Said("stopped (SIGINT, after a checkpoint); to go on from step-"));
  CHECK(train.Said(" --ps 2 --workers 2 --device cpu --dir '" + train.dir() + "'"));
  CHECK_FALSE(NewestCheckpoint(train.dir()).empty());
  CHECK(train.Daemons().empty());
  command = train.Start({"--ps", "2", "--workers", "1"});
  CHECK(command->Wait(60000) == 0);
  CHECK(train.Said("going on from checkpoint"));
  CheckCounted(train.dir(), kSteps);
}

TEST_CASE("a terminal that is closed has train take a checkpoint, as Ctrl-C does") {
  Train train(3000, 0);
  const auto command = train.Start();
  REQUIRE(train.WaitUntilTraining());
  command->Signal(SIGHUP);
  REQUIRE(WaitUntil(5000, [&] { return train.Said("taking a checkpoint"); }));
  command->Signal(SIGHUP);  // the kernel's SIGHUP, after the shell's
  CHECK(command->Wait(15000) == 143);
  CHECK(train.Said("stopped (SIGHUP, after a checkpoint); to go on from step-"));
  CHECK_FALSE(NewestCheckpoint(train.dir()).empty());
  CHECK(train.Daemons().empty());
}

TEST_CASE("a coordinator that is started again has the job that train read, not the file of now") {
  Train train;
  const auto command = train.Start();
  REQUIRE(train.WaitForCheckpoint());
  WriteText(train.root() + "/job.json", "{");
  train.Signal("coordinator", SIGKILL);
  CHECK(command->Wait(60000) == 0);
  CHECK(train.Said("coordinator:0 ended (signal 9) and was restarted"));
  CheckCounted(train.dir(), kSteps);
}

TEST_CASE("train says which checkpoint is refused, however deep inside it is damaged") {
  Train train(kSteps, 0.25);
  auto command = train.Start();
  REQUIRE(train.WaitForCheckpoint());
  command->Signal(SIGTERM);  // a second signal
  CHECK(command->Wait(15000) == 143);
  const std::string newest = NewestCheckpoint(train.dir());
  std::string bytes = ReadText(newest + "/ps-00000-of-00001.safetensors");
  REQUIRE(bytes.size() > 1000);
  bytes[bytes.size() - 10] = static_cast<char>(~bytes[bytes.size() - 10]);
  WriteText(newest + "/ps-00000-of-00001.safetensors", bytes);
  command = train.Start();
  CHECK(command->Wait(60000) == 0);
  CHECK(train.Said("checkpoint " + newest.substr(newest.rfind('/') + 1) + " is refused: ps:0"));
  CHECK(train.Said("; the newest that can be used is step-"));
  CheckCounted(train.dir(), kSteps);
}

TEST_CASE(
    "a --trace that would replace something else is refused before --fresh removes anything") {
  Train train(100);
  CHECK(train.Start()->Wait(60000) == 0);
  const std::string before = NewestCheckpoint(train.dir());
  CHECK(train.Start({"--fresh", "--trace", train.root() + "/job.json"})->Wait(10000) == 2);
  CHECK(train.Said("is there and is no trace"));
  // A trace must not overwrite a file of the job, present or future.
  for (const std::string name : {"/lock", "/job.running.json", "/generation-9", "/logs/ps-0.log"}) {
    CHECK(train.Start({"--trace", train.dir() + name})->Wait(10000) == 2);
    CHECK(train.Said("--trace: " + train.dir() + name + " belongs to the job in " + train.dir()));
  }
  CHECK(NewestCheckpoint(train.dir()) == before);
  CHECK(PosixFiles().Open(train.dir() + "/summary.json").ok());
}

TEST_CASE("a second train in the same DIR is refused with 3") {
  Train train;
  const auto first = train.Start();
  REQUIRE(train.WaitForCheckpoint());
  const auto second = train.Start({"--fresh"});
  CHECK(second->Wait(5000) == 3);
  CHECK(train.Said("another paracord train works in"));
  CHECK(first->Wait(60000) == 0);
  CheckCounted(train.dir(), kSteps);
}

TEST_CASE("a DIR that is removed under a train is made again, unless another train is there") {
  Train train;
  const auto first = train.Start();
  REQUIRE(train.WaitUntilTraining());
  std::error_code filled;  // the job writes new files meanwhile
  do {
    std::filesystem::remove_all(train.dir(), filled);
  } while (filled);
  // The directory may have come and gone again, so no exact message is expected.
  REQUIRE(WaitUntil(10000, [&] { return std::filesystem::exists(train.dir() + "/lock"); }));
  REQUIRE(WaitUntil(10000, [&] { return train.Said(" was removed or moved, with its check"); }));
  CHECK(train.Start()->Wait(5000) == 3);
  train.Signal("worker", SIGKILL);  // a restart needs the job and a place for its log
  CHECK(first->Wait(60000) == 0);
  CheckCounted(train.dir(), kSteps);

  Train taken;
  const auto held = taken.Start();
  REQUIRE(taken.WaitForCheckpoint());
  taken.Signal("coordinator", SIGSTOP);
  held->Signal(SIGSTOP);
  std::filesystem::rename(taken.dir(), taken.root() + "/moved");
  const auto second = taken.Start();
  REQUIRE(taken.WaitForCheckpoint());
  taken.Signal("coordinator", SIGCONT);
  held->Signal(SIGCONT);
  CHECK(held->Wait(30000) == 3);
  CHECK(taken.Said("another paracord train works there now: this one ends"));
  CHECK(second->Wait(60000) == 0);
  CheckCounted(taken.dir(), kSteps);
}

TEST_CASE("train in a DIR that cannot be written ends with 2, and names DIR and error") {
  const bool read_only = GENERATE(false, true);
  Train train;
  if (read_only) std::filesystem::create_directories(train.dir() + "/lock");
  const auto command = train.Start({}, read_only ? "" : "files.sync=error");
  CHECK(command->Wait(5000) == 2);
  CHECK(train.Said("--dir " + train.dir() + " cannot be written: "));
  CHECK_FALSE(train.Said("training "));
}

TEST_CASE("train --fresh leaves a job alone whose coordinator answers, and fences one that hangs") {
  Cluster cluster({.ps = 1, .workers = 1, .batch_ms = 4, .job = {{"steps", 5000}}});
  cluster.StartAll();
  REQUIRE(WaitUntil(20000, [&] { return !NewestCheckpoint(cluster.dir()).empty(); }));
  const auto train = [&] {
    const std::vector<std::string> command = {PARACORD_BIN_DIR "/paracord",
                                              "train",
                                              cluster.job(),
                                              "--dir",
                                              cluster.dir(),
                                              "--fresh",
                                              "--json"};
    return std::make_unique<Process>(
        command,
        Variables{{"TMPDIR", cluster.root()}, {"PARACORD_FAILPOINTS", "worker.computed=stall:4"}},
        cluster.root() + "/train.log");
  };
  CHECK(train()->Wait(10000) == 3);
  CHECK(ReadText(cluster.root() + "/train.log").find("another coordinator leads the job in") !=
        std::string::npos);
  CHECK_FALSE(NewestCheckpoint(cluster.dir()).empty());
  cluster.at("coordinator").Signal(SIGSTOP);
  cluster.WriteJob({{"steps", kSteps}, {"checkpoint", {{"every_seconds", 0.5}}}});
  const auto fresh = train();
  REQUIRE(WaitUntil(
      20000, [&] { return NewestCheckpoint(cluster.dir()).find("-g3-") != std::string::npos; }));
  cluster.at("coordinator").Signal(SIGCONT);
  constexpr Exit kFenced = 201;
  CHECK(cluster.at("coordinator").Wait(20000) == kFenced);
  const auto checkpoints = PosixFiles().List(cluster.dir() + "/checkpoints");
  REQUIRE(checkpoints.ok());
  for (const std::string& name : *checkpoints) {
    // No checkpoint of the old generation may be left. An unfinished round is removed.
    CHECK((!name.starts_with("step-") || name.find("-g1-") == std::string::npos));
  }
  CHECK(fresh->Wait(60000) == 0);
  CheckCounted(cluster.dir(), kSteps);
}

TEST_CASE("train that is killed leaves no process and no folder behind, and the job goes on") {
  Train train;
  auto command = train.Start({"--ps", "2", "--workers", "2"});
  REQUIRE(train.WaitForCheckpoint());
  command->Kill();
  CHECK(WaitUntil(15000, [&] { return train.Daemons().empty(); }));
  CHECK(train.SocketDirs() == 1);
  command = train.Start({"--ps", "2", "--workers", "2"});
  CHECK(command->Wait(60000) == 0);
  CheckCounted(train.dir(), kSteps);
  CHECK(train.SocketDirs() == 0);
}

TEST_CASE("the threads of a GPU's driver take no signal from train or a worker") {
  setenv("PARACORD_CUDA_PLUGIN", PARACORD_BIN_DIR "/fake_plugins/libthreads.so", 1);
  Train train(3000);
  const auto command = train.Start({"--workers", "2"});
  unsetenv("PARACORD_CUDA_PLUGIN");
  REQUIRE(train.WaitForCheckpoint());
  train.Signal("worker", SIGTERM);
  REQUIRE(WaitUntil(10000, [&] { return train.Said("worker:0 ended") && train.Said("worker:1"); }));
  for (const char* log : {"/logs/worker-0.log", "/logs/worker-1.log"}) {
    CHECK(ReadText(train.dir() + log).find("SIGTERM: finishing the batch") != std::string::npos);
  }
  command->Signal(SIGINT);
  CHECK(command->Wait(20000) == 143);
  CHECK(train.Said("stopped (SIGINT, after a checkpoint)"));
  CHECK(train.Daemons().empty());
}

TEST_CASE(
    "where a GPU is of no use workers say why and compute on the CPU, or fail if it was asked "
    "for") {
  const std::string why = "cuda:0 cannot be used: cuBLAS is missing: no such file";
  setenv("PARACORD_CUDA_PLUGIN", PARACORD_BIN_DIR "/fake_plugins/libtwo.so", 1);
  Train automatic(50), named(50);
  const auto trained = automatic.Start({"--ps", "1", "--workers", "1"}, "")->Wait(60000);
  const auto failed =
      named.Start({"--ps", "1", "--workers", "1", "--device", "cuda:0"}, "")->Wait(60000);
  unsetenv("PARACORD_CUDA_PLUGIN");
  const std::string log = ReadText(automatic.dir() + "/logs/worker-0.log");
  INFO(log);
  CHECK(trained == 0);
  CheckCounted(automatic.dir(), 50);
  const size_t said = log.find("computing on the CPU: " + why + "\n");
  CHECK(said != std::string::npos);
  CHECK(log.find(why, said + why.size()) == std::string::npos);  // only once
  CHECK(ReadText(automatic.dir() + "/logs/coordinator.log").find("joined (cpu)") !=
        std::string::npos);
  INFO(named.log());
  CHECK(failed == 2);
  CHECK(named.Said("worker:0 cannot take part: " + why));
  CHECK_FALSE(named.Said("ended (exit code 2)"));  // the last line tells why
}

// The message of the worker contains the file name, and must reach the coordinator. A bad row among
// the first is found by train itself.
TEST_CASE("a bad line in a file whose name is not UTF-8 is told, and costs its batch at most") {
  const int bad = GENERATE(40, 2500);
  constexpr int kRows = 3000, kBatch = 100;
  Train train;
  std::string lines = "x,y\n";
  for (int i = 0; i < kRows; ++i) lines += i == bad ? "oops,0\n" : "1,0\n";
  WriteText(train.root() + "/caf\xe9.csv", lines);
  const json input = {{"class_name", "InputLayer"},
                      {"config", {{"name", "in"}, {"batch_shape", {nullptr, 1}}}}};
  const json dense = {{"class_name", "Dense"}, {"config", {{"name", "dense"}, {"units", 1}}}};
  const json job = {
      {"name", "cafe"},
      {"model", {{"class_name", "Sequential"}, {"config", {{"layers", {input, dense}}}}}},
      {"data",
       {{"train", {{"format", "csv"}, {"files", "*.csv"}, {"features", {"x"}}, {"label", "y"}}}}},
      {"batch", kBatch},
      {"epochs", 1},
      {"loss", "mse"},
      {"optimizer", "sgd"},
      {"failures", {{"rejected_max", 0.5}}}};
  WriteText(train.root() + "/job.json", job.dump());
  const auto trained = train.Start({"--ps", "1", "--workers", "1"}, "")->Wait(30000);
  INFO(train.log());
  if (bad == 40) {
    CHECK(trained == 2);
    CHECK(train.Said("caf\xe9.csv row 40: "));
    CHECK_FALSE(std::filesystem::exists(train.dir()));
    return;
  }
  CHECK(trained == 0);
  CHECK(train.Said("\"rejected\":1"));
  const std::string log = ReadText(train.dir() + "/logs/coordinator.log");
  INFO(log);
  CHECK(log.find("caf\xef\xbf\xbd.csv row 2500") != std::string::npos);
}

TEST_CASE("too few descriptors end train with 2 and a line, unless it may have more") {
  Train train(50);
  const auto with = [&](const std::string& limit) {
    const std::string command =
        absl::StrCat("ulimit ", limit, " && exec " PARACORD_BIN_DIR "/paracord train ",
                     train.root(), "/job.json --dir '", train.dir(), "'");
    return Process({"/bin/sh", "-c", command}, {{"TMPDIR", train.root()}},
                   train.root() + "/train.log")
        .Wait(20000);
  };
  const std::string limit = GENERATE("12", "20", "33");
  CAPTURE(limit);
  CHECK(with("-n " + limit) == 2);
  INFO(train.log());
  const bool here = limit != "33";  // with 33, a daemon has too few for its peers
  CHECK(train.Said(absl::StrCat(
      here ? "paracord train" : "paracord-coordinator", ": this process may have ", limit,
      " descriptors (ulimit -n), and needs at least ", here ? "32" : "34", "\n")));
  CHECK_FALSE(train.Said("ended (exit code"));
  if (limit == "12") CHECK(with("-S -n 12") == 0);
}

TEST_CASE("train gives up a daemon that dies again and again") {
  Train train;
  const auto command = train.Start({"--ps", "1", "--workers", "1"}, "ps.load.begin=kill");
  CHECK(command->Wait(30000) == 1);
  CHECK(train.Said("ps:0 died 6 times, and the job got no further"));
  CHECK(train.Said("ps:0 ended (signal 9); see"));
  CHECK(train.Daemons().empty());
}

TEST_CASE("train ends with 1 where its coordinator is killed again and again") {
  Train train;
  const auto command = train.Start({}, "coordinator.generation.claimed=kill");
  CHECK(command->Wait(30000) == 1);
  CHECK(train.Said("coordinator:0 died 6 times, and the job got no further (at last: signal 9)"));
  CHECK(train.Said("logs/coordinator.log"));
  CHECK(train.Daemons().empty());
}

TEST_CASE("train ends with the code of its last worker, which says why, after a checkpoint") {
  Train train(3000, 0);
  const auto command = train.Start();
  REQUIRE(train.WaitUntilTraining());
  std::filesystem::remove(train.root() + "/train-y.npy");
  train.Signal("worker", SIGKILL);
  CHECK(command->Wait(20000) == 2);
  CHECK(train.Said("worker:0 ended (exit code 2), and nobody is left in its place: "));
  CHECK(train.Said("train-y.npy"));
  CHECK(train.Said("stopped (SIGTERM, after a checkpoint); once that is mended, to go on from "));
  CHECK_FALSE(NewestCheckpoint(train.dir()).empty());
  CHECK(train.Daemons().empty());
}

TEST_CASE("a file that is no array is refused before a process starts") {
  Train train;
  std::ofstream(train.root() + "/train-y.npy") << "no array";
  const auto command = train.Start();
  CHECK(command->Wait(20000) == 2);
  CHECK(train.Said("train-y.npy"));
  CHECK_FALSE(train.Said("nobody is left"));
  CHECK_FALSE(std::filesystem::exists(train.dir()));
}

TEST_CASE("after Ctrl-C a cluster gets drain_ms and a little, and what is lost is said") {
  Train train;
  WriteCountingJob(
      train.root(),
      {{"steps", 3000}, {"timeouts", {{"drain_ms", 100}}}, {"checkpoint", {{"every_seconds", 0}}}});
  const auto command = train.Start();
  REQUIRE(train.WaitUntilTraining());
  train.Signal("coordinator", SIGSTOP);
  command->Signal(SIGINT);
  CHECK(command->Wait(20000) == 143);
  CHECK(train.Said("stopped (the coordinator left no summary, see "));
  CHECK(train.Said(
      "batches after the last checkpoint are lost; there is no checkpoint; to begin again: "));
  CHECK(train.Daemons().empty());
}

TEST_CASE("a job that is done takes more steps from train") {
  Train train(50);
  CHECK(train.Start()->Wait(20000) == 0);
  CHECK_FALSE(train.Said("nothing to do"));
  CHECK(train.Start()->Wait(20000) == 0);
  CHECK(train.Said("nothing to do: the job was done before"));
  CheckCounted(train.dir(), 50);
  WriteCountingJob(train.root(), {{"steps", 100}});
  CHECK(train.Start()->Wait(20000) == 0);
  CheckCounted(train.dir(), 100);
  CHECK(train.Start({"--set", "steps=150"})->Wait(20000) == 0);
  CheckCounted(train.dir(), 150);
}

TEST_CASE("a job goes on where its data were moved to, but not with other data") {
  Train train(50);
  CHECK(train.Start()->Wait(20000) == 0);
  std::filesystem::create_directory(train.root() + "/moved");
  const std::string moved = train.root() + "/moved/";
  const std::vector<std::string> more = {"--set", "steps=100", "--set",
                                         "data.train.features=moved/train-x.npy"};
  WriteNpy(moved + "train-x.npy", {kRecords, 2}, std::vector<float>(kRecords * 2, 1));
  CHECK(train.Start(more)->Wait(60000) == 2);
  CHECK(train.Said("what data.train and data.test name is not what the job was begun with"));
  std::filesystem::remove(moved + "train-x.npy");
  std::filesystem::rename(train.root() + "/train-x.npy", moved + "train-x.npy");
  CHECK(train.Start(more)->Wait(20000) == 0);
  CheckCounted(train.dir(), 100);
}

// Writes a job whose result depends on the order of batches and on the optimizer's state.
json OrderedJob(const std::string& dir, const json& optimizer) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> draw(-1, 1);
  constexpr uint64_t kInputs = 6;
  std::vector<float> x(kRecords * kInputs), y(kRecords);
  for (float& value : x) value = draw(random);
  for (float& value : y) value = draw(random);
  WriteNpy(dir + "/ordered-x.npy", {kRecords, kInputs}, x);
  WriteNpy(dir + "/ordered-y.npy", {kRecords, 1}, y);
  const auto layer = [](const char* kind, json config) {
    return json{{"class_name", kind}, {"config", std::move(config)}};
  };
  return {{"model",
           {{"class_name", "Sequential"},
            {"config",
             {{"layers",
               {layer("InputLayer", {{"batch_shape", {nullptr, kInputs}}}),
                layer("Dense", {{"name", "a"}, {"units", 32}, {"activation", "tanh"}}),
                layer("Dense", {{"name", "b"}, {"units", 1}})}}}}}},
          {"data", {{"train", {{"features", "ordered-x.npy"}, {"labels", "ordered-y.npy"}}}}},
          {"steps", 300},
          {"shuffle", true},
          {"loss", "mean_squared_error"},
          {"optimizer", optimizer},
          {"checkpoint", {{"every_seconds", 0}}}};
}

TEST_CASE("a run that was drained and resumed has the bits of one that was not") {
  const json optimizer = GENERATE(json{{"name", "sgd"}, {"learning_rate", 0.05}, {"momentum", 0.9}},
                                  json{{"name", "adam"}, {"learning_rate", 0.01}});
  CAPTURE(TextOf(optimizer));
  std::vector<float> results[2];
  for (const bool stopped : {false, true}) {
    Train train;
    WriteCountingJob(train.root(), OrderedJob(train.root(), optimizer));
    if (stopped) {
      const auto command = train.Start({"--ps", "2", "--workers", "1"});
      REQUIRE(train.WaitUntilTraining());
      command->Signal(SIGINT);
      REQUIRE(command->Wait(15000) == 143);
      REQUIRE_FALSE(NewestCheckpoint(train.dir()).empty());
    }
    const auto command = train.Start({"--ps", "2", "--workers", "1"}, stopped ? "" : "none=stop");
    REQUIRE(command->Wait(60000) == 0);
    CHECK(train.Said("going on from checkpoint") == stopped);
    results[stopped ? 1 : 0] = NewestValues(train.dir());
  }
  CHECK(results[0].size() == 6 * 32 + 32 + 32 + 1);
  CHECK(results[0] == results[1]);
}

}  // namespace
}  // namespace paracord::e2e
