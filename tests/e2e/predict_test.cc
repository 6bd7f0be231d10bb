// Tests `paracord predict`: the predictions must give the metrics that `evaluate` prints.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/json_text.h"
#include "common/mix.h"
#include "e2e/process.h"
#include "tests/fakes.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

json Layer(const std::string& name, const std::string& kind, json config, const json& inputs) {
  json nodes = json::array();
  if (!inputs.empty()) {
    nodes.push_back(json::array());
    for (const json& input : inputs) nodes[0].push_back({input, 0, 0, json::object()});
  }
  config["name"] = name;
  return {{"class_name", kind}, {"name", name}, {"config", config}, {"inbound_nodes", nodes}};
}

// A small recommender: two embeddings of hashed ids, and a dense part.
json RecommenderJob() {
  const json layers = {
      Layer("user", "InputLayer", {{"dtype", "int64"}, {"batch_shape", {nullptr, 1}}},
            json::array()),
      Layer("film", "InputLayer", {{"dtype", "int64"}, {"batch_shape", {nullptr, 1}}},
            json::array()),
      Layer("age", "InputLayer", {{"batch_shape", {nullptr, 1}}}, json::array()),
      Layer("users", "Embedding", {{"input_dim", 1000}, {"output_dim", 4}}, {"user"}),
      Layer("films", "Embedding", {{"input_dim", 1000}, {"output_dim", 4}}, {"film"}),
      Layer("u", "Flatten", json::object(), {"users"}),
      Layer("f", "Flatten", json::object(), {"films"}),
      Layer("dot", "Dot", {{"axes", {1, 1}}}, {"u", "f"}),
      Layer("all", "Concatenate", {{"axis", -1}}, {"u", "f", "dot", "age"}),
      Layer("like", "Dense", {{"units", 1}, {"activation", "sigmoid"}}, {"all"})};
  const auto feature = [](const char* name, const char* kind) {
    return json{{"column", name}, {"kind", kind}, {"input", name}};
  };
  return {
      {"model",
       {{"class_name", "Functional"},
        {"config",
         {{"name", "model"},
          {"layers", layers},
          {"input_layers", {{"user", 0, 0}, {"film", 0, 0}, {"age", 0, 0}}},
          {"output_layers", {{"like", 0, 0}}}}}}},
      {"data",
       {{"train",
         {{"format", "csv"},
          {"files", "train.csv"},
          {"features", {feature("user", "id"), feature("film", "id"), feature("age", "numeric")}},
          {"label", "liked"}}},
        {"test", {{"files", "test.csv"}}}}},
      {"batch", 32},
      {"epochs", 3},
      {"tables", {{"users", {{"kind", "growing"}}}, {"films", {{"kind", "growing"}}}}},
      {"loss", "binary_crossentropy"},
      {"metrics", {"binary_accuracy"}},
      {"optimizer", {{"name", "adagrad"}, {"learning_rate", 0.5}}}};
}

// Returns CSV rows "user,film,age,liked" with 64-bit ids of `users` users; no `liked` if `labels`
// is null.
std::string Rows(int rows, uint64_t users, std::vector<double>* labels) {
  std::string text = labels == nullptr ? "user,film,age\n" : "user,film,age,liked\n";
  for (int i = 0; i < rows; ++i) {
    const uint64_t draw = Mix64(static_cast<uint64_t>(i) + 77 * users);
    const uint64_t user = draw % users, film = draw / 1000 % 37;
    const bool liked = Mix64(user % 7 + film % 3) % 3 == 0;
    absl::StrAppend(&text, Mix64(user), ",", film, ",", static_cast<double>(draw % 64) / 64);
    if (labels != nullptr) {
      absl::StrAppend(&text, ",", liked ? 1 : 0);
      labels->push_back(liked ? 1 : 0);
    }
    text += "\n";
  }
  return text;
}

class Trained {
 public:
  Trained() {
    std::vector<double> unused;
    WriteText(path("job.json"), TextOf(RecommenderJob()));
    WriteText(path("train.csv"), Rows(600, 40, &unused));
    WriteText(path("test.csv"), Rows(301, 90, &labels));
    REQUIRE(Run({"train", path("job.json"), "--dir", path("run"), "--ps", "2"}) == 0);
  }
  std::string path(const std::string& name) const { return temp_ / name; }
  Exit Run(std::vector<std::string> command, const std::string& log = "log") {
    command.insert(command.begin(), PARACORD_BIN_DIR "/paracord");
    WriteText(path(log), "");
    Process process(command, {{"TMPDIR", temp_.path()}}, path(log));
    const Exit code = process.Wait(120000).value_or(-1);
    INFO(ReadText(path(log)));
    CHECK(code == 0);
    return code;
  }

  std::vector<double> labels;  // labels of test.csv

 private:
  TestDirectory temp_;
};

TEST_CASE("metrics of predicted rows are those of evaluate, with ids that have no row") {
  Trained trained;
  REQUIRE(
      trained.Run({"evaluate", trained.path("job.json"), "--dir", trained.path("run"), "--json"},
                  "evaluated") == 0);
  const json evaluated = JsonOf(ReadText(trained.path("evaluated")));
  REQUIRE(evaluated["examples"] == 301);
  const std::string out = trained.path("scores.csv");
  // The checkpoint holds the job, so neither job.json nor the training data is needed.
  REQUIRE(std::system(
              ("rm " + trained.path("job.json") + " " + trained.path("train.csv")).c_str()) == 0);
  WriteText(trained.path("new.csv"), Rows(301, 90, nullptr));
  REQUIRE(trained.Run({"predict", "--dir", trained.path("run"), "--data", trained.path("new.csv"),
                       "--columns", "film,row", "--out", out}) == 0);
  std::vector<std::string> lines = absl::StrSplit(ReadText(out), '\n', absl::SkipEmpty());
  REQUIRE(lines.size() == 302);
  CHECK(lines[0] == "film,row,like");
  double loss = 0, right = 0;
  for (size_t i = 0; i < trained.labels.size(); ++i) {
    const std::vector<std::string> fields = absl::StrSplit(lines[i + 1], ',');
    REQUIRE(fields[1] == absl::StrCat(i));
    double score = 0;
    REQUIRE(absl::SimpleAtod(fields[2], &score));
    loss -= std::log(trained.labels[i] == 1 ? score : 1 - score) / 301;
    right += (score > 0.5) == (trained.labels[i] == 1) ? 1.0 / 301 : 0;
  }
  CHECK(loss == Approx(evaluated["metrics"]["loss"].get<double>()).epsilon(0).margin(1e-6));
  CHECK(right ==
        Approx(evaluated["metrics"]["binary_accuracy"].get<double>()).epsilon(0).margin(1e-6));
  CHECK(right > 0.6);  // better than chance, so that the order of the rows matters

  // An exported file and labelled records give equal bytes.
  WriteText(trained.path("job.json"), TextOf(RecommenderJob()));
  REQUIRE(trained.Run({"export", "--dir", trained.path("run"), "--out",
                       trained.path("m.safetensors")}) == 0);
  REQUIRE(
      trained.Run({"predict", trained.path("job.json"), "--weights", trained.path("m.safetensors"),
                   "--columns", "film,row", "--out", trained.path("again.csv")}) == 0);
  CHECK(ReadText(trained.path("again.csv")) == ReadText(out));
}

}  // namespace
}  // namespace paracord::e2e
