// Tests `paracord validate` on a StableHLO program, with a fake PJRT plug-in (tests/fake_pjrt).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "cli/commands.h"
#include "common/json_text.h"
#include "tests/fakes.h"
#include "tests/golden/golden.h"
#include "tests/program/stablehlo_file.h"

namespace paracord {
namespace {

using nlohmann::json;

const std::string kCheckingDevice = "pjrt:" PARACORD_BIN_DIR "/fake_plugins/fake_pjrt.so";

struct ValidateProgram {
  ValidateProgram() {
    unsetenv("TF_CONFIG");
    unsetenv("PARACORD_PJRT_PLUGINS");
    directory.Write("data.csv", "1,2,0\n3,4,1\n5,6,2\n7,8,0\n9,10,1\n11,12,2\n");
    const json data = {{"format", "csv"},
                       {"files", "data.csv"},
                       {"header", false},
                       {"features", {0, 1}},
                       {"label", 2}};
    const json job = {{"model", {{"program", "stablehlo"}, {"file", "model.program"}}},
                      {"data", {{"train", data}}},
                      {"batch", 4},
                      {"optimizer", "sgd"}};
    directory.Write("job.json", TextOf(job));
  }
  int Run(const std::vector<std::string>& more = {}) {
    directory.Write("model.program", TextOf(file));
    std::vector<std::string> args = {directory / "job.json"};
    args.insert(args.end(), more.begin(), more.end());
    std::ostringstream out_stream, err_stream;
    const int code = RunValidate(args, out_stream, err_stream);
    out = out_stream.str();
    err = err_stream.str();
    UNSCOPED_INFO(out);
    UNSCOPED_INFO(err);
    return code;
  }

  TestDirectory directory;
  json file = FakeProgramFile();
  std::string out, err;
};

TEST_CASE("validate compiles a program of StableHLO with the plug-in that is named") {
  ValidateProgram validate;
  CHECK(validate.Run({"--device", kCheckingDevice}) == 0);
  CHECK(absl::StrContains(validate.out, "cpu by /"));
  validate.file["modules"][1]["code"] = FakeCode("call Sharding 0 0 0\n");
  CHECK(validate.Run({"--device", kCheckingDevice}) == 2);
  CHECK(absl::StrContains(validate.err, "modules[1], a step of 2 examples"));
  CHECK(absl::StrContains(validate.err, "custom call to Sharding"));
  CHECK(validate.Run({"--device", "pjrt:/no/such.so"}) == 2);
  CHECK(absl::StrContains(validate.err, "there is no PJRT plug-in at /no/such.so"));
  CHECK(validate.Run({"--device", "pjrt:"}) == 2);
  CHECK(absl::StrContains(validate.err, "--device: \"pjrt:\" is none of auto, cpu, "));
  CHECK(validate.Run({"--device", "gpu:0"}) == 2);
  CHECK(absl::StrContains(validate.err, "--device: \"gpu:0\" is none of auto, cpu, "));
}

TEST_CASE("without a plug-in validate says what is wrong with a program file and its data") {
  ValidateProgram validate;
  CHECK(validate.Run() == 0);
  CHECK(absl::StrContains(validate.out, "computes batches of 2, 4 alone"));
  CHECK(absl::StrContains(validate.out, "not compiled: no plug-in is named"));
  CHECK(validate.Run({"--batch"}) == 2);
  CHECK(absl::StrContains(validate.err, "--batch: needs a plug-in: --device pjrt:PATH"));
  CHECK(validate.Run({"--batch", "--device", kCheckingDevice}) == 0);
  CHECK(absl::StrContains(validate.out, "tried a batch: 4 examples of data.train have the loss"));
  validate.file["modules"].erase(1);
  CHECK(validate.Run() == 2);
  CHECK(absl::StrContains(validate.err, "6 records in batches of 4 make one of 2 examples"));
  validate.file["inputs"][0]["shape"] = {3};
  CHECK(validate.Run() == 2);
  CHECK(absl::StrContains(validate.err, "takes input \"x\" of shape (3,)"));
}

TEST_CASE(
    "validate says, with a plug-in and without, what a program for replicas asks of the job") {
  ValidateProgram validate;
  validate.file["modules"].push_back(FakeReplicaStep(/*batch=*/4, /*replicas=*/2));
  const std::vector<std::string> none, plugin = {"--device", kCheckingDevice};
  for (const auto& device : {none, plugin}) {
    const auto run = [&](const std::vector<std::string>& settings) {
      std::vector<std::string> words = device;
      for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
      return validate.Run(words);
    };
    CHECK(run({}) == 2);
    CHECK(absl::StrContains(validate.err, "exported for 2 replicas"));
    CHECK(absl::StrContains(validate.err, "`consistency` \"sync\" and `reduce` \"fast\""));
    CHECK(run({"consistency=sync", "round_batches=2"}) == 2);
    CHECK(run({"consistency=sync", "round_batches=2", "reduce=fast"}) == 0);
    CHECK(absl::StrContains(validate.out, "adds up the gradients of 2 batches itself"));
  }
}

// A child program that prints its arguments in the order received.
constexpr char kTeller[] = R"(import json, socket
s = socket.socket(fileno=3)
s.send(json.dumps({"hello": 1, "variables": [{"name": "w", "shape": [2]}],
                   "dtypes": {"inputs": {"INT64": "int64"}}}).encode())
layout = json.loads(s.recv(1 << 18))
s.send(json.dumps({"error": " ".join(c["name"] for c in layout["inputs"])}
                  if TELLS and not BATCH else {"ready": True}).encode())
while True:
    request = json.loads(s.recv(1 << 18))
    if request["do"] == "bye":
        break
    s.send(json.dumps({"error": "label 7 is no class"} if TELLS else {"loss": 0.5}).encode())
)";

struct ValidateTeller {
  ValidateTeller() {
    unsetenv("TF_CONFIG");
    directory.Write("data.csv", "user,x,y\n1,0.5,0\n2,1.5,1\n");
  }
  // Returns the problems, or the plan if there are none.
  std::string Run(const std::string& data, const char* int64, bool tells = false,
                  bool batch = false) {
    directory.Write("child.py",
                    absl::StrReplaceAll(kTeller, {{"TELLS", tells ? "True" : "False"},
                                                  {"INT64", int64},
                                                  {"BATCH", batch ? "True" : "False"}}));
    directory.Write("job.json", R"({"optimizer": "sgd", "data": {"train": )" + data + R"(},
        "model": {"program": "process", "command": ["python3", "child.py"],
                  "files": ["child.py"]}})");
    std::ostringstream out, err;
    std::vector<std::string> args = {directory / "job.json"};
    if (batch) args.push_back("--batch");
    args.push_back("--allow-programs");
    const int code = RunValidate(args, out, err);
    UNSCOPED_INFO(out.str() << err.str());
    return code == 0 ? out.str() : err.str();
  }

  TestDirectory directory;
  const std::string npz = R"({"format": "npz", "file": ")" + GoldenPath("arrays.npz") +
                          R"(", "labels": "y", "features": )";
  const std::string csv = R"({"format": "csv", "files": "data.csv", "label": "y", "features": )";
};

TEST_CASE("validate runs the program of a job only if that is allowed") {
  ValidateTeller validate;
  const std::string data = validate.csv + R"(["user"]})";
  validate.directory.Write("marked", "");
  CHECK(!absl::StrContains(validate.Run(data, ""), "only run"));
  std::ostringstream out, err;
  const std::vector<std::string> args = {validate.directory / "job.json"};
  CHECK(RunValidate(args, out, err) == 0);
  CHECK(absl::StrContains(out.str(), "only checked, with --allow-programs"));
}

TEST_CASE("a fraction in a column that a program wants as int64 is found by validate") {
  ValidateTeller validate;
  CHECK(absl::StrContains(validate.Run(validate.npz + R"({"x": "x"}})", "x"),
                          "arrays.npz[\"x.npy\"] row 0"));
  CHECK(absl::StrContains(validate.Run(validate.npz + R"({"x": "x"}})", "x"),
                          "input \"x\", element 1, has 0.125, which is no whole number"));
  CHECK(absl::StrContains(
      validate.Run(validate.csv + R"([{"column": "x", "input": "x"}]})", "x"),
      "data.csv row 0: input \"x\" has 0.5, which is no whole number, and the program wants "
      "int64"));
}

TEST_CASE("validate --batch has a program compute one, and says what it says") {
  ValidateTeller validate;
  const std::string data = validate.csv + R"(["user"]})";
  CHECK(absl::StrContains(validate.Run(data, "", false, true),
                          "tried a batch: 2 examples of data.train have the loss 0.5, in "));
  CHECK(absl::StrContains(validate.Run(data, "", true, true),
                          "job.json: data.train: the first batch: label 7 is no class\n"));
}

TEST_CASE("a program is given columns in the order of the job, whatever their format") {
  ValidateTeller validate;
  const std::string &npz = validate.npz, &csv = validate.csv;
  for (const std::string& data :
       {npz + R"({"x": "x", "user": "user"}})", npz + R"({"user": "user", "x": "x"}})",
        csv + R"([{"column": "x", "input": "x"}, {"column": "user", "input": "user"}]})",
        csv + R"([{"column": "user", "input": "user"}, {"column": "x", "input": "x"}]})"}) {
    const bool x_first = data.find("\"x\"") < data.find("\"user\"");
    CAPTURE(data);
    CHECK(
        absl::StrContains(validate.Run(data, "user", true), x_first ? ": x user\n" : ": user x\n"));
    const std::string out = validate.Run(data, "user");
    const size_t x = out.find("  input \"x\" ("), user = out.find("  input \"user\" (");
    REQUIRE(std::max(x, user) != std::string::npos);
    CHECK((x < user) == x_first);
    CHECK(absl::StrContains(out, ") int64\n"));
    CHECK(absl::StrContains(out, ") float32\n  target \"\" () float32\n") != x_first);
  }
}

TEST_CASE("validate of test data that lack the input of a table says so once") {
  ValidateProgram validate;
  json features = json::array();
  for (size_t i = 0; i < 40; ++i) {
    const std::string name = "x" + std::to_string(i);
    features.push_back({{"column", 0}, {"input", name}});
    validate.file["inputs"][i] = {{"name", name}, {"shape", {1}}};
  }
  features.push_back({{"column", 1}, {"kind", "id"}, {"input", "user"}});
  validate.file["inputs"][40] = {{"name", "user"}, {"shape", {1}}, {"dtype", "int64"}};
  validate.file["variables"][0] = {
      {"name", "w"}, {"shape", {1000, 3}}, {"table", {{"columns", {"user"}}}}};
  for (json& module : validate.file["modules"]) {
    for (json& argument : module["arguments"]) {
      const std::string name = argument.value("name", "");
      if (name == "w") argument["rows"] = 5;
      if (name == "x") argument["name"] = "x0";
    }
  }
  const json data = {{"format", "csv"},
                     {"files", "data.csv"},
                     {"header", false},
                     {"features", features},
                     {"label", 2}};
  json test = data;
  test["features"] = json::array({features[0]});
  const json job = {{"model", {{"program", "stablehlo"}, {"file", "model.program"}}},
                    {"data", {{"train", data}, {"test", test}}},
                    {"batch", 4},
                    {"optimizer", "sgd"},
                    {"loss", "sparse_categorical_crossentropy"}};
  validate.directory.Write("job.json", TextOf(job));
  CHECK(validate.Run() == 2);
  INFO(validate.err);
  CHECK(absl::StrContains(validate.err, "data.test: has 1 columns of input, data.train has 41\n"));
  CHECK_FALSE(absl::StrContains(validate.err, "data.test: the batch"));
}

}  // namespace
}  // namespace paracord
