// Tests `paracord predict`: the predictions must give the metrics that `evaluate` prints.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/json_text.h"
#include "common/mix.h"
#include "config/partitions.h"
#include "e2e/process.h"
#include "storage/checkpoint.h"
#include "storage/safetensors.h"
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
json RecommenderJob(uint64_t dim = 4) {
  const json layers = {
      Layer("user", "InputLayer", {{"dtype", "int64"}, {"batch_shape", {nullptr, 1}}},
            json::array()),
      Layer("film", "InputLayer", {{"dtype", "int64"}, {"batch_shape", {nullptr, 1}}},
            json::array()),
      Layer("age", "InputLayer", {{"batch_shape", {nullptr, 1}}}, json::array()),
      Layer("users", "Embedding", {{"input_dim", 1000}, {"output_dim", dim}}, {"user"}),
      Layer("films", "Embedding", {{"input_dim", 1000}, {"output_dim", dim}}, {"film"}),
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
  explicit Trained(const json& job = RecommenderJob(), const std::string& ps = "2") {
    std::vector<double> unused;
    WriteText(path("job.json"), TextOf(job));
    WriteText(path("train.csv"), Rows(600, 40, &unused));
    WriteText(path("test.csv"), Rows(301, 90, &labels));
    REQUIRE(Run({"train", path("job.json"), "--dir", path("run"), "--ps", ps}) == 0);
  }
  std::string path(const std::string& name) const { return temp_ / name; }
  Exit Run(std::vector<std::string> command, const std::string& log = "log") {
    command.insert(command.begin(), PARACORD_BIN_DIR "/paracord");
    WriteText(path(log), "");
    Process process(command, {{"TMPDIR", temp_.path()}}, path(log));
    peak_mib = 0;
    WaitUntil(120000, [&] {
      peak_mib = std::max(peak_mib, StatusMiB(process.pid(), "VmHWM"));
      return !process.running();
    });
    const Exit code = process.Poll().value_or(-1);
    INFO(ReadText(path(log)));
    CHECK(code == 0);
    return code;
  }

  std::vector<double> labels;  // labels of test.csv
  uint64_t peak_mib = 0;       // of the last command

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

// Appends the records of `ids` to a ps file: the last batch, and values that depend on the id.
void AppendRecords(SafetensorsWriter& writer, const std::vector<uint64_t>& ids, uint64_t words,
                   uint32_t now) {
  std::vector<float> records;
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t at = records.size();
    records.resize(at + words);
    std::memcpy(&records[at], &ids[i], sizeof ids[i]);
    std::memcpy(&records[at + 2], &now, sizeof now);
    for (uint64_t w = 3; w < words; ++w) {
      records[at + w] = static_cast<float>((ids[i] + w * 31) % 997) / 997 - 0.5f;
    }
    if (i + 1 < ids.size() && records.size() < 1 << 18) continue;
    REQUIRE(writer.Append(records).ok());
    records.clear();
  }
}

// Gives the growing table `name` of the newest checkpoint, of one ps, a row for each Mix64(0) to
// Mix64(rows - 1), in place of its own rows. Returns the size of the ps file.
uint64_t FillTable(const std::string& dir, const std::string& name, uint64_t rows) {
  PosixFiles files;
  const std::string directory =
      CheckpointsDirectory(dir) + "/" +
      ListCheckpoints(files, CheckpointsDirectory(dir))->front().ToString();
  Manifest manifest = *ReadManifest(files, directory);
  REQUIRE(manifest.files.size() == 1);
  const std::string path = directory + "/" + manifest.files[0].name;
  const auto old = SafetensorsFile::Open(files, path);
  REQUIRE(old.ok());
  const SafetensorsHeader& header = (*old)->header();
  std::map<std::string, std::pair<std::string, std::vector<uint64_t>>> filled;  // by tensor
  for (const ManifestPartition& partition : manifest.partitions) {
    const VariableSpec& variable = manifest.variables[partition.spec.variable()];
    if (variable.name() != name) continue;
    auto& [of, ids] = filled[SlotTensorName(partition.spec.name(), kRowsSlot)];
    of = partition.spec.name();
    for (uint64_t k = 0; k < rows; ++k) {
      const uint32_t shard = ShardOfRow(Mix64(k), variable.shape(0));
      if (shard == partition.spec.row_begin()) ids.push_back(Mix64(k));
    }
  }
  REQUIRE_FALSE(filled.empty());
  std::vector<TensorInfo> tensors = header.tensors;
  for (TensorInfo& tensor : tensors) {
    if (filled.contains(tensor.name)) tensor.shape[0] = filled[tensor.name].second.size();
  }
  auto writer = SafetensorsWriter::Create(files, path + ".new", tensors, header.metadata);
  REQUIRE(writer.ok());
  for (const TensorInfo& tensor : header.tensors) {
    if (const auto found = filled.find(tensor.name); found != filled.end()) {
      const auto table = ReadTableMetadata(header.metadata, found->second.first);
      AppendRecords(**writer, found->second.second, tensor.shape[1] / sizeof(float), (*table)->now);
      continue;
    }
    std::string bytes(tensor.end - tensor.begin, '\0');
    REQUIRE((*old)->ReadBytes(tensor, 0, bytes).ok());
    REQUIRE((*writer)->Append(bytes).ok());
  }
  REQUIRE((*writer)->Finish().ok());
  manifest.files[0].bytes = (*writer)->bytes();
  manifest.files[0].crc32c = (*writer)->crc32c();
  REQUIRE(files.Rename(path + ".new", path).ok());
  REQUIRE(files.WriteAtomic(directory + "/" + kManifestName, ManifestToText(manifest)).ok());
  return manifest.files[0].bytes;
}

TEST_CASE(
    "a checkpoint beyond the memory limit gives the same bytes and metrics within the limit") {
  constexpr uint64_t kRows = 1'200'000, kLimitMiB = 128;
  json job = RecommenderJob(32);
  job["optimizer"] = "sgd";  // rows without slots
  Trained trained(job, "1");
  const uint64_t bytes = FillTable(trained.path("run"), "users/embeddings", kRows);
  REQUIRE(bytes > kLimitMiB << 20);
  WriteText(trained.path("new.csv"), Rows(20000, 2 * kRows, nullptr));  // half have no row
  WriteText(trained.path("test.csv"), Rows(3000, 2 * kRows, &trained.labels));
  const auto predict = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> command = {
        "predict", "--dir",          trained.path("run"), "--data", trained.path("new.csv"),
        "--out",   trained.path(out)};
    command.insert(command.end(), more.begin(), more.end());
    REQUIRE(trained.Run(command) == 0);
    return trained.peak_mib;
  };
  const auto evaluate = [&](const std::string& log, const std::vector<std::string>& more) {
    std::vector<std::string> command = {"evaluate", trained.path("job.json"), "--dir",
                                        trained.path("run"), "--json"};
    command.insert(command.end(), more.begin(), more.end());
    REQUIRE(trained.Run(command, log) == 0);
    return trained.peak_mib;
  };
  const std::vector<std::string> limited = {"--memory-limit", absl::StrCat(kLimitMiB, "MiB")};
  const uint64_t whole = predict("whole.csv", {}), left = predict("left.csv", limited);
  CHECK(ReadText(trained.path("whole.csv")).size() > 20000);
  CHECK(ReadText(trained.path("left.csv")) == ReadText(trained.path("whole.csv")));
  evaluate("whole.json", {});
  const uint64_t evaluated = evaluate("left.json", limited);
  CHECK(JsonOf(ReadText(trained.path("left.json")))["examples"] == 3000);
  CHECK(ReadText(trained.path("left.json")) == ReadText(trained.path("whole.json")));
#ifndef __SANITIZE_ADDRESS__  // whose own memory would count
  INFO(whole << " MiB whole, " << left << " and " << evaluated << " MiB from the files");
  CHECK(whole > bytes >> 20);
  CHECK(left <= kLimitMiB);
  CHECK(evaluated <= kLimitMiB);
#endif
}

}  // namespace
}  // namespace paracord::e2e
