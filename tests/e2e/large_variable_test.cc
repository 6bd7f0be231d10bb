// Sends a variable whose bytes 32 bits cannot count between processes.
#include <catch2/catch.hpp>

#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "storage/checkpoint.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

json Layer(const std::string& kind, const json& config) {
  return {{"class_name", kind}, {"config", config}};
}

TEST_CASE("a variable of more than 4 GiB is trained over TCP and through shared memory",
          "[.slow]") {
  const bool tcp = GENERATE(false, true);
  CAPTURE(tcp);
  const json layers = {Layer("InputLayer", {{"batch_shape", {nullptr, 2}}}),
                       Layer("Embedding", {{"name", "large"},
                                           {"input_dim", 1100000},
                                           {"output_dim", 1000},
                                           {"embeddings_initializer", "zeros"}}),
                       Layer("Flatten", {{"name", "flat"}}),
                       Layer("Dense", {{"name", "count"}, {"units", kUnits}})};
  const json model = {{"class_name", "Sequential"},
                      {"config", {{"name", "model"}, {"layers", layers}}}};
  const json limits = {{"worker_ms", 60000}, {"ps_ms", 60000}, {"start_s", 300}};
  Cluster cluster({.ps = 1,
                   .workers = 1,
                   .tcp = tcp,
                   .job = {{"model", model},
                           {"steps", 2},
                           {"timeouts", limits},
                           {"partitioner", {{"kind", "fixed_shards"}, {"shards", 5}}},
                           {"checkpoint", {{"every_seconds", 0}, {"keep", 1}}}}});
  cluster.StartAll();
  REQUIRE(cluster.Finish(600000) == 0);
  const json summary = cluster.Summary();
  CAPTURE(summary.dump());
  CHECK(summary["ledger"]["applied_min"] == 2);
  CHECK(summary["ledger"]["applied_max"] == 2);
  uint64_t bytes = 0;
  PosixFiles files;
  const std::string checkpoint = NewestCheckpoint(cluster.dir());
  const auto manifest = ReadManifest(files, checkpoint);
  REQUIRE(manifest.ok());
  for (const ManifestFile& file : manifest->files) bytes += file.bytes;
  CHECK(bytes > uint64_t{1} << 32);
  CHECK(VerifyCheckpoint(files, checkpoint).ok());
}

}  // namespace
}  // namespace paracord::e2e
