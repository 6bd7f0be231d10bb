// Programs in child processes that behave as a test wants, in plain Python.
#include "program/process_program.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>

#include "absl/strings/match.h"
#include "common/json_text.h"
#include "common/steady_ms.h"
#include "program/workload.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;

// The gradient of an element is its value plus the first input plus 1000 times the number of
// starts. The argument says what goes wrong on the first start.
constexpr char kChild[] = R"(import json, mmap, os, socket, struct, sys, time
mode, always = sys.argv[1].split("!")[0], sys.argv[1].endswith("!")
starts = int(open("starts").read()) if os.path.exists("starts") else 0
open("starts", "w").write(str(starts + 1))
bad = always or starts == 0
s = socket.socket(fileno=3)
def say(packet):
    s.send(json.dumps(packet).encode())
def hear():
    text = s.recv(1 << 18)
    if not text:
        sys.exit(0)
    return json.loads(text)
if mode == "killed" and starts == 0:
    os.kill(os.getpid(), 9)
if mode == "import":
    sys.exit("ModuleNotFoundError: No module named 'torch'")
variables = [{"name": "a", "shape": [2], "initializer": "ones"},
             {"name": "b", "shape": [3], "trainable": True,
              "initializer": {"name": "random_uniform", "minval": -1, "maxval": 1}},
             {"name": "frozen", "shape": [], "trainable": False},
             {"name": "mean", "shape": [2], "moving_average": 0.9}]
if mode == "changes" and starts > 0:
    variables[1]["shape"] = [4]
if mode == "shape":
    variables[0]["shape"] = [0]
if mode == "assigned":
    variables[3] = {"name": "mean", "shape": [2], "assigned": True}
dtypes = {"int64": {"inputs": {"": "int64"}}, "lacks": {"targets": {"age": "int64"}},
          "float16": {"inputs": {"": "float16"}}}.get(mode, {})
say({"hello": 1, "variables": variables[:1], "more": True})
say({"hello": 1, "variables": variables[1:], "batches": [4] if mode == "four" else [],
     "metrics": ["loss", "error"] if mode == "evaluates" else [],
     "outputs": [{"name": "", "shape": [2]}], "dtypes": dtypes})
layout = hear()
assert all(at % 64 == 0 for at in layout["values"])
memory = mmap.mmap(4, layout["bytes"])
def floats(at, count):
    return struct.unpack_from(f"{count}f", memory, at)
def put(at, numbers):
    struct.pack_into(f"{len(numbers)}f", memory, at, *numbers)
if mode == "refuses":
    say({"error": "the data has no column \"age\""})
say({"ready": True})
print("is ready on", os.environ["PARACORD_DEVICE"], "as", os.environ["PARACORD_TASK"], flush=True)
sizes = [2, 3, 1, 2]
steps = 0
def gradient(v):
    first = floats(layout["inputs"][0]["offset"], 1)[0]
    put(layout["gradients"][v], [x + first + 1000 * starts for x in
                                 floats(layout["values"][v], sizes[v])])
while True:
    request = hear()
    if request["do"] == "bye":
        time.sleep(0.1)
        print("was told goodbye in", os.getcwd(), flush=True)
        sys.exit(0)
    elif request["do"] == "predict":
        n = request["examples"]
        put(layout["outputs"][0], list(range(2 * n)))
        say({"done": True})
    elif request["do"] == "evaluate":
        say({"sums": [[1.5, request["examples"]], [None, 2]] if not (mode == "sums" and bad)
             else [[1]]})
    else:
        steps += 1
        if (bad and mode in ("dies", "changes")) or (mode == "tires" and steps == 2):
            os._exit(7)
        if bad and mode == "hangs":
            time.sleep(1000)
        if bad and mode == "rubbish":
            s.send(b"\x00rubbish")
        if bad and mode == "large":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            s.send(b"{" * 300000)
        if bad and mode == "no loss":
            say({"done": True})
        if bad and mode == "text":
            say({"loss": "small"})
        if bad and mode == "index":
            say({"gradient": 2})
        if bad and mode == "many":
            gradient(0)
            for i in range(9):
                say({"gradient": 0})
        if bad and mode == "lost":
            say({"error": "the GPU has fallen off the bus", "lost": True})
        if bad and mode == "closes":
            s.close()
            time.sleep(1000)
        if bad and mode == "error":
            say({"error": "label 11 of example 3 is no class"})
            continue
        if mode == "int64":
            assert layout["inputs"][0]["dtype"] == "int64"
            assert layout["targets"][0]["dtype"] == "float32"
            ids = struct.unpack_from("8q", memory, layout["inputs"][0]["offset"])
            say({"loss": ids[0] % 1000 + ids[7] + floats(layout["targets"][0]["offset"], 2)[1]})
            continue
        gradient(1)
        say({"gradient": 1})
        if bad and mode == "early":
            os._exit(1)
        gradient(0)
        gradient(3)
        say({"loss": None if mode == "nan" else 0.25 + request["key"]})
)";

struct Lines {
  std::mutex mu;
  std::vector<std::string> lines;
  // Waits for a line with `text`, since the child writes asynchronously.
  bool Has(const std::string& text, int tries = 200) {
    for (int i = 0; i < tries; ++i) {
      {
        const std::lock_guard lock(mu);
        for (const std::string& line : lines) {
          if (absl::StrContains(line, text)) return true;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
};

struct Rig {
  explicit Rig(const std::string& mode, uint32_t step_s = 60) {
    job.model = {{"program", "process"},
                 {"command", {"python3", "child.py", mode}},
                 {"files", {{"child.py", kChild}}},
                 {"step_s", step_s}};
    job.batch = 4;
    use.allowed = true;
    use.device = "cpu";
    use.task = "worker:3";
    use.log = [this](const std::string& line) {
      const std::lock_guard lock(said.mu);
      said.lines.push_back(line);
    };
    schema.inputs = {{"", {2}, {}}};
    schema.targets = {{"", {}, {}}};
    batch = schema;
    batch.examples = 4;
    batch.inputs[0].values = {10, 0, 0, 0, 0, 0, 0, 0};
    batch.targets[0].values = {0, 1, 0, 1};
  }

  absl::Status Start() {
    auto started = ProcessProgram::Start(job, schema, use);
    if (started.ok()) program = *std::move(started);
    return started.status();
  }

  absl::StatusOr<double> Step() {
    values = {{1, 2}, {3, 4, 5}, {6}, {7, 8}};
    gradients = {{0, 0}, {0, 0, 0}, {}, {0, 0}};
    std::vector<std::span<const float>> in(values.begin(), values.end());
    std::vector<std::span<float>> out(gradients.begin(), gradients.end());
    return program->ComputeGradients(batch, /*batch_key=*/1, in, out);
  }

  Lines said;
  Job job;
  ProgramUse use;
  Batch schema, batch;
  std::vector<std::vector<float>> values, gradients;
  std::unique_ptr<ProcessProgram> program;
};

using Floats = std::vector<std::vector<float>>;

TEST_CASE("a child process gives gradients, predictions and sums, and says what it has") {
  Rig rig("evaluates");
  const absl::Status started = rig.Start();
  INFO(started);
  REQUIRE(started.ok());
  REQUIRE(rig.program->variables().size() == 4);
  CHECK(rig.program->variables()[0].initializer().name() == "ones");
  CHECK(rig.program->variables()[1].initializer().options().at("maxval") == 1);
  CHECK_FALSE(rig.program->variables()[2].trainable());
  CHECK(rig.program->variables()[3].moving_average() == 0.9);
  CHECK(rig.program->variables()[3].trainable());  // updated, but not by an optimizer
  CHECK(rig.program->metric_names() == std::vector<std::string>{"loss", "error"});
  CHECK(absl::StrContains(rig.program->Summary(), "mean (2,) zeros, moving average of 0.9"));
  CHECK(rig.Step().value() == 1.25);
  CHECK(rig.gradients == Floats{{11, 12}, {13, 14, 15}, {}, {17, 18}});
  CHECK(rig.Step().value() == 1.25);
  std::vector<std::span<const float>> in(rig.values.begin(), rig.values.end());
  rig.batch.examples = 3;
  rig.batch.inputs[0].values.resize(6);
  rig.batch.targets[0].values.resize(3);
  const auto outputs = rig.program->Predict(rig.batch, in);
  REQUIRE(outputs.ok());
  CHECK(outputs->at(0).values == std::vector<float>{0, 1, 2, 3, 4, 5});
  std::vector<MetricState> states;
  REQUIRE(rig.program->Evaluate(rig.batch, in, states).ok());
  REQUIRE(rig.program->Evaluate(rig.batch, in, states).ok());
  CHECK(states.at(0).values(0) == 3);
  CHECK(states.at(0).values(1) == 6);
  CHECK(std::isnan(states.at(1).values(0)));
  CHECK(rig.said.Has("is ready on cpu as worker:3"));
}

TEST_CASE("a child that is lost costs no batch: another one computes it anew") {
  const auto [mode, why] = GENERATE(table<std::string, std::string>({
      {"dies", "exit code 7; its last line: is ready"},
      {"hangs", "did not answer within 1000 ms"},
      {"rubbish", "sent what is no JSON object"},
      {"large", "a packet of 300000 bytes"},
      {"no loss", "without a loss"},
      {"text", "without a loss"},
      {"index", "the gradient of a variable that there is not"},
      {"many", "more gradients than there are variables"},
      {"lost", "fallen off the bus"},
      {"closes", "it closed its descriptor 3"},
  }));
  CAPTURE(mode);
  Rig rig(mode, /*step_s=*/1);
  REQUIRE(rig.Start().ok());
  const absl::StatusOr<double> loss = rig.Step();
  INFO(loss.status());
  REQUIRE(loss.ok());
  CHECK(*loss == 1.25);
  Floats expected = {{1011, 1012}, {1013, 1014, 1015}, {}, {1017, 1018}};
  if (mode == "many") expected[0] = {11, 12};  // reported early, and kept
  CHECK(rig.gradients == expected);
  CHECK(rig.said.Has(why));
  CHECK(rig.said.Has("it is started again"));
  const GradientProgram::Losses losses = rig.program->TakeLosses();
  CHECK(losses.count == 1);
  CHECK(absl::StrContains(losses.last, why));
  CHECK(rig.program->TakeLosses().count == 0);
}

TEST_CASE("a gradient that was sent early stays as it was when its child is lost after that") {
  Rig rig("early");
  REQUIRE(rig.Start().ok());
  std::vector<size_t> there;
  rig.program->OnGradient([&](size_t v) {
    there.push_back(v);
    CHECK(rig.gradients[v] == std::vector<float>{13, 14, 15});
  });
  REQUIRE(rig.Step().ok());
  CHECK(there == std::vector<size_t>{1});
  CHECK(rig.gradients == Floats{{1011, 1012}, {13, 14, 15}, {}, {1017, 1018}});
}

TEST_CASE("an error of the batch and a loss that is not finite leave the child as it is") {
  Rig wrong("error!");
  REQUIRE(wrong.Start().ok());
  for (int i = 0; i < 4; ++i) {
    const absl::Status status = wrong.Step().status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message() == "label 11 of example 3 is no class");
  }
  Rig nan("nan");
  REQUIRE(nan.Start().ok());
  CHECK(std::isnan(nan.Step().value()));
  CHECK(nan.gradients[0] == std::vector<float>{11, 12});
}

TEST_CASE("children that are lost at three batches within a minute are a device that is lost") {
  Rig rig("tires");
  REQUIRE(rig.Start().ok());
  for (int step = 0; step < 3; ++step) CHECK(rig.Step().ok());
  const absl::Status status = rig.Step().status();
  CHECK((absl::IsDataLoss(status) && absl::StrContains(status.message(), "at 3 batches within")));
}

TEST_CASE("a batch at which each child is lost is one that the program cannot compute") {
  const auto [mode, why] = GENERATE(table<std::string, std::string>(
      {{"dies!", "ended with exit code 7"}, {"changes", "another variable b than before"}}));
  CAPTURE(mode);
  Rig rig(mode);
  REQUIRE(rig.Start().ok());
  for (int tries = 0; tries < 3; ++tries) {  // a coordinator retries this often
    const absl::Status status = rig.Step().status();
    INFO(status);
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(absl::StrContains(status.message(), why));
    CHECK(absl::StrContains(status.message(), "3 times at one batch"));
  }
}

TEST_CASE("what is wrong with a program is said before it computes anything") {
  const auto [mode, why] = GENERATE(table<std::string, std::string>({
      {"import",
       "python3 child.py import: it ended with exit code 1; its last line: "
       "ModuleNotFoundError: No module named 'torch'; python3 is /"},
      {"refuses", "the data has no column \"age\""},
      {"shape", "variable \"a\" has a dimension of 0"},
      {"lacks", "int64 of a column \"age\" that the data's targets lack"},
      {"float16", "dtypes: must say float32 or int64 of columns"},
  }));
  Rig rig(mode);
  const absl::Status status = rig.Start();
  INFO(status);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(absl::StrContains(status.message(), why));
}

TEST_CASE("a first child that somebody kills before it has said what it is has a successor") {
  Rig rig("killed");
  REQUIRE(rig.Start().ok());
  CHECK(rig.Step().ok());
}

TEST_CASE("a program runs only where programs are allowed") {
  Rig rig("fine");
  rig.use.allowed = false;
  const absl::Status status = rig.Start();
  CHECK(absl::IsPermissionDenied(status));
  CHECK(absl::StrContains(status.message(), "--allow-programs"));
}

TEST_CASE("what a job says and a program does itself, and a missing command, are errors") {
  Rig rig("fine");
  rig.job.accumulate = 2;
  rig.job.loss_weights.by_class = {{0, 2.0}};
  const absl::Status status = rig.Start();
  CHECK(absl::StrContains(status.message(), "accumulate: is the program's own affair"));
  CHECK(absl::StrContains(status.message(), "class_weight: is the program's own affair"));
  Rig none("fine");
  none.job.model["command"] = {"no-such-program"};
  CHECK(
      absl::StrContains(none.Start().message(),
                        "model: the program no-such-program: there is no program "
                        "no-such-program in PATH (a `command` begins with a program that each "
                        "worker has in PATH, with a path, which may be relative to the job file"));
  none.job.model["command"] = {"./child.py"};
  CHECK(absl::StrContains(none.Start().message(),
                          "/child.py: Permission denied: make it executable (chmod +x), or name"));
}

TEST_CASE("batches of sizes that a program cannot compute are found before the first") {
  Rig rig("four");
  REQUIRE(rig.Start().ok());
  CHECK(CheckBatchSizes(*rig.program, rig.job, 8).ok());
  const absl::Status status = CheckBatchSizes(*rig.program, rig.job, 9);
  CHECK(absl::StrContains(status.message(), "make one of 1 examples"));
  rig.job.each_epoch.drop_last = true;
  CHECK(CheckBatchSizes(*rig.program, rig.job, 9).ok());
  rig.batch.inputs[0].exact = {{0, 16777217}};
  CHECK(absl::StrContains(rig.Step().status().message(), "the number 16777217"));
}

TEST_CASE("a program that wants int64 of a column is given all digits of its numbers") {
  Rig rig("int64");
  const absl::Status started = rig.Start();
  INFO(started);
  REQUIRE(started.ok());
  rig.batch.inputs[0].values[0] = 9007199254740992;
  rig.batch.inputs[0].values[7] = -3;
  rig.batch.inputs[0].exact = {{0, 9007199254740993}};
  CHECK(rig.Step().value() == 993 - 3 + 1);
  rig.batch.inputs[0].exact.clear();  // the file had a float
  const absl::Status status = rig.Step().status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(absl::StrContains(status.message(), "of which no whole number is certain"));
  // An unsigned number beyond int64 would turn negative.
  rig.batch.inputs[0].values[7] = 9223372036854775808.0f;
  rig.batch.inputs[0].exact = {{0, 3}, {7, std::numeric_limits<int64_t>::min()}};
  const absl::Status beyond = rig.Step().status();
  CHECK(absl::IsInvalidArgument(beyond));
  INFO(beyond);
  CHECK(absl::StrContains(beyond.message(),
                          "example 3 of the batch: input, element 1, has 9223372036854775808, "
                          "which is beyond int64, and the program wants int64"));
  rig.batch.inputs[0].values[7] = -9223372036854775808.0f;
  CHECK(rig.Step().ok());
}

TEST_CASE("a fraction is refused where a program wants int64, which would cut it off") {
  Rig rig("int64");
  REQUIRE(rig.Start().ok());
  rig.batch.inputs[0].values[5] = 2.7f;
  LookupCounts counts;
  for (const absl::Status& status : {rig.Step().status(), rig.program->LookAt(rig.batch, counts)}) {
    INFO(status);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(absl::StrContains(status.message(),
                            "example 2 of the batch: input, element 1, has 2.7, which is no whole "
                            "number, and the program wants int64 of it: give whole numbers, or "
                            "let it take float32"));
  }
  rig.batch.inputs[0].values[5] = -2;
  CHECK(rig.Step().ok());
  CHECK(rig.program->LookAt(rig.batch, counts).ok());
}

TEST_CASE("an assigned variable is a moving average that keeps nothing") {
  Rig rig("assigned");
  REQUIRE(rig.Start().ok());
  const VariableSpec& variable = rig.program->variables()[3];
  CHECK(variable.trainable());
  CHECK(variable.moving_average() == kAssignedKeeps);
  CHECK(absl::StrContains(rig.program->Summary(), "mean (2,) zeros, assigned"));
  REQUIRE(rig.Step().ok());
  CHECK(rig.gradients[3] == std::vector<float>{17, 18});
}

TEST_CASE("a folder of a program is its owner's, and goes with it or with the next one") {
  const TestDirectory parent;
  auto first = ProgramFolder::Make({{"train.py", "1"}, {"lib/model.py", "2"}}, parent.path());
  REQUIRE(first.ok());
  const std::string path = (*first)->path();
  PosixFiles files;
  CHECK(files.ReadWhole(path + "/lib/model.py").value() == "2");
  const std::string left = parent / "paracord-program-aBcDeF";  // left by a killed process
  REQUIRE(mkdir(left.c_str(), 0700) == 0);
  parent.Write("paracord-program-aBcDeF/train.py", "3");
  const auto second = ProgramFolder::Make({}, parent.path());
  REQUIRE(second.ok());
  CHECK(files.ReadWhole(path + "/train.py").ok());
  CHECK(access(left.c_str(), F_OK) != 0);
  first->reset();
  CHECK(access(path.c_str(), F_OK) != 0);
}

TEST_CASE("a program is told goodbye, and has a while to leave") {
  for (const bool together : {false, true}) {
    Rig rig("leaves");
    const auto running = rig.use.running = std::make_shared<RunningChildren>();
    REQUIRE(rig.Start().ok());
    CHECK(rig.said.Has("is ready"));
    if (together) {  // no destructors run
      running->EndAll();
      CHECK(absl::IsCancelled(rig.Step().status()));
    }
    rig.program.reset();
    CHECK(rig.said.Has("was told goodbye in /"));
    CHECK_FALSE(rig.said.Has("lost", /*tries=*/1));
    std::string path = rig.said.lines.back();
    path = path.substr(path.find('/'));
    CHECK(access(path.c_str(), F_OK) != 0);
  }
}

TEST_CASE("no process of a program outlives it") {
  const TestDirectory directory;
  ChildOptions options;
  options.command = {"/bin/sh", "-c", "sleep 1000 & echo $!; echo $$; wait"};
  options.directory = directory.path();
  std::vector<pid_t> pids;
  std::mutex mu;
  options.log = [&](const std::string& line) {
    const std::lock_guard lock(mu);
    pids.push_back(std::stoi(line));
  };
  auto child = ChildProcess::Start(options);
  REQUIRE(child.ok());
  const auto two = [&] {
    const std::lock_guard lock(mu);
    return pids.size() == 2;
  };
  for (const int64_t until = SteadyMs() + 10000; !two() && SteadyMs() < until;) usleep(1000);
  REQUIRE(two());
  CHECK(kill(pids[0], 0) == 0);
  CHECK(getpgid(pids[0]) == pids[1]);
  child->reset();
  const auto gone = [&] {
    // A zombie may remain, since nobody reaps a grandchild.
    const auto stat = PosixFiles().ReadWhole(absl::StrCat("/proc/", pids[0], "/stat"));
    return !stat.ok() || absl::StrContains(*stat, ") Z ");
  };
  for (const int64_t until = SteadyMs() + 10000; !gone() && SteadyMs() < until;) usleep(1000);
  CHECK(gone());
  CHECK(kill(pids[1], 0) != 0);
}

}  // namespace
}  // namespace paracord
