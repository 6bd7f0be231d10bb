// Measures how much accuracy a smaller wire type costs: real processes train Fashion-MNIST with
// each type.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "e2e/process.h"
#include "nlohmann/json.hpp"
#include "tests/fakes.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

struct WireJob {
  std::string name;
  json patch;
};

double Accuracy(const TestDirectory& dir, const std::string& example, const WireJob& job) {
  json document = JsonOf(ReadText(example + "/mlp.json"));
  document.merge_patch(job.patch);
  document["model"] = JsonOf(ReadText(example + "/models/mlp.json"));
  document["epochs"] = 4;
  document.erase("stop_when");
  // The learning rate ends at 0, so that two runs differ by a tenth of a point and not by a whole
  // one.
  document["optimizer"] = {
      {"name", "adam"},
      {"learning_rate",
       {{"name", "cosine_decay"}, {"initial_learning_rate", 0.001}, {"decay_steps", 4 * 938}}}};
  const std::string path = absl::StrCat(dir.path(), "/", job.name);
  WriteText(path + ".json", TextOf(document));
  Process train({PARACORD_BIN_DIR "/paracord", "train", path + ".json", "--dir", path, "--ps", "2",
                 "--workers", "2", "--json"},
                {{"TMPDIR", dir.path()}}, path + ".log");
  const std::optional<Exit> exit = train.Wait(300000);
  INFO(ReadText(path + ".log"));
  REQUIRE(exit == 0);
  const json summary = JsonOf(ReadText(path + "/summary.json"));
  CHECK(summary["ledger"]["applied_min"] == summary["ledger"]["batches"]);
  return summary["metrics"]["test"]["accuracy"];
}

TEST_CASE("a smaller wire costs Fashion-MNIST no more than half a point of accuracy", "[.slow]") {
  const std::string example = PARACORD_SOURCE_DIR "/examples/fashion-mnist";
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    WARN("skipped: no /usr/share/datasets/fashion-mnist");
    return;
  }
  const TestDirectory dir;
  // Overlap costs accuracy by its staleness, so overlapped runs are compared with an overlapped
  // float32 run.
  for (const bool overlap : {false, true}) {
    const std::string with = overlap ? "overlapped " : "";
    const double plain = Accuracy(dir, example, {with + "float32", {{"overlap", overlap}}});
    std::vector<WireJob> jobs = {
        {"bf16, int8", {{"wire", "bf16"}, {"compression", {{"kind", "int8"}}}}},
        {"top_k", {{"compression", {{"kind", "top_k"}, {"ratio", 0.1}}}}},
    };
    if (!overlap) {
      jobs.push_back({"bf16", {{"wire", "bf16"}}});
      jobs.push_back({"f16", {{"wire", "f16"}}});
      jobs.push_back({"int8", {{"compression", {{"kind", "int8"}}}}});
    }
    for (WireJob& job : jobs) {
      job.name = with + job.name;
      job.patch["overlap"] = overlap;
      const double accuracy = Accuracy(dir, example, job);
      WARN(job.name << ": " << accuracy << ", " << with << "float32: " << plain);
      CHECK(accuracy >= plain - 0.005);
    }
  }
}

}  // namespace
}  // namespace paracord::e2e
