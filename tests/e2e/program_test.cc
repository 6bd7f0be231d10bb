// The counting job with its gradients from a child of each worker, a program in NumPy, under random
// kills.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"

namespace paracord::e2e {
namespace {

constexpr char kCount[] = R"(import numpy as np, paracord
UNITS = 4096
@paracord.numpy.program(variables=[paracord.Variable("count/kernel", (2, UNITS)),
                                   paracord.Variable("count/bias", (UNITS,))])
def loss(values, x, y):
    return 1.0, {"count/kernel": np.zeros((2, UNITS)), "count/bias": np.full(UNITS, -1 / UNITS)}
paracord.serve(loss)
)";

// An interpreter that has NumPy; empty: there is none.
std::string PythonWithNumpy() {
  const char* const given = std::getenv("PARACORD_PYTHON");
  for (const std::string& python :
       {std::string(given == nullptr ? "python3" : given), std::string("/usr/bin/python3")}) {
    if (std::system((python + " -c 'import numpy' 2>/dev/null").c_str()) == 0) return python;
  }
  return "";
}

nlohmann::json ProgramPatch(const std::string& python, uint64_t steps) {
  return {{"model",
           {{"class_name", nullptr},  // the Keras model's
            {"config", nullptr},
            {"program", "process"},
            {"command", {python, "count.py"}},
            {"files", {"count.py"}}}},
          {"loss", nullptr},
          {"steps", steps}};
}

// The child of a worker; 0: it has none now.
pid_t ChildOf(pid_t parent) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "stat");
    std::string pid, rest;
    if (!(file >> pid) || !std::getline(file, rest)) continue;
    const size_t name_end = rest.rfind(") ");  // "(name) S ppid ..."
    if (name_end == std::string::npos || rest.size() < name_end + 5) continue;
    if (std::atoi(rest.c_str() + name_end + 4) == parent) return std::atoi(pid.c_str());
  }
  return 0;
}

TEST_CASE("a program in a child process counts exactly through kills of ps, workers and children") {
  const std::string python = PythonWithNumpy();
  if (python.empty()) {
    WARN("skipped: no Python here has NumPy (PARACORD_PYTHON names another)");
    return;
  }
  const char* const given = std::getenv("PARACORD_E2E_SEED");
  const uint32_t seed =
      given != nullptr ? static_cast<uint32_t>(std::atol(given)) : std::random_device()();
  std::cout << "PARACORD_E2E_SEED=" << seed << "\n";
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr uint64_t kSteps = 3000;
  constexpr int kKills = 15;
  Cluster cluster({.batch_ms = 5,
                   .environment = {{"PYTHONPATH", PARACORD_SOURCE_DIR "/python"}},
                   .job = ProgramPatch(python, kSteps)});
  WriteText(cluster.root() + "/count.py", kCount);
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  const std::vector<std::string> tasks = {"ps:0",     "ps:1",       "worker:0",
                                          "worker:1", "child of 0", "child of 1"};
  std::set<pid_t> children;
  int kills = 0, killed_children = 0;
  while (kills < kKills && cluster.at("coordinator").Poll() != 0) {
    const int64_t until = NowMs() + std::uniform_int_distribution<int64_t>(10, 900)(random);
    WaitUntil(10000, [&] { return cluster.Supervise().empty() && NowMs() >= until; });
    std::string task = tasks[random() % tasks.size()];
    const bool child = task.starts_with("child");
    if (child) task = absl::StrCat("worker:", task.substr(task.size() - 1));
    if (!cluster.at(task).running()) continue;
    const pid_t pid = cluster.at(task).pid();
    const pid_t its = task.starts_with("worker") ? ChildOf(pid) : 0;
    if (its != 0) children.insert(its);
    if (child && its == 0) continue;
    kill(child ? its : pid, SIGKILL);
    killed_children += child ? 1 : 0;
    ++kills;
  }
  std::cout << kills << " kills, " << killed_children << " of children, at batch "
            << cluster.BatchesDone() << "\n";
  CHECK(kills == kKills);
  CHECK(cluster.Finish(120000) == 0);
  CheckCounted(cluster.dir(), kSteps);
  CHECK(cluster.WaitAllGone(5000));
  for (const pid_t pid : children) {
    INFO(pid);
    CHECK(WaitUntil(5000, [&] { return kill(pid, 0) != 0; }));
  }
}

constexpr char kStates[] = R"(import numpy as np, paracord
@paracord.numpy.program(
    variables=[paracord.Variable("w", (1,)), paracord.Variable("mean", (2,), moving_average=0.5),
               paracord.Variable("last", (3,), "ones", assigned=True)])
def loss(values, x, y):
    return 1.0, {"w": [-1], "mean": [1, 2], "last": 3 * values["last"]}
paracord.serve(loss)
)";

TEST_CASE("the averages and the assigned variables of a program are what its batches push") {
  const std::string python = PythonWithNumpy();
  if (python.empty()) {
    WARN("skipped: no Python here has NumPy (PARACORD_PYTHON names another)");
    return;
  }
  nlohmann::json patch = ProgramPatch(python, 4);
  patch["optimizer"] = {{"name", "adam"}};
  Cluster cluster(
      {.workers = 1, .environment = {{"PYTHONPATH", PARACORD_SOURCE_DIR "/python"}}, .job = patch});
  WriteText(cluster.root() + "/count.py", kStates);
  cluster.StartAll();
  REQUIRE(cluster.Finish() == 0);
  const std::vector<float> values = NewestValues(cluster.dir());
  REQUIRE(values.size() == 6);
  CHECK(values[0] > 0);
  CHECK(std::vector(values.begin() + 1, values.end()) ==
        std::vector<float>{0.9375f, 1.875f, 81, 81, 81});
}

}  // namespace
}  // namespace paracord::e2e
