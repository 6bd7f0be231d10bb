// Trains the counting job as a StableHLO program under random kills. Each worker gets gradients
// from a fake PJRT plug-in (tests/fake_pjrt), not from XLA.
#include <catch2/catch.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/kills.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

const std::string kFakePlugin = PARACORD_BIN_DIR "/fake_plugins/fake_pjrt.so";

json NameOf(const char* kind, const char* name) { return {{"kind", kind}, {"name", name}}; }

// A step program with loss 1, gradients 0 for the kernel and -1/units for the bias.
json CountingStep(uint64_t batch) {
  std::string code;
  absl::Base64Escape("f32 - 1 0 0\nf32 2x4096 0 0 0\nf32 4096 -0.000244140625 0 0\n", &code);
  return {{"kind", "step"},
          {"batch", batch},
          {"arguments", json::array({NameOf("variable", "count/kernel"),
                                     NameOf("variable", "count/bias"),
                                     NameOf("input", ""),
                                     NameOf("target", ""),
                                     {{"kind", "key"}}})},
          {"results", json::array({{{"kind", "loss"}},
                                   NameOf("gradient", "count/kernel"),
                                   NameOf("gradient", "count/bias")})},
          {"code", code}};
}

json CountingFile() {
  return {{"format", 1},
          {"made_by", "a test"},
          {"stablehlo", "1.0.0"},
          {"variables", json::array({{{"name", "count/kernel"}, {"shape", {2, kUnits}}},
                                     {{"name", "count/bias"}, {"shape", {kUnits}}}})},
          {"inputs", json::array({{{"name", ""}, {"shape", {2}}}})},
          {"targets", json::array({{{"name", ""}, {"shape", {kUnits}}}})},
          {"modules", json::array({CountingStep(kBatch), CountingStep(kRecords % kBatch)})}};
}

json StableHloPatch(uint64_t steps) {
  return {{"model",
           {{"class_name", nullptr},  // removes the Keras model
            {"config", nullptr},
            {"program", "stablehlo"},
            {"file", "count.program"}}},
          {"loss", nullptr},
          {"steps", steps}};
}

TEST_CASE("a program of StableHLO counts exactly through kills of ps and workers") {
  constexpr uint64_t kSteps = 2500;
  Cluster cluster({.batch_ms = 5,
                   .environment = {{"PARACORD_PJRT_PLUGINS", kFakePlugin}},
                   .job = StableHloPatch(kSteps)});
  WriteText(cluster.root() + "/count.program", TextOf(CountingFile()));
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  KillAtRandom(cluster, {{"ps:0", "ps:1", "worker:0", "worker:1"}, 12, kSteps});
  CHECK(cluster.Finish(120000) == 0);
  CheckCounted(cluster.dir(), kSteps);
}

TEST_CASE("a plug-in that fails in a batch ends its worker, and costs no batch") {
  Cluster cluster({.workers = 1,
                   .environment = {{"PARACORD_PJRT_PLUGINS", kFakePlugin},
                                   {"PARACORD_FAKE_PJRT",
                                    "fail=PJRT_LoadedExecutable_Execute:13:"
                                    "40"}},
                   .job = StableHloPatch(100)});
  WriteText(cluster.root() + "/count.program", TextOf(CountingFile()));
  cluster.StartAll();
  bool lost = false;
  while (cluster.at("coordinator").running()) {
    for (const auto& [task, exit] : cluster.Supervise()) lost |= exit == 203;
    WaitUntil(20, [] { return false; });
  }
  CHECK(lost);
  CHECK(cluster.Finish() == 0);
  CheckCounted(cluster.dir(), 100);
}

TEST_CASE("a worker without a plug-in says which it would need") {
  Cluster cluster({.workers = 1, .job = StableHloPatch(10)});
  WriteText(cluster.root() + "/count.program", TextOf(CountingFile()));
  cluster.StartAll();
  CHECK(cluster.at("worker:0").Wait(20000) == 2);
  CHECK(cluster.Logged("worker:0", "PARACORD_PJRT_PLUGINS=PATH"));
  cluster.KillAll();
}

}  // namespace
}  // namespace paracord::e2e
