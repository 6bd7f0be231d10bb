// The manifest of a checkpoint with a growing table.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

TEST_CASE("a manifest of lanes needs a reader that knows them") {
  Manifest manifest;
  manifest.job_name = "job";
  manifest.job_json = R"({"name": "job"})";
  manifest.run_id = "00112233445566778899aabbccddeeff";
  manifest.name = {.step = 10, .generation = 3, .round = 4};
  manifest.plan.set_records(1000);
  manifest.plan.set_batch(10);
  manifest.plan.set_split_batches(25);
  VariableSpec& variable = manifest.variables.emplace_back();
  variable.set_name("bias");
  variable.add_shape(2);
  variable.set_dtype(FLOAT32);
  variable.set_trainable(true);
  variable.mutable_initializer()->set_name("zeros");
  PartitionSpec& spec = manifest.partitions.emplace_back().spec;
  spec.set_name("bias/part_0");
  spec.set_row_end(2);
  manifest.files = {{PsFileName(0, 1), 24, 0, "boot0"}};
  CHECK_FALSE(JsonOf(ManifestToText(manifest)).at("data_plan").contains("lanes"));
  CHECK(JsonOf(ManifestToText(manifest)).at("min_reader_version") == 2);
  manifest.plan.set_lanes(4);
  const std::string text = ManifestToText(manifest);
  CHECK(JsonOf(text).at("min_reader_version") == 6);
  const absl::StatusOr<Manifest> back = ParseManifest(text, "m");
  INFO(back.status());
  REQUIRE(back.ok());
  CHECK(back->plan.lanes() == 4);
  CHECK(ManifestToText(*back) == text);
  manifest.plan.set_split_batches(24);
  CHECK(absl::IsDataLoss(ParseManifest(ManifestToText(manifest), "m").status()));
}

TEST_CASE("a manifest of a synchronous job has all trained partitions at one state") {
  Manifest manifest;
  manifest.job_name = "job";
  manifest.run_id = "00112233445566778899aabbccddeeff";
  manifest.name = {.step = 10, .generation = 3, .round = 4};
  manifest.plan.set_records(1000);
  manifest.plan.set_batch(10);
  manifest.plan.set_split_batches(25);
  manifest.plan.set_lanes(4);
  for (const char* const name : {"kernel", "bias", "mean"}) {
    VariableSpec& variable = manifest.variables.emplace_back();
    variable.set_name(name);
    variable.add_shape(2);
    variable.set_dtype(FLOAT32);
    variable.set_trainable(variable.name() != "mean");
    variable.mutable_initializer()->set_name("zeros");
    ManifestPartition& partition = manifest.partitions.emplace_back();
    partition.spec.set_id(static_cast<uint32_t>(manifest.partitions.size() - 1));
    partition.spec.set_variable(partition.spec.id());
    partition.spec.set_name(variable.name() + "/part_0");
    partition.spec.set_row_end(2);
    if (variable.trainable()) partition.applied = 12;
  }
  manifest.files = {{PsFileName(0, 1), 24, 0, "boot0"}};
  const auto parsed = [&](const std::string& consistency) {
    manifest.job_json = R"({"name": "job", "consistency": ")" + consistency + R"("})";
    return ParseManifest(ManifestToText(manifest), "m").status();
  };
  CHECK(parsed("sync").ok());
  manifest.partitions[1].applied = 16;
  CHECK(parsed("async").ok());
  const absl::Status torn = parsed("sync");
  CHECK(absl::IsDataLoss(torn));
  CHECK(std::string(torn.message())
            .find("kernel/part_0 has 12 batches (and 0 rejected), "
                  "bias/part_0 has 16") != std::string::npos);
  manifest.partitions[0].applied = 15;
  manifest.partitions[0].rejected = 1;
  CHECK(absl::IsDataLoss(parsed("sync")));
}

TEST_CASE("a manifest has all settings of a growing table") {
  Manifest manifest;
  manifest.job_name = "job";
  manifest.job_json = R"({"name": "job"})";
  manifest.run_id = "00112233445566778899aabbccddeeff";
  manifest.name = {.step = 10, .generation = 3, .round = 4};
  manifest.plan.set_records(1000);
  manifest.plan.set_batch(10);
  manifest.plan.set_split_batches(5);
  VariableSpec& variable = manifest.variables.emplace_back();
  variable.set_name("user/embeddings");
  variable.add_shape(2);
  variable.add_shape(3);
  variable.set_dtype(FLOAT32);
  variable.set_trainable(true);
  variable.mutable_initializer()->set_name("zeros");
  TableSpec& table = *variable.mutable_table();
  table.set_kind(TableSpec::GROWING);
  table.set_lazy(true);
  table.set_admit_after(3);
  table.set_admit_probability(0.25);
  table.set_candidates(5000);
  table.set_expire_batches(1000);
  table.set_rows_max(uint64_t{1} << 40);
  for (uint32_t slot = 0; slot < 2; ++slot) {
    PartitionSpec& spec = manifest.partitions.emplace_back().spec;
    spec.set_id(slot);
    spec.set_name(absl::StrCat("user/embeddings/part_", slot));
    spec.set_row_begin(slot);
    spec.set_row_end(slot + 1);
  }
  manifest.files = {{PsFileName(0, 1), 24, 0, "boot0"}};
  const std::string text = ManifestToText(manifest);
  CHECK(JsonOf(text).at("min_reader_version") == 3);
  const absl::StatusOr<Manifest> back = ParseManifest(text, "m");
  INFO(back.status());
  REQUIRE(back.ok());
  CHECK(back->variables[0].SerializeAsString() == variable.SerializeAsString());
  CHECK(ManifestToText(*back) == text);

  // The table gets an optimizer of its own, then the checkpoint a base.
  table.set_optimizer(R"({"name":"adagrad"})");
  CHECK(JsonOf(ManifestToText(manifest)).at("min_reader_version") == 4);
  table.clear_optimizer();
  manifest.base = "step-8-g3-r3";
  manifest.partitions[1].delta = true;
  const std::string continued = ManifestToText(manifest);
  CHECK(JsonOf(continued).at("min_reader_version") == 4);
  const absl::StatusOr<Manifest> again = ParseManifest(continued, "m");
  INFO(again.status());
  REQUIRE(again.ok());
  CHECK(again->base == manifest.base);
  CHECK(again->partitions[1].delta);
  CHECK(!again->partitions[0].delta);
  CHECK(ManifestToText(*again) == continued);
  for (const char* const base :
       {"", "step-8-g3-r4", "step-8-g4-r1", "elsewhere", "../step-8-g3-r3"}) {
    manifest.base = base;
    CHECK(absl::IsDataLoss(ParseManifest(ManifestToText(manifest), "m").status()));
  }
}

}  // namespace
}  // namespace paracord
