// Trains the counting job with gradients from a NumPy program, a child of each worker, under random
// kills.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/mix.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/kills.h"
#include "e2e/process.h"
#include "objects/all_files.h"
#include "storage/checkpoint.h"
#include "tests/fakes.h"

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

// Returns a Python interpreter that has NumPy, or "".
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
           {{"class_name", nullptr},  // removes the Keras model
            {"config", nullptr},
            {"program", "process"},
            {"command", {python, "count.py"}},
            {"files", {"count.py"}}}},
          {"loss", nullptr},
          {"steps", steps}};
}

const std::vector<std::string> kTasksAndChildren = {
    "ps:0", "ps:1", "worker:0", "worker:1", "child of worker:0", "child of worker:1"};

TEST_CASE("a program in a child process counts exactly through kills of ps, workers and children") {
  const std::string python = PythonWithNumpy();
  if (python.empty()) {
    WARN("skipped: no Python here has NumPy (PARACORD_PYTHON names another)");
    return;
  }
  constexpr uint64_t kSteps = 3000;
  Cluster cluster({.batch_ms = 5,
                   .environment = {{"PYTHONPATH", PARACORD_SOURCE_DIR "/python"}},
                   .job = ProgramPatch(python, kSteps)});
  WriteText(cluster.root() + "/count.py", kCount);
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  const std::set<pid_t> children = KillAtRandom(cluster, {kTasksAndChildren, 15, kSteps});
  CHECK(cluster.Finish(120000) == 0);
  CheckCounted(cluster.dir(), kSteps);
  CHECK(cluster.WaitAllGone(5000));
  for (const pid_t pid : children) {
    INFO(pid);
    CHECK(WaitUntil(5000, [&] { return kill(pid, 0) != 0; }));
  }
}

constexpr char kLost[] = R"(import os, numpy as np, paracord
UNITS = 4096
@paracord.numpy.program(variables=[paracord.Variable("count/kernel", (2, UNITS)),
                                   paracord.Variable("count/bias", (UNITS,))])
def loss(values, x, y):
    print("cannot go on")
    os._exit(7)
paracord.serve(loss)
)";

TEST_CASE("a program that is lost at one batch again and again ends the job, which says why") {
  const std::string python = PythonWithNumpy();
  if (python.empty()) {
    WARN("skipped: no Python here has NumPy (PARACORD_PYTHON names another)");
    return;
  }
  nlohmann::json job = ProgramPatch(python, 100);
  job["failures"] = {{"per_batch", 2}};
  Cluster cluster(
      {.environment = {{"PYTHONPATH", PARACORD_SOURCE_DIR "/python"}}, .job = std::move(job)});
  WriteText(cluster.root() + "/count.py", kLost);
  cluster.StartAll();
  CHECK(cluster.Finish(120000) == 2);
  CHECK(cluster.Logged("coordinator", "exit code 7; its last line: cannot go on (3 times at one "
                                      "batch)"));
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

// A program that starts a process, writes both pids, and says goodbye if it may exit by itself.
constexpr char kForks[] = R"(import numpy as np, paracord, os, subprocess, time
own = subprocess.Popen(["sleep", "1000"])
@paracord.numpy.program(variables=[paracord.Variable("w", (1,))])
def loss(values, x, y):
    new = os.environ["FORKS"] + ".new"
    with open(new, "w") as file:
        file.write(f"{os.getpid()} {own.pid} {os.getcwd()} ")
    os.replace(new, os.environ["FORKS"])  # whole, whenever a kill ends this
    time.sleep(0.01)
    return 1.0, {"w": [-1]}
paracord.serve(loss)
time.sleep(0.2)
open(os.environ["FORKS"], "a").write("bye")
)";

TEST_CASE("nothing of a program outlives its worker, which says goodbye where it can") {
  const std::string python = PythonWithNumpy();
  if (python.empty()) {
    WARN("skipped: no Python here has NumPy (PARACORD_PYTHON names another)");
    return;
  }
  const bool killed = GENERATE(false, true);
  CAPTURE(killed);
  const TestDirectory temporary;
  const std::string said = temporary / "said";
  Cluster cluster({.workers = 1,
                   .environment = {{"PYTHONPATH", PARACORD_SOURCE_DIR "/python"},
                                   {"TMPDIR", temporary.path()},
                                   {"FORKS", said}},
                   .job = ProgramPatch(python, killed ? 100000 : 20)});
  WriteText(cluster.root() + "/count.py", kForks);
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  if (killed) kill(cluster.at("worker:0").pid(), SIGKILL);
  if (!killed) CHECK(cluster.Finish() == 0);
  if (!killed) CHECK(cluster.WaitAllGone(5000));
  std::ifstream file(said);
  pid_t child = 0, own = 0;
  std::string folder, bye;
  REQUIRE(file >> child >> own >> folder);
  file >> bye;
  CHECK(bye == (killed ? "" : "bye"));
  CHECK(absl::StartsWith(folder, temporary / "paracord-program-"));
  for (const pid_t pid : {child, own}) {
    INFO(pid);
    const auto gone = [&] {
      const auto stat = PosixFiles().ReadWhole(absl::StrCat("/proc/", pid, "/stat"));
      // A zombie that init has not reaped yet.
      return !stat.ok() || absl::StrContains(*stat, ") Z ");
    };
    CHECK(WaitUntil(5000, gone));
  }
  if (killed) WaitUntil(5000, [&] { return access(folder.c_str(), F_OK) != 0; });
  CHECK(access(folder.c_str(), F_OK) != 0);
}

// A program in which each occurrence of an id adds 1 to the row of the id, by SGD with rate 1.
constexpr char kLookups[] = R"(import numpy as np, paracord
@paracord.numpy.program(
    variables=[paracord.Variable("user.weight", (ROWS, 3), table=paracord.Table(""))],
    predict=lambda values, ids: values["user.weight"][ids].reshape(len(ids), -1),
    outputs=[paracord.Output((12,))])
def loss(values, ids, want):
    rows = values["user.weight"]
    assert ids.dtype == np.int64 and len(rows) <= ids.size + 1
    return 1.0, {"user.weight": np.zeros(rows.shape) -
                 np.bincount(ids.ravel(), minlength=len(rows))[:, None]}
paracord.serve(loss)
)";
constexpr uint64_t kRowWidth = 3, kLookupsEach = 4, kLookupEpochs = 20, kLookupBatches = 64;

// Occurrences of each id in the input files of training or of the test.
using TimesOfId = std::map<uint64_t, uint64_t>;

TimesOfId WriteLookups(const std::string& path, uint64_t examples, bool large,
                       std::mt19937& random) {
  TimesOfId times;
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < examples * kLookupsEach; ++i) {
    const uint64_t drawn = random() % 2 == 0 ? random() % 10 : random() % 5000;
    ids.push_back(large && drawn != 0 ? Mix64(drawn) : drawn);
    ++times[ids.back()];
  }
  WriteNpy(path + "-ids.npy", {examples, kLookupsEach}, ids);
  WriteNpy(path + "-want.npy", {examples, kLookupsEach * kRowWidth},
           std::vector<float>(examples * kLookupsEach * kRowWidth, kTarget));
  return times;
}

nlohmann::json LookupJob(const std::string& python, bool growing) {
  nlohmann::json job = ProgramPatch(python, 1);
  job["steps"] = nullptr;
  job["epochs"] = kLookupEpochs;
  job["loss"] = "mean_absolute_error";
  job["metrics"] = {"mean_absolute_error"};
  job["optimizer"] = {{"name", "sgd"}, {"learning_rate", 1}};
  job["overlap"] = growing;
  for (const std::string part : {"train", "test"}) {
    job["data"][part] = {
        {"format", "npy"}, {"features", part + "-ids.npy"}, {"labels", part + "-want.npy"}};
  }
  if (growing) job["tables"] = {{"user", {{"kind", "growing"}, {"shards", 5}}}};
  return job;
}

// Returns how many rows differ from the occurrences of their ids over all epochs.
uint64_t WrongRows(const std::string& dir, const TimesOfId& times, bool growing) {
  AllFiles files;
  const std::string newest = NewestCheckpoint(dir);
  const absl::StatusOr<Manifest> manifest = ReadManifest(files, newest);
  INFO(newest << ": " << manifest.status());
  REQUIRE(manifest.ok());
  VariableIds ids;
  const auto variables = ReadVariables(files, newest, *manifest, &ids);
  INFO(variables.status());
  REQUIRE(variables.ok());
  const std::vector<float>& values = (*variables)[0];
  REQUIRE(values.size() == (growing ? times.size() : 5000) * kRowWidth);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < values.size(); ++i) {
    const uint64_t row = i / kRowWidth;
    const auto found = times.find(growing ? ids[0][row] : row);
    const uint64_t right = found == times.end() ? 0 : found->second * kLookupEpochs;
    wrong += values[i] == static_cast<float>(right) ? 0 : 1;
  }
  return wrong;
}

TEST_CASE("rows of a program's tables count exactly through kills of ps, workers and children") {
  const std::string python = PythonWithNumpy();
  if (python.empty()) {
    WARN("skipped: no Python here has NumPy (PARACORD_PYTHON names another)");
    return;
  }
  const bool growing = GENERATE(false, true);
  CAPTURE(growing);
  Cluster cluster({.tcp = !growing,
                   .batch_ms = 5,
                   .environment = {{"PYTHONPATH", PARACORD_SOURCE_DIR "/python"}},
                   .job = LookupJob(python, growing)});
  std::string code = kLookups;
  code.replace(code.find("ROWS"), 4, growing ? "1" : "5000");
  WriteText(cluster.root() + "/count.py", code);
  std::mt19937 drawn(7);
  const TimesOfId train =
      WriteLookups(cluster.root() + "/train", kLookupBatches * kBatch, growing, drawn);
  const TimesOfId test = WriteLookups(cluster.root() + "/test", 5 * kBatch, growing, drawn);
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  KillAtRandom(cluster, {kTasksAndChildren, 8, kLookupBatches * kLookupEpochs});
  CHECK(cluster.Finish(120000) == 0);
  CHECK(WrongRows(cluster.dir(), train, growing) == 0);

  double sum = 0, ids = 0;
  for (const auto& [id, times] : test) {
    const auto found = train.find(id);
    const uint64_t row = found == train.end() ? 0 : found->second * kLookupEpochs;
    sum += static_cast<double>(row * times);
    ids += static_cast<double>(times);
  }
  const double error = static_cast<double>(kTarget) - sum / ids;
  const auto metric = [](const nlohmann::json& metrics) {
    return metrics.at("mean_absolute_error").get<double>();
  };
  CHECK(metric(cluster.Summary().at("metrics").at("test")) == Approx(error).epsilon(1e-9));
  const auto run = [&](const std::string& command) {
    const std::string log = cluster.root() + "/command.log";
    Process process({"/bin/sh", "-c", "cd " + cluster.root() + " && paracord " + command},
                    {{"PATH", PARACORD_BIN_DIR ":/usr/bin:/bin"},
                     {"PYTHONPATH", PARACORD_SOURCE_DIR "/python"}},
                    log);
    const auto code = process.Wait(60000);
    std::string text = ReadText(log);
    INFO(command << ": " << text);
    CHECK(code == 0);
    return text;
  };
  CHECK(absl::StrContains(run("validate job.json --allow-programs"),
                          growing ? "a growing table, of which at most 64 rows a batch travel"
                                  : "a table, of which at most 64 rows a batch travel"));
  const std::string scored = run("evaluate job.json --dir dir --json");
  INFO(scored);
  CHECK(metric(JsonOf(scored.substr(scored.find('{'))).at("metrics")) ==
        Approx(error).epsilon(1e-6));
}

}  // namespace
}  // namespace paracord::e2e
