// Runs each benchmark once at a meaninglessly small size. Checks that the benchmark ends, prints
// the results of the README, and prints whether each goal is met.
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "common/json_text.h"
#include "nlohmann/json.hpp"
#include "tests/fakes.h"

namespace {

struct Output {
  int status = -1;
  std::string text;
};

Output Shell(const std::string& command) {
  Output output;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof(buffer), pipe)) output.text.append(buffer, got);
  output.status = pclose(pipe);
  return output;
}

Output Run(const std::string& program) { return Shell(PARACORD_BIN_DIR "/" + program); }

void CheckRuns(const std::string& command, const std::string& prints) {
  const Output output = Run(command);
  INFO(command << "\n" << output.text);
  CHECK(output.status == 0);
  CHECK(output.text.find("cores, load") != std::string::npos);
  CHECK(output.text.find(prints) != std::string::npos);
}

TEST_CASE("bench_all_reduce runs") { CheckRuns("bench_all_reduce --mb 1", "64MB"); }
TEST_CASE("bench_rows runs") {
  CheckRuns("bench_rows --keys 20000 --rounds 1", "of a fixed table, chain of");
}
TEST_CASE("bench_stages runs") {
  CheckRuns("bench_stages --perceptron-alone --batch 16 --units 8 --rounds 1",
            "goal: MLP of 4 x 8");
}
TEST_CASE("bench_store runs") { CheckRuns("bench_store --mb 1 --rounds 1", "adamw"); }

TEST_CASE("bench_program runs") {
  if (std::system("python3 -c 'import numpy' 2>/dev/null") != 0) {
    WARN("skipped: python3 has no NumPy");
    return;
  }
  CheckRuns("bench_program --steps 5 --rounds 1", "goal: a child beside the process");
}

TEST_CASE("bench_wire runs") {
  CheckRuns("bench_wire --mb-max 1 --rounds 1", "shared memory");
  CheckRuns("bench_wire --tls --mb-max 1 --rounds 1", "stream, TLS");
}

TEST_CASE("bench_fan_in runs") {
  CheckRuns("bench_fan_in --kb 40 --ms 5 --workers 2 --rounds 1", "most workers beside the best");
}

TEST_CASE("bench_checkpoint runs") {
  CheckRuns("bench_checkpoint --mb 1 --seconds 0 --rounds 1", "goal: restore");
}

TEST_CASE("bench_start runs") {
  CheckRuns("bench_start --records 640 --rounds 1", "goal: worker, idle");
}

TEST_CASE("bench_sessions runs") {
  CheckRuns("bench_sessions --sessions 3 --seconds 1", "KB a session");
}

TEST_CASE("bench_coordinator runs") {
  CheckRuns("bench_coordinator --workers 20 --operations 100 --rounds 1", "goal: memory");
}

// Returns the results by name.
std::map<std::string, nlohmann::json> Results(const std::string& command) {
  const Output output = Run(command + " --json");
  INFO(output.text);
  REQUIRE(output.status == 0);
  std::map<std::string, nlohmann::json> results;
  std::istringstream lines(output.text);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json result = paracord::JsonOf(line);
    CHECK(result.at("value").is_number());
    CHECK(result.at("unit").is_string());
    CHECK(result.at("higher_is_better").is_boolean());
    CHECK(result.contains("ratio_to") == result.contains("ratio"));
    CHECK(results.emplace(result.at("name"), result).second);  // each name once
  }
  return results;
}

TEST_CASE("bench_model runs") {
  const std::string job = PARACORD_SOURCE_DIR "/examples/fashion-mnist/mlp.json";
  if (!std::ifstream("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")) {
    WARN("not checked: Fashion-MNIST is not there");
    return;
  }
  CheckRuns("bench_model --rounds 1 --batch 8 --job " + job, "forward and backward");
}

TEST_CASE("bench_gpu runs on the processor, too, and without a GPU says that it is skipped") {
  const std::string models = " --models " PARACORD_SOURCE_DIR "/examples/fashion-mnist/models";
  CheckRuns(
      "bench_gpu --device cpu --case cnn --batch 4 --rounds 2 --elements 10000 "
      "--ps-seconds 1" +
          models,
      "with a ps beside alone");
  // The run is too short for a verdict on the goal.
  CheckRuns(
      "bench_gpu --device cpu --case cnn --batch 1 --rounds 1 --elements 10000 "
      "--ps-seconds 0" +
          models,
      "with a ps beside alone: too short to say");
  const auto results = Results(
      "bench_gpu --device cpu --case mlp --batch 2 --rounds 1 --elements "
      "10000 --ps=false" +
      models);
  CHECK(results.at("gpu_step_mlp_2_bf16").at("unit") == "samples/s");
  CHECK(results.at("gpu_add").at("unit") == "GB/s");
  CHECK(results.at("gpu_hidden_copies_mlp_2_float32").at("value") == 0);  // the CPU copies nothing
  CHECK(Run("bench_gpu --device cpu --case none" + models).status != 0);
  setenv("PARACORD_CUDA_PLUGIN", "/none", 1);
  const Output skipped = Run("bench_gpu");
  const Output refused = Run("bench_gpu --device cuda:0");
  unsetenv("PARACORD_CUDA_PLUGIN");
  CHECK(skipped.status == 0);
  CHECK(skipped.text.find("skipped: --device cuda:0: no CUDA plug-in") != std::string::npos);
  CHECK(WEXITSTATUS(refused.status) == 2);
  CHECK(refused.text.find("no CUDA plug-in at /none") != std::string::npos);
}

TEST_CASE("gpu-check says what it lacks, in a line") {
  const std::string check = PARACORD_SOURCE_DIR "/deploy/gpu-check ";
  const auto lacks = [](const std::string& command, const std::string& what) {
    const Output output = Shell(command);
    INFO(output.text);
    CHECK(WEXITSTATUS(output.status) == 2);
    CHECK(output.text.find("gpu-check: ") == 0);
    CHECK(output.text.find(what) != std::string::npos);
    CHECK(std::count(output.text.begin(), output.text.end(), '\n') == 1);
  };
  lacks(check + "pack /tmp/paracord_gpu_check /", "/bin/gpu_test is missing: cmake --preset dev");
  lacks(check + "pack", "pack where to?");
  lacks(check + "here", "is not a folder that gpu-check packed");
  const paracord::TestDirectory tools;  // holds every tool that the script finds
  const auto add = [&](const std::string& name) {
    REQUIRE(Shell("ln -s $(command -v realpath) " + tools / name).status == 0);
  };
  add("realpath");
  lacks("PATH=" + tools.path() + " " + check + "host", "ssh is not installed here");
  add("ssh");
  lacks("PATH=" + tools.path() + " " + check + "host", "rsync is not installed here");
  CHECK(Shell(check + "--help").text.find("deploy/gpu-check HOST [BUILD]") != std::string::npos);
}

TEST_CASE("scripts find their tree through a link and whatever CDPATH says") {
  const paracord::TestDirectory links;
  struct Case {
    std::string script, arguments, said;
  };
  for (const Case& c :
       {Case{"deploy/setup", "nobody", "deploy/setup: nothing in deploy/packages is for: nobody\n"},
        Case{"deploy/gpu-check", "pack", "gpu-check: pack where to?\n"},
        Case{"deploy/gpu-check", "-x", "gpu-check: no such option: -x; see --help\n"},
        Case{"tests/run", "--fast", "usage: tests/run [--since REF] [--sanitizers] [--slow]\n"}}) {
    CAPTURE(c.script);
    REQUIRE(Shell("ln -sf " PARACORD_SOURCE_DIR "/" + c.script + " " + links / "link").status == 0);
    CHECK(Shell(links / "link " + c.arguments).text == c.said);
    CHECK(Shell("cd " PARACORD_SOURCE_DIR " && CDPATH=.:/ " + c.script + " " + c.arguments).text ==
          c.said);
  }
}

// A folder without data and with programs that do nothing. Each test replaces one program.
struct Packed {
  Packed() {
    char name[] = "/tmp/paracord_gpu_check_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    dir = name;
    packed = dir + "/packed";
    const std::string build = dir + "/build/bin";
    std::string make = "mkdir -p " + build;
    for (const char* program : {"gpu_test", "bench_gpu", "bench_model", "paracord", "paracord-ps",
                                "paracord-worker", "paracord-coordinator", "libparacord_cuda.so"}) {
      make += " && cp /bin/true " + build + "/" + program;
    }
    REQUIRE(Shell(make).status == 0);
    const Output pack =
        Shell("CUDA_LIBRARIES=there DATA= " PARACORD_SOURCE_DIR "/deploy/gpu-check pack " + packed +
              " " + dir + "/build");
    INFO(pack.text);
    REQUIRE(pack.status == 0);
  }
  ~Packed() { (void)Shell("rm -r " + dir); }
  void Write(const std::string& program, const std::string& does) const {
    std::ofstream(packed + "/bin/" + program) << "#!/bin/sh\n" << does << "\n";
  }
  Output Here(const std::string& settings) const {
    return Shell("OUT=" + dir + "/out " + settings + " " + packed + "/gpu-check here");
  }
  std::string dir, packed;
};

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("gpu-check leaves the toolkit's libraries where they are, and finds the driver's") {
  const Packed packed;
  CHECK(Shell("ls " + packed.packed + "/lib | grep -c 'libcu\\|nvrtc\\|nccl'").text == "0\n");
  packed.Write("gpu_test", "echo \"searched $LD_LIBRARY_PATH\"; echo computed without cuDNN");
  const Output here = packed.Here("LD_LIBRARY_PATH=/the/drivers STEPS=tests");
  INFO(here.text);
  CHECK(here.status == 0);
  CHECK(Has(here.text, "searched " + packed.packed + "/lib:/the/drivers"));
  CHECK(Has(here.text, "      1  without cuDNN\n      0  more slowly\n      0  call by call\n"));
  CHECK(Has(Shell("cat " + packed.dir + "/out/tests.txt").text, "/lib:/the/drivers"));
}

TEST_CASE("gpu-check ends what hangs, and does the steps that are left") {
  const Packed packed;
  packed.Write("gpu_test", "[ \"$1\" != --durations ] || { echo begun; exec sleep 60; }");
  const Output here = packed.Here("STEP_SECONDS=2 STEPS='tests ps train'");
  INFO(here.text);
  CHECK(WEXITSTATUS(here.status) == 1);
  CHECK(Has(here.text, "begun"));
  CHECK(Has(here.text, "== bin/bench_gpu --device=cuda:0"));
  CHECK(Has(here.text, "packed without Fashion-MNIST: train is skipped"));
  CHECK(Has(here.text, "gpu-check: failed: tests (124: not done in "));
  const Output unknown = packed.Here("STEPS='tests nothing'");
  CHECK(WEXITSTATUS(unknown.status) == 2);
  CHECK(Has(unknown.text, "no such step: nothing; there are tests no-graphs"));
}

TEST_CASE("versus/gpu says what it lacks, in a line", "[.slow]") {  // needs Python
  const std::string versus = "python3 " PARACORD_SOURCE_DIR "/bench/versus/gpu ";
  const Output skipped = Shell(versus), unknown = Shell(versus + "--cases none");
  if (skipped.text.find("skipped: PyTorch ") == 0) CHECK(skipped.status == 0);
  CHECK(WEXITSTATUS(unknown.status) == 2);
  CHECK(unknown.text.find("no such case: none; there are cnn, resnet18, mlp") != std::string::npos);
}

TEST_CASE("with --json each result is a line of its own, beside what ran with it") {
  const auto wire = Results("bench_wire --mb-max 1 --rounds 1");
  CHECK(wire.at("pull_1MB").at("ratio_to") == "raw_tcp");
  CHECK(wire.at("push_sgd_1MB").at("unit") == "GB/s");
  CHECK(wire.at("pull_1MB_shared").at("ratio_to") == "raw_unix");
  CHECK(wire.at("exchange_4KB").at("higher_is_better") == false);
  const auto store = Results("bench_store --mb 1 --rounds 1");
  CHECK(store.at("apply_sgd_1MB_1threads").at("ratio_to") == "memcpy");
  const auto coordinator = Results("bench_coordinator --workers 20 --operations 100 --rounds 1");
  CHECK(coordinator.at("lease_operations").at("unit") == "/s");
  CHECK(Results("bench_fan_in --kb 40 --ms 5 --workers 2 --rounds 1")
            .contains("fan_in_tcp_2ps_2workers"));
}

}  // namespace
