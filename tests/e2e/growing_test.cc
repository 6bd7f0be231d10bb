// Growing tables with arbitrary 64-bit ids, trained by real processes under kills and on any number
// of ps.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/mix.h"
#include "e2e/bits_job.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/process.h"
#include "objects/all_files.h"
#include "storage/checkpoint.h"
#include "storage/safetensors.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;
using Occurrences = std::map<uint64_t, float>;  // id -> number of occurrences

constexpr uint64_t kUserWidth = 4;
constexpr uint64_t kUserIds = 4;  // ids in an example
constexpr uint64_t kUserExamples = 64 * kBatch;
constexpr uint64_t kUserEpochs = 10;

// Writes int64 ids: a few are frequent, most never occur. Ids are of any size and sign, and include
// 0.
void WriteUserIds(const std::string& path, uint64_t examples, uint64_t seed, Occurrences& counts) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::string header = absl::StrCat("{'descr': '<i8', 'fortran_order': False, 'shape': (", examples,
                                    ", ", kUserIds, "), }");
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  text += header;
  for (uint64_t i = 0; i < examples * kUserIds; ++i) {
    const uint64_t drawn = random() % 2 == 0 ? random() % 10 : random() % 20000;
    const uint64_t id = drawn == 0 ? 0 : Mix64(drawn);
    ++counts[id];
    text.append(reinterpret_cast<const char*>(&id), sizeof id);
  }
  WriteText(path, text);
}

// A job in which each occurrence of an id adds 1 to each element of the id's row.
json UserJob(uint64_t epochs) {
  const auto layer = [](const std::string& class_name, const json& config) {
    return json{{"class_name", class_name}, {"config", config}};
  };
  const auto files = [](const std::string& name) {
    return json{{"format", "npy"}, {"features", name + "-ids.npy"}, {"labels", name + "-want.npy"}};
  };
  const std::vector<json> layers = {
      layer("InputLayer",
            {{"name", "id"}, {"dtype", "int64"}, {"batch_shape", {nullptr, kUserIds}}}),
      layer("Embedding", {{"name", "user"},
                          {"input_dim", 1},
                          {"output_dim", kUserWidth},
                          {"embeddings_initializer", "zeros"}}),
      layer("Flatten", {{"name", "all"}})};
  return {
      {"epochs", epochs},
      {"model", {{"class_name", "Sequential"}, {"config", {{"name", "ids"}, {"layers", layers}}}}},
      {"data", {{"train", files("train")}, {"test", files("test")}}},
      {"metrics", {"mean_absolute_error"}},
      {"tables", {{"user", {{"kind", "growing"}, {"shards", 5}}}}},
      {"optimizer", {{"name", "sgd"}, {"learning_rate", kBatch * kUserIds * kUserWidth}}}};
}

// Returns the occurrences of ids in the training data and in the test data.
std::pair<Occurrences, Occurrences> WriteUserData(const std::string& root) {
  Occurrences train, test;
  WriteUserIds(root + "/train-ids.npy", kUserExamples, 7, train);
  WriteUserIds(root + "/test-ids.npy", 5 * kBatch, 8, test);
  for (const auto& [name, examples] :
       {std::pair("train", kUserExamples), std::pair("test", 5 * kBatch)}) {
    WriteNpy(absl::StrCat(root, "/", name, "-want.npy"), {examples, kUserIds * kUserWidth},
             std::vector<float>(examples * kUserIds * kUserWidth, kTarget));
  }
  return {train, test};
}

void CheckUserRows(const std::vector<uint64_t>& ids, std::span<const float> values,
                   const Occurrences& counts, uint64_t epochs) {
  REQUIRE(ids.size() == counts.size());
  REQUIRE(values.size() == ids.size() * kUserWidth);
  uint64_t wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto count = counts.find(ids[i / kUserWidth]);
    const bool right =
        count != counts.end() && values[i] == static_cast<float>(epochs) * count->second;
    wrong += right ? 0 : 1;
  }
  CHECK(wrong == 0);
}

void CheckNewestUsers(const std::string& dir, const Occurrences& counts, uint64_t epochs) {
  AllFiles files;
  const std::string newest = NewestCheckpoint(dir);
  const absl::StatusOr<Manifest> manifest = ReadManifest(files, newest);
  INFO(newest << ": " << manifest.status());
  REQUIRE(manifest.ok());
  CHECK(manifest->complete);
  VariableIds ids;
  const auto variables = ReadVariables(files, newest, *manifest, &ids);
  INFO(variables.status());
  REQUIRE(variables.ok());
  CheckUserRows(ids[0], (*variables)[0], counts, epochs);
}

std::string RunCommand(const std::string& root, const std::string& command) {
  const std::string log = root + "/command.log";
  WriteText(log, "");
  Process process({"/bin/sh", "-c", "cd " + root + " && paracord " + command},
                  {{"PATH", PARACORD_BIN_DIR ":/usr/bin:/bin"}, {"TMPDIR", root}}, log);
  const auto code = process.Wait(60000);
  std::string text = ReadText(log);
  INFO(command << ": " << text);
  CHECK(code == 0);
  return text;
}

// Checks ids and rows in an exported file.
void CheckUserExport(const std::string& path, const Occurrences& counts, uint64_t epochs) {
  AllFiles files;
  const auto file = SafetensorsFile::Open(files, path);
  INFO(file.status());
  REQUIRE(file.ok());
  const TensorInfo* const stored = (*file)->header().Find("user/embeddings/ids");
  const TensorInfo* const rows = (*file)->header().Find("user/embeddings/rows");
  REQUIRE(stored != nullptr);
  REQUIRE(rows != nullptr);
  CHECK(stored->dtype == "I64");
  CHECK(rows->shape == std::vector<uint64_t>{counts.size(), kUserWidth});
  const std::string text = ReadText(path);
  std::vector<uint64_t> ids(stored->shape[0]);
  REQUIRE(stored->end - stored->begin == ids.size() * sizeof(uint64_t));
  std::memcpy(ids.data(), text.data() + (*file)->header().data_begin + stored->begin,
              ids.size() * sizeof(uint64_t));
  std::vector<float> values(ids.size() * kUserWidth);
  REQUIRE((*file)->ReadElements(*rows, 0, values).ok());
  CheckUserRows(ids, values, counts, epochs);
}

TEST_CASE("each row of a growing table has the occurrences of its id, whatever is killed") {
  const bool overlap = GENERATE(false, true);
  CAPTURE(overlap);
  json job = UserJob(kUserEpochs);
  job["overlap"] = overlap;
  job["checkpoint"] = {{"every_seconds", 0.2}, {"keep", 2}, {"full_every", 4}};
  Cluster cluster({.ps = 2, .workers = 2, .tcp = overlap, .batch_ms = 5, .job = job});
  const auto [counts, test] = WriteUserData(cluster.root());
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  std::mt19937 random(11);
  for (const char* task : {"ps:1", "worker:0", "coordinator", "ps:0", "worker:1", "ps:0"}) {
    const int64_t until = NowMs() + static_cast<int64_t>(random() % 500);
    WaitUntil(10000, [&] { return cluster.Supervise().empty() && NowMs() >= until; });
    if (cluster.at(task).running()) cluster.at(task).Signal(SIGKILL);
  }
  CHECK(cluster.Finish(120000) == 0);
  CheckNewestUsers(cluster.dir(), counts, kUserEpochs);

  const json summary = cluster.Summary();
  INFO(TextOf(summary, 2));
  const json& table = summary.at("tables").at("user/embeddings");
  CHECK(table.at("rows") == counts.size());
  CHECK(table.at("admitted") == counts.size());
  CHECK(table.at("expired") == 0);
  CHECK(table.at("bytes") > counts.size() * kUserWidth * sizeof(float));
  CHECK(table.at("pushed_rows") > 0);
  // Ids that are only in the test data read their initial values.
  double sum = 0, ids = 0;
  for (const auto& [id, times] : test) {
    const auto trained = counts.find(id);
    const float row = trained == counts.end() ? 0 : trained->second * float{kUserEpochs};
    sum += static_cast<double>(row * times);
    ids += static_cast<double>(times);
  }
  const double error = static_cast<double>(kTarget) - sum / ids;
  CHECK(summary.at("metrics").at("test").at("mean_absolute_error").get<double>() ==
        Approx(error).epsilon(1e-9));

  const std::string& root = cluster.root();
  CHECK(RunCommand(root, "validate job.json").find("user/embeddings") != std::string::npos);
  RunCommand(root, "checkpoint verify --dir dir");
  RunCommand(root, "checkpoint ls --dir dir");
  RunCommand(root, "export --dir dir --out values.safetensors");
  CheckUserExport(root + "/values.safetensors", counts, kUserEpochs);
  const std::string scored = RunCommand(root, "evaluate job.json --dir dir --json");
  const json metrics = JsonOf(scored.substr(scored.find('{')));
  INFO(scored);
  CHECK(metrics.at("metrics").at("mean_absolute_error").get<double>() ==
        Approx(error).epsilon(1e-6));

  // Resumes the rows for one more epoch on each number of ps.
  for (uint64_t ps = 1; ps <= 3; ++ps) {
    RunCommand(root, absl::StrCat("train job.json --dir dir --workers 1 --ps ", ps,
                                  " --set epochs=", kUserEpochs + ps));
    CheckNewestUsers(cluster.dir(), counts, kUserEpochs + ps);
  }
}

// Returns the newest checkpoint and its bases, down to a full checkpoint; empty if one is
// unreadable.
std::vector<std::string> NewestChain(const std::string& dir) {
  AllFiles files;
  const std::string checkpoints = CheckpointsDirectory(dir);
  const auto names = ListCheckpoints(files, checkpoints);
  std::vector<std::string> chain;
  std::string name = names.ok() && !names->empty() ? names->front().ToString() : "";
  while (!name.empty()) {
    const auto manifest = ReadManifest(files, checkpoints + "/" + name);
    if (!manifest.ok()) return {};
    chain.push_back(name);
    name = manifest->base;
  }
  return chain;
}

uint64_t Occurs(const std::string& what, const std::string& text) {
  uint64_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// What a job has made of a table with room for few rows.
struct FullTable {
  json counts;      // rows that were admitted, evicted and so on
  std::string all;  // the tensors that `export` writes
  std::string bits;
};

// Trains with one worker. `drains`: how often all processes end in between, after a checkpoint for
// SIGTERM, and others take their place.
FullTable TrainFullTable(uint32_t full_every, uint64_t drains) {
  constexpr uint64_t kEpochs = 60;
  BitsCase of = GrowingTable();
  of.job["epochs"] = kEpochs;
  of.job["tables"]["user"] = {
      {"kind", "growing"}, {"update", "lazy"}, {"shards", 5}, {"rows_max", 60}};
  of.job["checkpoint"] = {{"every_seconds", 0.1}, {"keep", 2}, {"full_every", full_every}};
  Cluster cluster({.ps = 2, .workers = 1, .batch_ms = 3, .job = of.job});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  for (uint64_t drain = 1; drain <= drains; ++drain) {
    REQUIRE(cluster.WaitForBatches(drain * kEpochs * kBitsBatches / (drains + 1), 60000));
    cluster.at("coordinator").Signal(SIGTERM);
    REQUIRE(cluster.at("coordinator").Wait(60000) == 143);
    cluster.KillAll();
    if (full_every > 1) CHECK(NewestChain(cluster.dir()).size() > 1);
    cluster.StartAll();
  }
  REQUIRE(cluster.Finish(120000) == 0);
  CHECK(Occurs("going on from checkpoint", cluster.Log("coordinator")) == drains);
  FullTable made;
  made.counts = cluster.Summary().at("tables").at("user/embeddings");
  for (const char* of_lives : {"pulled_rows", "pushed_rows", "pulled_rows_per_second",
                               "pushed_rows_per_second", "bytes", "hot_ids"}) {
    made.counts.erase(of_lives);
  }
  RunCommand(cluster.root(), "export --dir dir --out values.safetensors");
  const std::string path = cluster.root() + "/values.safetensors";
  AllFiles files;
  const auto file = SafetensorsFile::Open(files, path);
  INFO(file.status());
  REQUIRE(file.ok());
  made.all = ReadText(path).substr((*file)->header().data_begin);
  made.bits = BitsOf(cluster.dir());
  return made;
}

TEST_CASE("a table without room has the same admissions, rows and bits if its job was drained") {
  const FullTable whole = TrainFullTable(/*full_every=*/1, /*drains=*/0);
  INFO(TextOf(whole.counts, 2));
  CHECK(whole.counts.at("rows") == 60);
  CHECK(whole.counts.at("evicted") > 5000);
  for (const uint32_t full_every : {1u, 1000u}) {
    CAPTURE(full_every);
    const FullTable drained = TrainFullTable(full_every, /*drains=*/2);
    CHECK(drained.counts == whole.counts);
    const bool same = drained.all == whole.all;  // a failure must not print the values
    CHECK(same);
    CHECK(drained.bits == whole.bits);
  }
}

TEST_CASE("rows of a growing table go on with their second ps when the first is killed for good") {
  json job = UserJob(kUserEpochs);
  job["copies"] = 1;
  job["checkpoint"] = {{"every_seconds", 0.2}, {"keep", 2}, {"full_every", 4}};
  Cluster cluster({.ps = 3, .workers = 2, .batch_ms = 10, .job = job});
  const auto [counts, test] = WriteUserData(cluster.root());
  cluster.StartAll();
  REQUIRE(WaitUntil(60000, [&] {
    const json status = cluster.Status();
    const json copies = status.is_object() ? status.value("copies", json()) : json();
    return copies.is_object() && copies.at("with_both") == copies.at("partitions");
  }));
  const auto killed = cluster.TakeOut("ps:1");
  killed->Signal(SIGKILL);
  killed->Wait(10000);
  CHECK(cluster.Finish(120000) == 0);
  CheckNewestUsers(cluster.dir(), counts, kUserEpochs);
}

TEST_CASE("a checkpoint that continues others restores to another number of ps") {
  json job = UserJob(kUserEpochs);
  job["checkpoint"] = {{"every_seconds", 0.1}, {"keep", 1}, {"full_every", 1000}};
  Cluster cluster({.ps = 2, .workers = 1, .batch_ms = 5, .job = job});
  const auto [counts, test] = WriteUserData(cluster.root());
  cluster.StartAll();
  const auto links = [&] { return NewestChain(cluster.dir()).size(); };
  WaitUntil(30000, [&] { return links() >= 4; });
  cluster.KillAll();
  REQUIRE(links() >= 4);
  const std::string& root = cluster.root();
  RunCommand(root, "checkpoint verify --dir dir");
  CHECK(RunCommand(root, "checkpoint ls --dir dir").find("continues step-") != std::string::npos);
  RunCommand(root, "export --dir dir --out values.safetensors");
  RunCommand(root, "train job.json --dir dir --workers 1 --ps 3");
  CheckNewestUsers(cluster.dir(), counts, kUserEpochs);
}

TEST_CASE("a running job whose chain loses a manifest goes on with a full checkpoint") {
  json job = UserJob(kUserEpochs);
  job["checkpoint"] = {{"every_seconds", 0.1}, {"keep", 2}, {"full_every", 1000}};
  Cluster cluster({.ps = 2, .workers = 1, .batch_ms = 5, .job = job});
  const auto [counts, test] = WriteUserData(cluster.root());
  cluster.StartAll();
  WaitUntil(30000, [&] { return NewestChain(cluster.dir()).size() >= 4; });
  const std::vector<std::string> chain = NewestChain(cluster.dir());
  REQUIRE(chain.size() >= 4);
  const std::string lost = chain[chain.size() - 2];
  AllFiles files;
  REQUIRE(files
              .RemoveTree(
                  absl::StrCat(CheckpointsDirectory(cluster.dir()), "/", lost, "/", kManifestName))
              .ok());
  // Later checkpoints must not build on the lost checkpoint.
  WaitUntil(30000, [&] {
    const std::vector<std::string> newest = NewestChain(cluster.dir());
    return !newest.empty() && newest.back() != chain.back();
  });
  const std::vector<std::string> newest = NewestChain(cluster.dir());
  REQUIRE_FALSE(newest.empty());
  CHECK(newest.back() != chain.back());
  CHECK(cluster.Log("coordinator").find(absl::StrCat("checkpoint ", lost)) != std::string::npos);
  cluster.KillAll();
  cluster.StartAll();
  CHECK(cluster.Finish(120000) == 0);
  CheckNewestUsers(cluster.dir(), counts, kUserEpochs);
}

TEST_CASE("rows that are rare get no row, and those that are not touched for long lose theirs") {
  json job = UserJob(2);
  job["tables"]["user"] = {{"kind", "growing"},
                           {"update", "lazy"},
                           {"shards", 3},
                           {"admit", {{"after", 3}}},
                           {"expire", {{"batches", 20}}},
                           {"optimizer", {{"name", "adam"}, {"row_wise", true}}}};
  job["optimizer"] = {{"name", "lion"}};
  Cluster cluster({.ps = 2, .workers = 1, .job = job});
  const auto [counts, test] = WriteUserData(cluster.root());
  cluster.StartAll();
  CHECK(cluster.Finish(60000) == 0);
  const json summary = cluster.Summary();
  INFO(TextOf(summary, 2));
  const json& table = summary.at("tables").at("user/embeddings");
  CHECK(table.at("rows") > 8);
  CHECK(table.at("rows") < counts.size() / 4);
  CHECK(table.at("dropped") > counts.size());
  CHECK(table.at("expired") > 0);
  CHECK(RunCommand(cluster.root(), "validate job.json").find("from its 3rd appearance on") !=
        std::string::npos);
}

}  // namespace
}  // namespace paracord::e2e
