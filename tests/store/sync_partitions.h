// Partitions of all kinds with rounds, and a reference for each: a partition of a job without
// rounds that applies the naive mean of each round as one batch.
#pragma once

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/counter_random.h"
#include "config/data_plan.h"
#include "config/partitions.h"
#include "store/partition_maker.h"
#include "tests/batches.h"
#include "tests/store/fixed_rows.h"

namespace paracord {

// A gradient by rows; nullopt: none for the partition. A dense gradient is row 0 with all elements.
using SyncGradient = std::optional<std::map<uint64_t, std::vector<float>>>;

struct SyncLane {
  SyncGradient gradient;
  bool rejected = false;
};

struct SyncKind {
  std::string name;
  NamedSpec optimizer;
  VariableSpec variable;
  bool table() const { return variable.has_table(); }
  bool growing() const { return IsGrowing(variable); }
  bool lazy() const { return growing() || variable.table().lazy(); }
  uint64_t width() const { return table() ? variable.shape(1) : 30; }
  // The number of ids that gradients may have.
  uint64_t rows() const { return growing() ? 40 : table() ? variable.shape(0) : 1; }
};

inline SyncKind DenseKind(std::string name, NamedSpec optimizer, double moving_average = 0) {
  SyncKind kind{std::move(name), std::move(optimizer), {}};
  kind.variable.set_name("v");
  kind.variable.add_shape(30);
  kind.variable.set_trainable(true);
  kind.variable.set_moving_average(moving_average);
  return kind;
}

inline SyncKind TableKind(std::string name, NamedSpec optimizer, TableSpec::Kind of, bool lazy) {
  SyncKind kind{std::move(name), std::move(optimizer), {}};
  kind.variable.set_name("v");
  kind.variable.add_shape(of == TableSpec::GROWING ? 1 : 12);
  kind.variable.add_shape(3);
  kind.variable.set_trainable(true);
  kind.variable.mutable_initializer()->set_name("random_uniform");
  kind.variable.mutable_table()->set_kind(of);
  kind.variable.mutable_table()->set_lazy(lazy);
  return kind;
}

inline std::vector<SyncKind> SyncKinds() {
  const NamedSpec adam{"adam", {{"use_ema", true}, {"ema_overwrite_frequency", 3}}};
  std::vector<SyncKind> kinds = {
      DenseKind("momentum", {"sgd", {{"momentum", 0.9}}}),
      DenseKind("adam", adam),
      DenseKind("average", {"sgd"}, 0.9),
      TableKind("fixed", {"sgd"}, TableSpec::FIXED, false),
      TableKind("lazy", {"adam"}, TableSpec::FIXED, true),
      TableKind("expiring", {"adam"}, TableSpec::GROWING, true),
      TableKind("bounded", {"adagrad"}, TableSpec::GROWING, true),
  };
  kinds[5].variable.mutable_table()->set_expire_batches(7);
  kinds[6].variable.mutable_table()->set_rows_max(9);
  kinds[6].variable.mutable_table()->set_admit_after(2);
  return kinds;
}

class SyncDraws {
 public:
  explicit SyncDraws(uint64_t key) : key_(key) {}
  uint64_t Below(uint64_t end) { return RandomBits(key_, draw_++) % end; }
  SyncGradient GradientFor(const SyncKind& kind) {
    if (Below(6) == 0) return std::nullopt;
    SyncGradient gradient(std::in_place);
    const bool all = !kind.table() || (!kind.lazy() && Below(3) == 0);
    for (uint64_t row = 0; row < kind.rows(); ++row) {
      if (!all && Below(4) != 0) continue;
      std::vector<float>& values = (*gradient)[row];
      for (uint64_t i = 0; i < kind.width(); ++i) {
        values.push_back(static_cast<float>(RandomNormal(key_, draw_++)));
      }
    }
    return gradient;
  }
  std::vector<SyncLane> LanesFor(const SyncKind& kind, uint32_t lanes) {
    const bool none = Below(8) == 0;
    std::vector<SyncLane> drawn(lanes);
    for (SyncLane& lane : drawn) lane = {GradientFor(kind), none || Below(6) == 0};
    return drawn;
  }
  std::vector<uint32_t> Order(uint32_t count) {
    std::vector<uint32_t> order(count);
    for (uint32_t i = 0; i < count; ++i) order[i] = i;
    for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[Below(i)]);
    return order;
  }

 private:
  const uint64_t key_;
  uint64_t draw_ = 0;
};

// Returns an update that owns its bytes.
inline PartitionUpdate UpdateOf(const SyncKind& kind, const SyncGradient& gradient) {
  if (!gradient.has_value()) return {};
  PartitionUpdate update;
  RowIds ids;
  std::string bytes;
  for (const auto& [id, values] : *gradient) {
    ids.push_back(id);
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  const bool all = !kind.lazy() && ids.size() == kind.rows();
  if (kind.table() && !all) update.rows = ids;
  update.gradient = Gradient(absl::Cord(bytes));
  return update;
}

// Returns the sum over lanes by the definition of the tree.
inline SyncGradient NaiveSum(const std::vector<SyncLane>& lanes, size_t first, size_t count) {
  if (count == 1) {
    return first < lanes.size() && !lanes[first].rejected ? lanes[first].gradient : std::nullopt;
  }
  const SyncGradient left = NaiveSum(lanes, first, count / 2);
  const SyncGradient right = NaiveSum(lanes, first + count / 2, count / 2);
  if (!left.has_value() || !right.has_value()) return left.has_value() ? left : right;
  SyncGradient sum = left;
  for (const auto& [id, values] : *right) {
    const auto [row, only_right] = sum->try_emplace(id, values);
    for (size_t i = 0; !only_right && i < values.size(); ++i) row->second[i] += values[i];
  }
  return sum;
}

// A partition in a synchronous job, or its reference.
class SyncPartition {
 public:
  // `sync` false: the reference without lanes, whose rows expire after fewer updates.
  SyncPartition(const SyncKind& kind, const DataPlan& plan, bool sync, bool keeps_before = true,
                const NormClip& clip = {})
      : kind_(kind) {
    const uint64_t expire = kind.variable.table().expire_batches();
    if (!sync) {
      kind_.variable.mutable_table()->set_expire_batches(DivideUp(expire, plan.lanes()));
      if (!kind.table()) kind_.variable.clear_table();
    }
    content_.plan = sync ? plan : PlanOf(100000, 1, 100000);
    content_.sync = sync;
    if (clip.on()) content_.clip = RoundClip{clip, /*whole=*/{false}, /*alone=*/false};
    content_.optimizer = ParseOptimizer(kind.optimizer).value();
    maker_.emplace(content_, keeps_before, /*seed=*/5, nullptr);
    partition_ = Make(PartitionLedger(), std::nullopt);
  }

  Partition& operator*() { return *partition_; }
  Partition* operator->() { return partition_.get(); }

  // Restores the partition from its own tensors, as from a checkpoint. Dense partitions only.
  void Restore() {
    const auto tensors = TensorsOf(*partition_);
    const Partition::Counts counts = partition_->GetCounts();
    const auto ledger = PartitionLedger::FromProto(counts.ledger.ToProto(true), content_.plan);
    partition_ = Make(ledger.value(), tensors, counts.updates);
  }

  absl::StatusOr<std::unique_ptr<Partition>> TryMake(const PartitionLedger& ledger) const {
    PartitionContents contents{.value = Block(kind_.width()), .slots = {}, .ledger = ledger};
    contents.value.Fill(0);
    FillSlots(maker_->OptimizerOf(kind_.variable), contents);
    return maker_->Make(kind_.variable, Spec(), std::move(contents));
  }

  // Returns update count and values, now or at a state, of all rows that gradients have.
  absl::StatusOr<std::pair<uint64_t, std::vector<float>>> ValuesAt(Partition::AtState state) {
    std::vector<float> values(kind_.rows() * kind_.width());
    absl::StatusOr<uint64_t> updates = 0;
    if (kind_.growing()) {
      RowIds ids(kind_.rows());
      for (uint64_t id = 0; id < ids.size(); ++id) ids[id] = id;
      updates = partition_->PullRowsAt(state, ids, values);
    } else if (kind_.table()) {
      updates = partition_->PullRangeAt(state, 0, values);
    } else {
      ChunkRefs chunks;
      updates = partition_->PullAt(state, chunks);
      if (updates.ok()) std::ranges::copy(chunks.at(0).values(), values.begin());
    }
    if (!updates.ok()) return updates.status();
    return std::pair(*updates, values);
  }

 private:
  PartitionSpec Spec() const {
    PartitionSpec spec;
    spec.set_id(3);
    spec.set_name("v/part_0");
    spec.set_row_end(kind_.variable.shape(0));
    return spec;
  }
  std::unique_ptr<Partition> Make(const PartitionLedger& ledger,
                                  const std::optional<std::map<std::string, std::string>>& tensors,
                                  uint64_t updates = 0) const {
    if (kind_.growing()) {
      TableContents contents{
          .table = maker_->MakeShard(kind_.variable).value(), .fixed = {}, .ledger = ledger};
      return maker_->Make(kind_.variable, Spec(), std::move(contents)).value();
    }
    const Optimizer own = maker_->OptimizerOf(kind_.variable);
    if (kind_.table()) {
      TableContents contents{
          .table = {},
          .fixed = std::make_unique<FixedTable>(own, PartitionShape(kind_.variable, Spec()), 0,
                                                /*trained=*/true),
          .ledger = ledger};
      const PlacedIn<float> values = contents.fixed->PlaceOf(contents.fixed->columns()[0]);
      values.Put(0, std::vector<float>(values.size, 0.5f));
      contents.fixed->FillSlots();
      return maker_->Make(kind_.variable, Spec(), std::move(contents)).value();
    }
    PartitionContents contents{
        .value = Block(kind_.width()), .slots = {}, .ledger = ledger, .updates = updates};
    contents.value.Fill(0.5f);
    FillSlots(own, contents);
    const auto take = [&](const std::string& name, Block& block) {
      const std::string& bytes = tensors->at(name);
      std::vector<float> values(bytes.size() / sizeof(float));
      std::memcpy(values.data(), bytes.data(), bytes.size());
      block.Assign(values);
    };
    if (tensors.has_value()) {
      take("v/part_0", contents.value);
      for (size_t s = 0; s < own.slots.size(); ++s) {
        take(SlotTensorName("v/part_0", own.slots[s].name), contents.slots[s]);
      }
    }
    return maker_->Make(kind_.variable, Spec(), std::move(contents)).value();
  }

  SyncKind kind_;
  PartitionSet content_;
  std::optional<PartitionMaker> maker_;
  std::unique_ptr<Partition> partition_;
};

// The reference of a partition and of its ledger.
class PlainRounds {
 public:
  PlainRounds(const SyncKind& kind, const DataPlan& plan)
      : kind_(kind), plan_(plan), partition_(kind, plan, /*sync=*/false) {}

  // `clipnorm`: norm to which the mean is clipped; 0: none.
  void Apply(uint64_t state, const std::vector<SyncLane>& lanes, double clipnorm = 0) {
    const uint64_t rounds = RoundsPerEpoch(plan_);
    uint64_t examples = 0;
    for (uint32_t lane = 0; lane < lanes.size(); ++lane) {
      const auto batch = static_cast<uint32_t>(state % rounds);
      ledger_.Enter(*FindBatch(plan_, BatchOf(state / rounds, lane, batch)), lanes[lane].rejected);
      if (!lanes[lane].rejected) examples += BatchExamples(plan_, lane, batch);
    }
    if (examples == 0) return;
    ledger_.CountStep();
    SyncGradient mean = NaiveSum(lanes, 0, std::bit_ceil(lanes.size()));
    const auto factor =
        static_cast<float>(static_cast<double>(plan_.batch()) / static_cast<double>(examples));
    if (mean.has_value()) {
      for (auto& [id, values] : *mean) {
        for (float& value : values) value *= factor;
      }
      if (clipnorm > 0) Clip(*mean, clipnorm);
    }
    const PlanBatch batch{.split = 0, .batch = steps_++, .split_batches = 100000};
    REQUIRE(partition_->Push(batch, false, UpdateOf(kind_, mean), {}).outcome == PUSH_APPLIED);
  }

  // Checks that a partition has the reference's bits and ledger.
  void Check(SyncPartition& partition) {
    REQUIRE(TensorsOf(*partition) == TensorsOf(*partition_));
    const Partition::Counts counts = partition->GetCounts(), own = partition_->GetCounts();
    REQUIRE(counts.ledger.ToProto(true).SerializeAsString() ==
            ledger_.ToProto(true).SerializeAsString());
    REQUIRE(counts.updates == own.updates);
    REQUIRE(counts.healthy);
    if (!counts.table.has_value()) return;
    REQUIRE(counts.table->admitted() == own.table->admitted());
    REQUIRE(counts.table->expired() == own.table->expired());
    REQUIRE(counts.table->evicted() == own.table->evicted());
    REQUIRE(counts.table->dropped() == own.table->dropped());
  }
  uint64_t updates() { return partition_->GetCounts().updates; }

 private:
  // Clips like one whole gradient, with fewer elements than a block of squares.
  static void Clip(std::map<uint64_t, std::vector<float>>& mean, double clipnorm) {
    double sums[8] = {}, all = 0;
    size_t place = 0;
    for (const auto& [id, values] : mean) {
      for (const float value : values) {
        sums[place++ % 8] += static_cast<double>(value) * static_cast<double>(value);
      }
    }
    for (const double sum : sums) all += sum;
    if (std::sqrt(all) <= clipnorm) return;
    const auto factor = static_cast<float>(clipnorm / std::sqrt(all));
    for (auto& [id, values] : mean) {
      for (float& value : values) value *= factor;
    }
  }

  const SyncKind kind_;
  const DataPlan plan_;
  SyncPartition partition_;
  PartitionLedger ledger_;
  uint32_t steps_ = 0;
};

}  // namespace paracord
