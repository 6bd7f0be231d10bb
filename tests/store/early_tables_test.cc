// Checkpoints of tables that programs of an early version wrote (tests/golden/early_tables) restore
// to the values that these programs exported.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/memory_budget.h"
#include "config/partitions.h"
#include "storage/checkpoint.h"
#include "storage/safetensors.h"
#include "store/loader.h"

namespace paracord {
namespace {

const std::string kEarly = PARACORD_SOURCE_DIR "/tests/golden/early_tables/";

// The tensors of an exported file.
class Exported {
 public:
  explicit Exported(const std::string& path) : text_(*files_.ReadWhole(path)) {
    auto file = SafetensorsFile::Open(files_, path);
    INFO(file.status());
    REQUIRE(file.ok());
    file_ = *std::move(file);
  }
  template <class T>
  std::vector<T> Read(const std::string& name) const {
    const TensorInfo* const tensor = file_->header().Find(name);
    INFO(name);
    REQUIRE(tensor != nullptr);
    std::vector<T> values((tensor->end - tensor->begin) / sizeof(T));
    std::memcpy(values.data(), text_.data() + file_->header().data_begin + tensor->begin,
                values.size() * sizeof(T));
    return values;
  }

 private:
  PosixFiles files_;
  const std::string text_;
  std::unique_ptr<SafetensorsFile> file_;
};

struct EarlyJob {
  explicit EarlyJob(const std::string& name) : values(kEarly + name + "/values.safetensors") {
    const std::string dir = kEarly + name + "/dir", checkpoints = CheckpointsDirectory(dir);
    const auto names = ListCheckpoints(files, checkpoints);
    REQUIRE(names.ok());
    REQUIRE_FALSE(names->empty());
    LoadRequest load;
    load.set_checkpoint(names->front().ToString());
    const auto read = ReadManifest(files, checkpoints + "/" + load.checkpoint());
    INFO(read.status());
    REQUIRE(read.ok());
    manifest = *read;
    load.set_job_json(manifest.job_json);
    load.mutable_fence()->set_run_id(manifest.run_id);
    load.mutable_fence()->set_generation(manifest.name.generation + 1);
    *load.mutable_plan() = manifest.plan;
    for (const VariableSpec& variable : manifest.variables) *load.add_variables() = variable;
    for (const ManifestPartition& partition : manifest.partitions) {
      *load.add_partitions() = partition.spec;
    }
    const auto loaded = LoadContent(files, dir, MemoryBudget::kUnlimited,
                                    std::make_shared<PinnedBytes>(), memory, damage, load);
    INFO(loaded.status());
    REQUIRE(loaded.ok());
    content = *loaded;
  }
  const VariableSpec& VariableOf(const Partition& partition) const {
    return manifest.variables[partition.facts().variable];
  }

  PosixFiles files;
  MemoryBudget memory;
  KnownDamage damage;
  Exported values;
  Manifest manifest;
  std::shared_ptr<const PartitionSet> content;
};

// Checks a partition's rows of a growing table, and returns their number.
uint64_t CheckGrowingRows(const EarlyJob& job, const Partition& partition) {
  const VariableSpec& table = job.VariableOf(partition);
  const auto all = job.values.Read<uint64_t>(table.name() + "/ids");
  const auto rows = job.values.Read<float>(table.name() + "/rows");
  const uint64_t dim = table.shape(1);
  REQUIRE(rows.size() == all.size() * dim);
  RowIds ids;
  std::vector<float> expected;
  for (size_t i = 0; i < all.size(); ++i) {
    if (ShardOfRow(all[i], table.shape(0)) != partition.facts().row_begin) continue;
    ids.push_back(all[i]);
    const auto row = rows.begin() + static_cast<int64_t>(i * dim);
    expected.insert(expected.end(), row, row + static_cast<int64_t>(dim));
  }
  std::vector<float> pulled(expected.size());
  partition.PullRows(ids, pulled);
  CHECK(pulled == expected);
  CHECK(partition.GetCounts().table->rows() >= ids.size());  // with expired rows
  return ids.size();
}

// Checks a partition whose rows are numbered.
void CheckNumberedRows(const EarlyJob& job, const Partition& partition) {
  const VariableSpec& variable = job.VariableOf(partition);
  const auto all = job.values.Read<float>(variable.name());
  const uint64_t begin = partition.facts().row_begin * RowElements(variable);
  std::vector<float> pulled;
  if (partition.is_table()) {
    pulled.resize(partition.facts().bytes / sizeof(float));
    partition.PullRange(0, pulled);
  } else {
    ChunkRefs chunks;
    partition.Pull(chunks);
    for (const ChunkRef& chunk : chunks) {
      pulled.insert(pulled.end(), chunk.values().begin(), chunk.values().end());
    }
  }
  REQUIRE(begin + pulled.size() <= all.size());
  CHECK(std::ranges::equal(pulled, std::span(all).subspan(begin, pulled.size())));
}

TEST_CASE("checkpoints of tables that an early version wrote restore to the values it had") {
  const std::string name = GENERATE("fixed", "lazy", "growing", "chain");
  CAPTURE(name);
  const EarlyJob job(name);
  CHECK(job.manifest.base.empty() == (name != "chain"));
  uint64_t rows = 0, tables = 0;
  for (const auto& partition : job.content->partitions) {
    CHECK(partition->GetCounts().updates == job.manifest.partitions[partition->facts().id].updates);
    CHECK(partition->GetCounts().updates > 0);
    tables += partition->is_table() ? 1 : 0;
    if (partition->growing()) {
      rows += CheckGrowingRows(job, *partition);
    } else {
      CheckNumberedRows(job, *partition);
    }
  }
  CHECK(tables >= 2);
  if (name == "growing" || name == "chain") CHECK(rows > 10);
}

}  // namespace
}  // namespace paracord
