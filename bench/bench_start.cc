// Measures the start of a job: from the start of `paracord train` (coordinator, 2 ps, 2 workers) to
// the first update on a ps, with npy files and with gzipped idx files of equal data. Also measures
// the memory of the daemons, idle and in training.
//   bench_start [--records N] [--rounds N]
#include <signal.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "daemon/daemon_process.h"
#include "measure.h"
#include "nlohmann/json.hpp"
#include "proto/protocol.h"
#include "ps_client.h"
#include "temp_dir.h"

namespace paracord::bench {
namespace {

constexpr uint32_t kSide = 28;
constexpr uint32_t kClasses = 10;

nlohmann::json Layer(const std::string& kind, const std::string& name, nlohmann::json config) {
  config["name"] = name;
  return {{"class_name", kind}, {"config", config}};
}

nlohmann::json Model() {
  const nlohmann::json layers = {
      Layer("InputLayer", "in", {{"batch_shape", {nullptr, kSide, kSide}}}),
      Layer("Flatten", "flatten", nlohmann::json::object()),
      Layer("Dense", "dense", {{"units", 512}, {"activation", "relu"}}),
      Layer("Dense", "dense_1", {{"units", 256}, {"activation", "relu"}}),
      Layer("Dense", "dense_2", {{"units", kClasses}, {"activation", "softmax"}})};
  return {{"class_name", "Sequential"}, {"config", {{"name", "mlp"}, {"layers", layers}}}};
}

std::string BigEndian(std::initializer_list<uint32_t> words) {
  std::string bytes;
  for (const uint32_t word : words) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(word >> shift);
  }
  return bytes;
}

std::string Npy(const std::string& shape, const std::string& data) {
  std::string header =
      absl::StrCat("{'descr': '|u1', 'fortran_order': False, 'shape': (", shape, "), }");
  header.resize((header.size() + 10 + 1 + 63) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 255) +
         static_cast<char>(header.size() >> 8) + header + data;
}

void WriteGzip(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb6");
  if (file == nullptr || gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) <= 0 ||
      gzclose(file) != Z_OK) {
    Fail("cannot write " + path);
  }
}

// Writes images with half of the pixels dark, so that gzip can compress them.
void WriteData(const TempDir& temp, uint32_t records) {
  std::mt19937 random(1);
  std::string images(size_t{records} * kSide * kSide, '\0');
  for (size_t i = 0; i < images.size(); ++i) {
    if (i % kSide > 6 && i % kSide < 21) images[i] = static_cast<char>(random() & 0xf8);
  }
  std::string labels(records, '\0');
  for (char& label : labels) label = static_cast<char>(random() % kClasses);
  temp.Write("x.npy", Npy(absl::StrCat(records, ", 28, 28"), images));
  temp.Write("y.npy", Npy(absl::StrCat(records, ","), labels));
  WriteGzip(temp.path() + "/x.idx.gz", BigEndian({0x803, records, kSide, kSide}) + images);
  WriteGzip(temp.path() + "/y.idx.gz", BigEndian({0x801, records}) + labels);
}

std::string WriteJob(const TempDir& temp, const std::string& format, uint64_t steps) {
  const std::string suffix = format == "npy" ? ".npy" : ".idx.gz";
  const nlohmann::json job = {
      {"name", "start"},
      {"model", Model()},
      {"data",
       {{"train", {{"format", format}, {"features", "x" + suffix}, {"labels", "y" + suffix}}}}},
      {"batch", 64},
      {"steps", steps},
      {"loss", "sparse_categorical_crossentropy"},
      {"optimizer", {{"name", "adam"}, {"learning_rate", 0.001}}}};
  return temp.Write(absl::StrCat(format, "-", steps, ".json"), TextOf(job));
}

// Finds the socket of a task in a local cluster, which has a new directory below TMPDIR.
std::string FindSocket(const std::string& below, const std::string& task) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(below, ignored)) {
    const std::filesystem::path path = entry.path() / task;
    if (std::filesystem::exists(path, ignored)) return "unix:" + path.string();
  }
  return "";
}

// Returns true once a ps reports an update; false if the ps does not answer.
bool HasUpdates(Link& link) {
  std::promise<bool> promise;
  link.Call(method::kDescribe, {absl::Cord(DescribeRequest().SerializeAsString())}, 1000,
            [&](absl::StatusOr<absl::Cord> reply) {
              PsDescription description;
              bool any = reply.ok() && description.ParseFromString(std::string(*reply));
              if (any) {
                any = false;
                for (const PartitionDescription& partition : description.partitions()) {
                  any = any || partition.updates() > 0;
                }
              }
              promise.set_value(any);
            });
  return promise.get_future().get();
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::ifstream children(absl::StrCat("/proc/", parent, "/task/", parent, "/children"));
  std::vector<pid_t> pids;
  for (pid_t pid = 0; children >> pid;) pids.push_back(pid);
  return pids;
}

struct Run {
  std::unique_ptr<TempDir> temp;  // sockets and DIR
  std::unique_ptr<Child> train;
  double first_step = 0;  // seconds
  double cpu = 0;         // CPU seconds of all processes until the first step
};

// Starts `paracord train`, and returns when a ps has applied an update.
Run StartTraining(const std::string& job) {
  Run run;
  run.temp = std::make_unique<TempDir>();
  const std::string& dir = run.temp->path();
  const double begin = Seconds();
  run.train = std::make_unique<Child>(
      std::vector<std::string>{Program("paracord"), "train", job, "--ps", "2", "--workers", "2",
                               "--device", "cpu", "--dir", dir + "/job"},
      std::vector<std::string>{"TMPDIR=" + dir}, dir + "/log");
  GrpcNetwork network;
  std::unique_ptr<Link> link;
  while (link == nullptr || !HasUpdates(*link)) {
    if (Seconds() - begin > 60) Fail("no step within a minute");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::string socket = FindSocket(dir, "ps-0");
    // The job ended before its first update was seen.
    if (link != nullptr && socket.empty()) return StartTraining(job);
    if (link == nullptr && !socket.empty()) link = network.Dial(socket);
  }
  run.first_step = Seconds() - begin;
  run.cpu = CpuSecondsOf(run.train->pid());
  for (const pid_t pid : ChildrenOf(run.train->pid())) run.cpu += CpuSecondsOf(pid);
  return run;
}

void PrintMemory(const std::string& what, const Memory& memory) {
  std::printf("  %-30s %6.1f MB: %5.1f its own, %5.1f of files, %5.1f in memory files\n",
              what.c_str(), memory.all, memory.own, memory.file, memory.shared);
}

// Returns the memory of a coordinator, a ps and a worker that wait for each other.
std::map<std::string, Memory> Idle(const std::string& job) {
  const TempDir temp;
  const auto address = [&](const std::string& name) {
    return absl::StrCat("unix:", temp.path(), "/", name);
  };
  const nlohmann::json cluster = {{"cluster",
                                   {{"chief", {address("c")}},
                                    {"ps", {address("p0"), address("p1")}},
                                    {"worker", {address("w0"), address("w1")}}}}};
  std::map<std::string, std::unique_ptr<Child>> daemons;
  for (const std::string role : {"coordinator", "ps", "worker"}) {
    std::vector<std::string> command = {Program("paracord-" + role), "--task", role + ":0", "--dir",
                                        temp.path()};
    // The worker dials an address where no coordinator answers, and stays without a job.
    nlohmann::json mine = cluster;
    if (role == "worker") mine["cluster"]["chief"][0] = address("nobody");
    if (role == "coordinator") command.insert(command.end(), {"--job", job});
    daemons[role] = std::make_unique<Child>(
        command, std::vector<std::string>{"TF_CONFIG=" + TextOf(mine)}, temp.path() + "/log");
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));  // enough for all to start
  std::map<std::string, Memory> memory;
  for (const auto& [role, daemon] : daemons) memory[role] = MemoryOf(daemon->pid());
  return memory;
}

// Returns the largest memory among the daemons of each program.
std::map<std::string, Memory> MemoryOfChildren(pid_t parent) {
  std::map<std::string, Memory> memory;
  for (const pid_t pid : ChildrenOf(parent)) {
    std::string name;
    std::getline(std::ifstream(absl::StrCat("/proc/", pid, "/comm")), name);
    const Memory now = MemoryOf(pid);
    if (now.all > memory[name].all) memory[name] = now;
  }
  return memory;
}

int Main(int argc, char** argv) {
  int64_t records = 60000;
  int64_t rounds = 9;
  Flags flags("bench_start", "Starts jobs.");
  flags.Integer("records", "N", "of the training data", 64, 1000000, &records);
  flags.Integer("rounds", "N", "repetitions", 1, 1000, &rounds);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  PrintMachine();
  const TempDir data;
  WriteData(data, static_cast<uint32_t>(records));
  std::map<std::string, std::vector<double>> first;
  std::map<std::string, std::vector<double>> whole;
  std::map<std::string, std::vector<double>> cpu;
  for (int64_t round = 0; round < rounds; ++round) {
    for (const std::string format : {"npy", "idx"}) {
      const double begin = Seconds();
      Run run = StartTraining(WriteJob(data, format, 20));
      if (const int code = run.train->Wait(); code != 0) {
        Fail(absl::StrCat("paracord train left with ", code));
      }
      first[format].push_back(run.first_step);
      cpu[format].push_back(run.cpu);
      whole[format].push_back(Seconds() - begin);
    }
  }
  std::printf(
      "\nMLP 784-512-256-10, %ld records, coordinator + 2 ps + 2 workers (median of %ld, "
      "quartiles)\n",
      records, rounds);
  for (const auto& [format, seconds] : first) {
    std::printf(
        "  %-8s to the first update %6.3f s (%.3f - %.3f)  processor time until then %6.3f s  "
        "job of 20 steps %6.3f s\n",
        format == "npy" ? "npy" : "idx.gz", Quantile(seconds, 0.5), Quantile(seconds, 0.25),
        Quantile(seconds, 0.75), Quantile(cpu[format], 0.5), Quantile(whole[format], 0.5));
  }
  PrintGoal("start to first update, npy", Quantile(first["npy"], 0.5), Bound::kAtMost, 0.3, "s");

  std::map<std::string, Memory> idle = Idle(WriteJob(data, "npy", 20));
  std::printf("\nresident memory, idle: started, waiting for the others\n");
  for (const auto& [role, memory] : idle) PrintMemory(role, memory);
  {
    Run run = StartTraining(WriteJob(data, "npy", 1000000));
    std::this_thread::sleep_for(std::chrono::seconds(1));  // lets the job train
    std::printf("resident memory after a second of training (the largest of each kind)\n");
    for (const auto& [name, memory] : MemoryOfChildren(run.train->pid())) {
      PrintMemory(name, memory);
    }
    kill(run.train->pid(),
         SIGINT);  // SIGKILL would leave daemons behind for a while
    run.train->Wait();
  }
  PrintGoal("coordinator, idle", idle["coordinator"].all, Bound::kAtMost, 30, "MB");
  PrintGoal("ps, idle", idle["ps"].all, Bound::kAtMost, 30, "MB");
  PrintGoal("worker, idle", idle["worker"].all, Bound::kAtMost, 60, "MB");
  std::fflush(stdout);
  std::filesystem::remove_all(data.path());
  LeaveProcess(0);
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
