#include "sim/counting_workload.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "config/data_plan.h"
#include "config/partitions.h"

namespace paracord {
namespace {

constexpr uint64_t kIds = 7;
constexpr char kTest[] = "test";  // name of the only input of the test data

// Returns whether batch `place` of an epoch reads the k-th id.
bool Reads(uint64_t place, uint64_t k) { return k == 0 || Mix64(place, k) % 2 == 0; }

uint64_t HashOf(ConstTensors values) {
  uint64_t hash = 1;
  for (const std::span<const float> tensor : values) {
    hash = Mix64(hash, tensor.size());
    for (const float value : tensor) hash = Mix64(hash, std::bit_cast<uint32_t>(value));
  }
  return hash;
}

uint64_t HashOf(const Batch& batch) {
  const std::vector<float>& facts = batch.inputs[0].values;
  return Mix64(static_cast<uint64_t>(facts[0]), static_cast<uint64_t>(facts[1]));
}

// Returns a multiple of 1/8 between -1 and 1, exact in 16 bits.
float Drawn(uint64_t bits) { return static_cast<float>(static_cast<int>(bits % 17) - 8) / 8; }

class CountingFeed : public BatchFeed {
 public:
  explicit CountingFeed(const CountingOptions& options) : options_(options) {}

  void Start(const DataPlan& plan) override { plan_ = plan; }

  absl::StatusOr<const Batch*> Get(const BatchId& id, std::span<const BatchId>) override {
    const uint64_t place = BatchInEpoch(plan_, id.split(), id.batch());
    if (options_.unreadable.contains(place)) {
      return absl::DataLossError(absl::StrCat("batch ", place, " cannot be read"));
    }
    return &Make(id, batch_);
  }

  // Sometimes returns null, as a feed does that has not read the batch yet.
  const Batch* Peek(const BatchId& id) override {
    const uint64_t place = BatchInEpoch(plan_, id.split(), id.batch());
    const bool there = !options_.unreadable.contains(place) && place % 5 != 3;
    return there ? &Make(id, next_) : nullptr;
  }

 private:
  const Batch& Make(const BatchId& id, Batch& batch) const {
    const uint64_t place = BatchInEpoch(plan_, id.split(), id.batch());
    batch.examples = BatchExamples(plan_, id.split(), id.batch());
    const auto amount = static_cast<float>(uint64_t{1} << (3 * id.epoch()));
    const float bad =
        options_.nonfinite.contains(place) ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
    batch.inputs = {{"", {}, {static_cast<float>(place), amount, bad}}};
    return batch;
  }

  const CountingOptions options_;
  DataPlan plan_;
  Batch batch_, next_;
};

class CountingTest : public DataSource {
 public:
  explicit CountingTest(uint64_t records) : records_(records) {}
  uint64_t records() const override { return records_; }
  std::string fingerprint() const override { return "counting"; }
  const Batch& schema() const override { return schema_; }
  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    batch.examples = static_cast<uint32_t>(records.size());
    batch.inputs = {{kTest, {}, {}}};
    for (const uint64_t record : records) {
      batch.inputs[0].values.push_back(static_cast<float>(record + 1));
    }
    return absl::OkStatus();
  }
  std::string Where(uint64_t record) const override { return absl::StrCat("record ", record); }

 private:
  const uint64_t records_;
  const Batch schema_;
};

class CountingProgram : public GradientProgram {
 public:
  explicit CountingProgram(const CountingOptions& options) : options_(options) {
    for (uint32_t i = 0; i < options.trained + (options.frozen ? 1 : 0); ++i) {
      VariableSpec variable;
      variable.set_name(i < options.trained ? absl::StrCat("counter:", i) : "frozen");
      variable.add_shape(options.rows);
      variable.add_shape(options.batches);
      variable.set_dtype(FLOAT32);
      variable.mutable_initializer()->set_name("zeros");
      variable.set_trainable(i < options.trained);
      if (options.tables && i < options.trained) {
        TableSpec& table = *variable.mutable_table();
        table.set_kind(options.growing ? TableSpec::GROWING : TableSpec::FIXED);
        table.set_lazy(options.lazy);
        table.set_admit_after(options.admit_after);
        table.set_expire_batches(options.expire_batches);
        table.set_rows_max(options.rows_max);
        table.set_candidates(256);
      }
      variables_.push_back(std::move(variable));
    }
  }

  const std::vector<VariableSpec>& variables() const override { return variables_; }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }

  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t, ConstTensors values,
                                          MutableTensors gradients) override {
    const auto place = static_cast<size_t>(batch.inputs[0].values[0]);
    const float amount = batch.inputs[0].values[1];
    const uint64_t seen = options_.mixing ? Mix64(HashOf(values), HashOf(batch)) : 0;
    for (size_t v = gradients.size(); v-- > 0;) {
      for (size_t i = 0; i < gradients[v].size(); ++i) {
        gradients[v][i] = i % options_.batches == place ? -amount : 0.0f;
        if (options_.mixing) gradients[v][i] = Drawn(Mix64(seen, v << 32 | i));
      }
      // The NaN of a nonfinite batch is in the gradient that is computed last.
      if (v == 0) gradients[0][place] += batch.inputs[0].values[2];
      if (there_ && !gradients[v].empty()) there_(v);
    }
    return std::pow(4.0, static_cast<double>(place)) / batch.examples;
  }

  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& batch) override {
    if (!options_.tables) return nullptr;
    if (options_.growing) return GrowingRowsOf(batch);
    auto rows = std::make_shared<TableRows>();
    for (const VariableSpec& variable : variables_) {
      std::vector<uint64_t>& ids = rows->ids.emplace_back();
      for (uint64_t id = 0; variable.has_table() && id < options_.rows; ++id) ids.push_back(id);
    }
    return rows;
  }

  void OnGradient(std::function<void(size_t)> there) override { there_ = std::move(there); }

  // Computes the metric "loss": the number of batches in `values`, weighted with the number of the
  // test record.
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override {
    states.resize(metric_names_.size());
    MetricState& loss = states[0];
    while (loss.values_size() < 2) loss.add_values(0);
    if (options_.mixing) {
      const auto drawn = static_cast<double>(HashOf(values) % 4096);
      for (const float weight : batch.inputs[0].values) {
        loss.set_values(0, loss.values(0) + drawn * static_cast<double>(weight));
      }
      loss.set_values(1, loss.values(1) + batch.examples);
      return absl::OkStatus();
    }
    double digits = 0;
    for (uint32_t i = 0; i < options_.trained; ++i) {
      for (const float value : values[i]) {
        for (auto left = static_cast<uint64_t>(value); left > 0; left >>= 3) {
          digits += static_cast<double>(left & 7);
        }
      }
    }
    const uint64_t rows = values[0].size() / options_.batches;
    const double batches = digits / static_cast<double>(options_.trained * rows);
    for (const float weight : batch.inputs[0].values) {
      loss.set_values(0, loss.values(0) + batches * static_cast<double>(weight));
    }
    loss.set_values(1, loss.values(1) + batch.examples);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Column>> Predict(const Batch&, ConstTensors) override {
    return absl::UnimplementedError("a counting program predicts nothing");
  }

 private:
  std::shared_ptr<const TableRows> GrowingRowsOf(const Batch& batch) const {
    auto rows = std::make_shared<TableRows>();
    std::vector<uint64_t> read;
    std::vector<uint32_t> shards = {0};
    for (uint64_t shard = 0; shard < options_.rows; ++shard) {
      for (uint64_t k = 0; k < kIds; ++k) {
        const uint64_t id = CountingIds()[k];
        const bool test = batch.inputs[0].name == kTest;
        const bool reads =
            test ? k == 0 : Reads(static_cast<uint64_t>(batch.inputs[0].values[0]), k);
        if (reads && ShardOfRow(id, options_.rows) == shard) read.push_back(id);
      }
      std::sort(read.begin() + shards.back(), read.end());
      shards.push_back(static_cast<uint32_t>(read.size()));
    }
    for (const VariableSpec& variable : variables_) {
      rows->ids.push_back(variable.has_table() ? read : std::vector<uint64_t>());
      rows->shards.push_back(variable.has_table() ? shards : std::vector<uint32_t>());
    }
    return rows;
  }

  const CountingOptions options_;
  std::vector<VariableSpec> variables_;
  const std::vector<std::string> metric_names_ = {"loss"};
  std::function<void(size_t)> there_;
};

// Returns whether the ledger has each batch, at index epoch * batches + place.
std::vector<bool> Entered(const DataPlan& plan, const Ledger& ledger) {
  const uint64_t splits = SplitsPerEpoch(plan);
  const uint64_t batches = BatchesPerEpoch(plan);
  std::vector<bool> entered(kCountingEpochsMax * batches, false);
  const auto enter = [&](uint64_t split, uint32_t count) {
    for (uint32_t b = 0; b < count; ++b) {
      entered.at(split / splits * batches + BatchInEpoch(plan, split % splits, b)) = true;
    }
  };
  for (const SplitInterval& interval : ledger.finished()) {
    for (uint64_t s = interval.first(); s <= interval.last(); ++s) {
      enter(s, BatchesInSplit(plan, s % splits));
    }
  }
  for (const OpenSplit& open : ledger.open()) enter(open.split(), open.next());
  return entered;
}

}  // namespace

std::vector<uint64_t> CountingIds() {
  std::vector<uint64_t> ids = {0};
  for (uint64_t k = 1; k < kIds; ++k) ids.push_back(Mix64(k));
  return ids;
}

std::vector<uint64_t> CountingIdsOf(const CountingOptions& options, uint64_t shard) {
  std::vector<uint64_t> ids = CountingIds();
  std::erase_if(ids, [&](uint64_t id) { return ShardOfRow(id, options.rows) != shard; });
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::string CheckGrown(const CountingOptions& options, const DataPlan& plan, const Ledger& ledger,
                       uint64_t shard, std::span<const float> values) {
  const std::vector<bool> entered = Entered(plan, ledger);
  const std::string wrong = CheckCounted(options, plan, ledger, {});
  if (!wrong.empty() || values.empty()) return wrong;
  const std::vector<uint64_t> all = CountingIds();
  for (const uint64_t id : CountingIdsOf(options, shard)) {
    const auto k = static_cast<uint64_t>(std::find(all.begin(), all.end(), id) - all.begin());
    uint64_t applied = 0, read = 0;
    for (uint64_t place = 0; place < options.batches; ++place) {
      const auto value = static_cast<uint64_t>(values[place]);
      if (values[place] < 0 || static_cast<float>(value) != values[place]) {
        return absl::StrCat("element ", place, " of id ", id, " is ", values[place]);
      }
      for (uint64_t epoch = 0; epoch < kCountingEpochsMax; ++epoch) {
        const uint64_t times = value >> (3 * epoch) & 7;
        const bool reads = entered[epoch * options.batches + place] && Reads(place, k);
        if (times > (reads ? 1u : 0u)) {
          return absl::StrCat("batch ", place, " of epoch ", epoch, " is applied ", times,
                              " times to id ", id, reads ? "" : ", which it does not read");
        }
        applied += times;
        read += reads ? 1 : 0;
      }
    }
    values = values.subspan(options.batches);
    if (ledger.rejected() > 0 || options.expire_batches > 0 || options.rows_max > 0) continue;
    const uint64_t before = options.admit_after > 1 ? options.admit_after - 1 : 0;
    if (applied == read - std::min(read, before)) continue;
    return absl::StrCat("id ", id, " has ", applied, " of the ", read, " batches that read it, ",
                        before, " of them before it was admitted");
  }
  return "";
}

double CountingLossPerBatch(uint64_t test_records) {
  return static_cast<double>(test_records + 1) / 2;
}

std::string CheckCounted(const CountingOptions& options, const DataPlan& plan, const Ledger& ledger,
                         std::span<const float> values) {
  const std::vector<bool> entered = Entered(plan, ledger);
  const auto count = static_cast<uint64_t>(std::count(entered.begin(), entered.end(), true));
  if (ledger.applied() + ledger.rejected() != count) {
    return absl::StrCat("a ledger with ", count, " batches has ", ledger.applied(), " applied and ",
                        ledger.rejected(), " rejected");
  }
  if (values.empty()) return "";
  uint64_t applied = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t place = i % options.batches;
    const auto value = static_cast<uint64_t>(values[i]);
    if (values[i] < 0 || static_cast<float>(value) != values[i] || values[i] != values[place]) {
      return absl::StrCat("element ", i, " is ", values[i]);
    }
    for (uint64_t epoch = 0; epoch < kCountingEpochsMax; ++epoch) {
      const uint64_t times = value >> (3 * epoch) & 7;
      const bool has = entered[epoch * options.batches + place];
      if (times > (has ? 1u : 0u)) {
        return absl::StrCat("batch ", place, " of epoch ", epoch, " is applied ", times,
                            has ? " times" : " times and not in the ledger");
      }
      if (i < options.batches) applied += times;
    }
  }
  if (applied == ledger.applied()) return "";
  return absl::StrCat(applied, " batches are applied, the ledger says ", ledger.applied());
}

std::vector<float> CountingGradient(const CountingOptions& options, uint64_t epoch, uint64_t place,
                                    uint64_t elements) {
  std::vector<float> gradient(elements);
  const auto amount = static_cast<float>(uint64_t{1} << (3 * epoch));
  for (uint64_t i = place; i < elements; i += options.batches) gradient[i] = -amount;
  return gradient;
}

Workload MakeCountingWorkload(const CountingOptions& options, uint32_t devices) {
  Workload workload;
  workload.program = std::make_unique<CountingProgram>(options);
  if (devices > 1) {
    std::vector<std::unique_ptr<GradientProgram>> others;
    while (others.size() + 1 < devices)
      others.push_back(std::make_unique<CountingProgram>(options));
    workload.devices =
        std::make_unique<LaneDevices>(*workload.program, std::move(others), CrossDeviceOps::kAuto);
  }
  workload.feed = std::make_unique<CountingFeed>(options);
  if (options.test_records > 0) {
    workload.test = std::make_unique<CountingTest>(options.test_records);
  }
  JobFacts& facts = workload.facts;
  facts.set_records(options.records);
  facts.set_test_records(options.test_records);
  facts.set_fingerprint("counting");
  for (const VariableSpec& variable : workload.program->variables()) {
    *facts.add_variables() = variable;
  }
  for (const std::string& name : workload.program->metric_names()) facts.add_metric_names(name);
  return workload;
}

}  // namespace paracord
