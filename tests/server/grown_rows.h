// A ps with a growing table, and its pushes, rows and checkpoints, for tests.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exchange/rows.h"
#include "tests/row_pieces.h"
#include "tests/server/ps_fixture.h"

namespace paracord {

constexpr uint64_t kGrownShards = 4;
constexpr uint64_t kGrownDim = 3;

// A model with a growing table in four shards, and a vector.
inline TestModel GrowingModel(NamedSpec optimizer = {"sgd", {{"learning_rate", 0.5}}}) {
  TestModel model;
  model.job.optimizer = std::move(optimizer);
  model.variables = {TestVariable("user/embeddings", {kGrownShards, kGrownDim}),
                     TestVariable("dense/bias", {2})};
  model.variables[0].mutable_initializer()->set_name("random_uniform");
  model.variables[0].mutable_table()->set_kind(TableSpec::GROWING);
  model.partitions.clear();
  for (uint32_t shard = 0; shard < kGrownShards; ++shard) {
    model.partitions.push_back(
        TestPartition(shard, 0, absl::StrCat("user/embeddings/part_", shard), shard, shard + 1));
  }
  model.partitions.push_back(TestPartition(kGrownShards, 1, "dense/bias/part_0", 0, 2));
  return model;
}

inline std::vector<RowIds> IdsByShard(const std::set<uint64_t>& ids) {
  std::vector<RowIds> shards(kGrownShards);
  for (const uint64_t id : ids) shards[ShardOfRow(id, kGrownShards)].push_back(id);
  return shards;
}

// Keys are ids; a value is the gradient of all elements of the row.
using GrownGradients = std::map<uint64_t, float>;

inline DecodedRequest GrownPush(TestPs& ps, uint32_t batch, const GrownGradients& gradients) {
  DecodedRequest request;
  *request.header.mutable_fence() = ps.MakeFence();
  request.header.mutable_batch()->set_split(batch / 10);
  request.header.mutable_batch()->set_batch(batch % 10);
  std::set<uint64_t> ids;
  for (const auto& [id, gradient] : gradients) ids.insert(id);
  const std::vector<RowIds> shards = IdsByShard(ids);
  for (uint32_t shard = 0; shard < kGrownShards; ++shard) {
    Floats values;
    for (const uint64_t id : shards[shard])
      values.insert(values.end(), kGrownDim, gradients.at(id));
    PartitionPush& push = *request.header.add_push();
    push.set_partition(shard);
    push.set_bytes(values.size() * sizeof(float));
    SetPushRows(request, push, shards[shard]);
    if (!values.empty()) request.pieces.push_back({shard, 0, CordOf(values)});
  }
  PartitionPush& bias = *request.header.add_push();
  bias.set_partition(kGrownShards);
  bias.set_bytes(2 * sizeof(float));
  request.pieces.push_back({kGrownShards, 0, CordOf({1, 1})});
  return request;
}

inline std::map<uint64_t, Floats> GrownRows(TestPs& ps, const std::set<uint64_t>& ids) {
  DecodedRequest request;
  *request.header.mutable_fence() = ps.MakeFence();
  const std::vector<RowIds> shards = IdsByShard(ids);
  for (uint32_t shard = 0; shard < kGrownShards; ++shard) {
    PartitionPull& pull = *request.header.add_pull();
    pull.set_partition(shard);
    SetPullRows(request, pull, shards[shard]);
  }
  const absl::StatusOr<Pulled> pulled = ps.Exchange(request);
  REQUIRE(pulled.ok());
  std::map<uint64_t, Floats> rows;
  for (uint32_t shard = 0; shard < kGrownShards; ++shard) {
    for (size_t i = 0; i < shards[shard].size(); ++i) {
      const auto first = pulled->values.at(shard).begin() + static_cast<int64_t>(i * kGrownDim);
      rows[shards[shard][i]] = {first, first + kGrownDim};
    }
  }
  return rows;
}

inline TableCounts GrownCounts(TestPs& ps) {
  TableCounts sum;
  const PsDescription described = ps.Describe();
  for (const PartitionDescription& partition : described.partitions()) {
    sum.set_rows(sum.rows() + partition.table().rows());
    sum.set_admitted(sum.admitted() + partition.table().admitted());
    sum.set_expired(sum.expired() + partition.table().expired());
    sum.set_evicted(sum.evicted() + partition.table().evicted());
    sum.set_dropped(sum.dropped() + partition.table().dropped());
    sum.set_pushed(sum.pushed() + partition.table().pushed());
    sum.set_pulled(sum.pulled() + partition.table().pulled());
  }
  return sum;
}

// Returns the gradients of a batch. Some of its ids recur in other batches, some do not.
inline GrownGradients GrownBatch(uint32_t batch) {
  GrownGradients gradients;
  SeededRandom random(batch);
  for (int i = 0; i < 40; ++i) {
    const auto id = static_cast<uint64_t>(random.Between(0, 300));
    gradients[i % 4 == 0 ? id << 50 : id] = static_cast<float>(random.Between(-64, 64)) / 16;
  }
  return gradients;
}

// Commits a checkpoint of a ps and returns its name. `base`: the checkpoint to continue, or "".
// `continued`: a later checkpoint may continue this one. `cut`: the state of a synchronous job to
// write.
inline std::string CommitGrown(TestPs& ps, uint64_t round, const std::string& base = "",
                               bool continued = false, std::optional<uint64_t> cut = {}) {
  SnapshotRequest order = ps.SnapshotOrder(round);
  if (cut.has_value()) order.set_cut(*cut);
  order.set_base(base);
  order.set_continued(continued);
  const auto reply = ps.Call<SnapshotReply>(method::kSnapshot, order);
  REQUIRE(reply.ok());
  Manifest manifest;
  manifest.job_name = "test";
  manifest.job_json = JobToJson(ps.model.job);
  manifest.run_id = TestPs::kRun;
  manifest.name = {reply->partitions(0).ledger().applied(), order.fence().generation(), round};
  manifest.plan = ps.model.plan;
  manifest.variables = ps.model.variables;
  for (const PartitionSpec& spec : ps.model.partitions) {
    const PartitionDescription& of = reply->partitions(static_cast<int>(spec.id()));
    REQUIRE(of.id() == spec.id());
    manifest.partitions.push_back({.spec = spec,
                                   .updates = of.updates(),
                                   .applied = of.ledger().applied(),
                                   .rejected = of.ledger().rejected(),
                                   .healthy = true,
                                   .delta = of.delta()});
    if (of.delta()) manifest.base = base;
  }
  manifest.files = {{reply->file(), reply->bytes(), reply->crc32c(), ps.boot_id()}};
  const std::string checkpoints = ps.dir() + "/checkpoints/", name = manifest.name.ToString();
  REQUIRE(ps.files.Rename(checkpoints + order.directory(), checkpoints + name).ok());
  REQUIRE(ps.files.WriteAtomic(checkpoints + name + "/" + kManifestName, ManifestToText(manifest))
              .ok());
  return name;
}

}  // namespace paracord
