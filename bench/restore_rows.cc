#include "restore_rows.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/counter_random.h"
#include "common/memory_budget.h"
#include "common/mix.h"
#include "config/job.h"
#include "config/partitions.h"
#include "exchange/rows.h"
#include "measure.h"
#include "storage/checkpoint.h"
#include "store/loader.h"
#include "store/snapshot.h"
#include "temp_dir.h"

namespace paracord::bench {
namespace {

constexpr uint64_t kPartitions = 16;
constexpr uint64_t kPushedRows = 65536;  // rows in a batch
constexpr uint64_t kLinks = 4;           // deltas of a chain
constexpr uint64_t kLinkShare = 20;      // each of them has one of so many rows
const char* const kRunId = "00112233445566778899aabbccddeeff";

// A table on a ps, and its checkpoints.
class StoredRows {
 public:
  StoredRows(bool growing, uint64_t rows, uint64_t dim, const std::string& below)
      : directory_(below), growing_(growing), rows_(rows), gradients_(kPushedRows * dim, 0.01f) {
    Job job;
    job.name = "restores";
    job.model = {{"class_name", "Sequential"}, {"config", {{"layers", nlohmann::json::array()}}}};
    job.train = {"npy", {{"features", "/f.npy"}, {"labels", "/l.npy"}}};
    job.loss = {"mean_squared_error"};
    job.optimizer = {"adagrad"};
    job.checkpoint.full_every = kLinks + 1;
    order_.mutable_fence()->set_run_id(kRunId);
    order_.mutable_fence()->set_generation(1);
    order_.set_job_json(JobToJson(job));
    order_.mutable_plan()->set_records(uint64_t{1} << 40);
    order_.mutable_plan()->set_batch(1);
    order_.mutable_plan()->set_split_batches(1u << 30);
    VariableSpec& table = *order_.add_variables();
    table.set_name("table");
    table.add_shape(growing ? kPartitions : rows);
    table.add_shape(dim);
    table.set_dtype(FLOAT32);
    table.set_trainable(true);
    table.mutable_initializer()->set_name("random_uniform");
    table.mutable_table()->set_kind(growing ? TableSpec::GROWING : TableSpec::FIXED);
    for (uint32_t i = 0; i < kPartitions; ++i) {
      PartitionSpec& partition = *order_.add_partitions();
      partition.set_id(i);
      partition.set_name(absl::StrCat("table/part_", i));
      partition.set_row_begin(BeginOf(i));
      partition.set_row_end(BeginOf(i + 1));
    }
    content_ = Load("");
    for (uint64_t n = 0; n < rows;) {
      RowIds ids;
      for (; n < rows && ids.size() < kPushedRows; ++n) ids.push_back(IdOf(n));
      Push(ids);
    }
  }

  // Writes a full checkpoint, and returns its name.
  std::string WriteFull() { return Write(std::nullopt); }
  // Writes checkpoints that continue the newest, and returns the name of the last.
  std::string WriteChain() {
    std::string name;
    for (uint64_t link = 0; link < kLinks; ++link) {
      for (uint64_t left = rows_ / kLinkShare; left > 0;) {
        RowIds ids;
        for (; left > 0 && ids.size() < kPushedRows; --left) {
          ids.push_back(IdOf(RandomBits(3, drawn_++) % rows_));
        }
        Push(ids);
      }
      name = Write(newest_);
    }
    return name;
  }
  void Drop() { content_ = nullptr; }

  // Restores a checkpoint; returns the seconds.
  double Restore(const std::string& name) {
    const double begin = Seconds();
    const std::shared_ptr<const PartitionSet> restored = Load(name);
    const double seconds = Seconds() - begin;
    uint64_t rows = 0;
    for (const auto& partition : restored->partitions) {
      const Partition::Counts counts = partition->GetCounts();
      rows += growing_ ? counts.table->rows() : partition->facts().shape[0];
    }
    if (rows != rows_) Fail(absl::StrCat(name, " has ", rows, " rows"));
    return seconds;
  }

 private:
  uint64_t BeginOf(uint64_t partition) const {
    return growing_ ? partition : partition * rows_ / kPartitions;
  }
  uint64_t IdOf(uint64_t n) const { return growing_ ? Mix64(n) : n; }

  std::shared_ptr<const PartitionSet> Load(const std::string& checkpoint) {
    LoadRequest order = order_;
    order.set_checkpoint(checkpoint);
    MemoryBudget memory;
    KnownDamage damage;
    auto content = LoadContent(files_, directory_.path(), MemoryBudget::kUnlimited,
                               std::make_shared<PinnedBytes>(), memory, damage, order);
    if (!content.ok()) Fail(content.status().ToString());
    return *std::move(content);
  }

  // A batch that names these rows, which need not be sorted or distinct.
  void Push(RowIds ids) {
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    std::vector<RowIds> of(kPartitions);
    size_t fixed = 0;
    for (const uint64_t id : ids) {
      while (!growing_ && id >= BeginOf(fixed + 1)) ++fixed;
      of[growing_ ? ShardOfRow(id, kPartitions) : fixed].push_back(id);
    }
    const uint64_t dim = gradients_.size() / kPushedRows;
    for (size_t i = 0; i < kPartitions; ++i) {
      PartitionUpdate update;
      const uint64_t bytes = of[i].size() * dim * sizeof(float);
      update.rows = std::move(of[i]);
      if (bytes > 0) {
        update.gradient = Gradient(absl::MakeCordFromExternal(
            absl::string_view(reinterpret_cast<const char*>(gradients_.data()), bytes),
            [](absl::string_view) {}));
      }
      const auto pushed = content_->partitions[i]->Push({0, batches_, 1u << 30}, false, update, {});
      if (pushed.outcome != PUSH_APPLIED) Fail("a push was not applied");
    }
    ++batches_;
  }

  std::string Write(const std::optional<CheckpointName>& base) {
    const CheckpointName name{batches_, 1, newest_.has_value() ? newest_->round + 1 : 1};
    const std::string path =
        absl::StrCat(CheckpointsDirectory(directory_.path()), "/", name.ToString());
    std::filesystem::create_directories(path);
    MemoryShare snapshots;
    const std::atomic<bool> voided = false;
    SnapshotOrder order{.identity = {kRunId, 1, name.round, 0, 1, "boot"},
                        .directory = path,
                        .changes = {.base = base, .own = name}};
    SnapshotTask task(files_, *content_, std::move(order), snapshots, voided);
    if (const absl::Status taken = task.TakeNow(); !taken.ok()) Fail(taken.ToString());
    const absl::StatusOr<SnapshotReply> written = task.Write();
    if (!written.ok()) Fail(written.status().ToString());
    Manifest manifest;
    manifest.job_name = "restores";
    manifest.job_json = order_.job_json();
    manifest.run_id = kRunId;
    manifest.name = name;
    manifest.plan = order_.plan();
    manifest.variables = {order_.variables(0)};
    for (int i = 0; i < order_.partitions_size(); ++i) {
      const PartitionDescription& now = written->partitions(i);
      if (now.delta() != base.has_value())
        Fail(name.ToString() + " is not the kind that it was to be");
      manifest.partitions.push_back({.spec = order_.partitions(i),
                                     .updates = now.updates(),
                                     .applied = now.ledger().applied(),
                                     .delta = now.delta()});
    }
    if (base.has_value()) manifest.base = base->ToString();
    manifest.files = {{written->file(), written->bytes(), written->crc32c(), "boot"}};
    const std::string to = absl::StrCat(path, "/", kManifestName);
    const absl::Status put = files_.WriteAtomic(to, ManifestToText(manifest));
    if (!put.ok()) Fail(put.ToString());
    newest_ = name;
    return name.ToString();
  }

  const TempDir directory_;
  const bool growing_;
  const uint64_t rows_;
  const std::vector<float> gradients_;
  PosixFiles files_;
  LoadRequest order_;
  std::shared_ptr<const PartitionSet> content_;
  uint32_t batches_ = 0;
  uint64_t drawn_ = 0;
  std::optional<CheckpointName> newest_;
};

}  // namespace

void MeasureRestores(uint64_t rows, uint64_t dim, int rounds, const std::string& below) {
  for (const bool growing : {true, false}) {
    StoredRows table(growing, rows, dim, below);
    const std::string full = table.WriteFull(), chain = table.WriteChain();
    table.Drop();
    std::vector<double> of_full, of_chain;
    for (int i = 0; i < rounds; ++i) {
      of_full.push_back(table.Restore(full));
      of_chain.push_back(table.Restore(chain));
    }
    const auto print = [&](const std::string& what, const char* result,
                           const std::vector<double>& seconds) {
      const double rate = static_cast<double>(rows) / Quantile(seconds, 0.5) / 1e6;
      PrintGoal(
          absl::StrCat("rows restored of a ", growing ? "growing" : "fixed", " table, ", what),
          rate, Bound::kAtLeast, 2, "M/s");
      PrintResult({.name = absl::StrCat(growing ? "growing" : "fixed", result),
                   .value = rate,
                   .unit = "M rows/s"});
    };
    print("full checkpoint", "_restore", of_full);
    print(absl::StrCat("chain of ", kLinks + 1, " checkpoints"), "_restore_chain", of_chain);
  }
}

}  // namespace paracord::bench
