// Measures reads and updates of rows without network: of a growing table by 64-bit ids, and of a
// partition of a fixed table; and restores of both from checkpoints.
//   bench_rows [--keys N] [--dim N] [--rounds N] [--dir DIR]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/counter_random.h"
#include "common/mix.h"
#include "common/parallel.h"
#include "common/prefetch.h"
#include "config/flags.h"
#include "measure.h"
#include "restore_rows.h"
#include "store/row_memory.h"
#include "store/table_partition.h"

namespace paracord::bench {
namespace {

constexpr size_t kBatch = 4096;  // ids in a call
constexpr size_t kCallsOfRun = 64;
constexpr size_t kPushed = 30000;  // rows in a push during an image
constexpr double kBesideSeconds = 3;
constexpr uint32_t kSplitBatches = 1u << 30;
constexpr int kRestoresMax = 3;

Optimizer Adagrad() { return ParseOptimizer({"adagrad", nlohmann::json::object()}).value(); }

// Returns the n-th id of the table.
uint64_t IdOf(uint64_t n) { return Mix64(n); }

// Returns distinct random numbers below `keys`.
std::vector<uint64_t> Draw(uint64_t keys, uint64_t& counter) {
  std::vector<uint64_t> numbers;
  while (numbers.size() < std::min<uint64_t>(kBatch, keys / 2)) {
    while (numbers.size() < std::min<uint64_t>(kBatch, keys / 2)) {
      numbers.push_back(RandomBits(1, counter++) % keys);
    }
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  }
  std::ranges::sort(numbers, {}, [](uint64_t n) { return Mix64(n); });
  return numbers;
}

struct Batches {
  explicit Batches(uint64_t keys) {
    uint64_t counter = 0;
    for (size_t i = 0; i < 4 * kCallsOfRun; ++i) all.push_back(Draw(keys, counter));
  }
  const std::vector<uint64_t>& Next() { return all[next++ % all.size()]; }
  std::vector<std::vector<uint64_t>> all;
  size_t next = 0;
};

double MillionsASecond(const Timing& timing) {
  return static_cast<double>(kBatch * kCallsOfRun) / timing.median / 1e6;
}

// Returns the bytes a row that a table takes beside the row's value and its slot of Adagrad.
double BytesBeside(uint64_t bytes, uint64_t rows, uint64_t dim) {
  return static_cast<double>(bytes) / static_cast<double>(rows) -
         static_cast<double>(2 * dim * sizeof(float));
}

// Prints the bytes of a delta image as a percentage of a full image.
void Delta(GrowingTable& table, uint64_t keys, uint64_t& step, std::span<const float> gradients) {
  const CheckpointName base{.step = step, .generation = 1, .round = 1};
  const auto now = static_cast<uint32_t>(step - 1);
  table.changes().Mark(base, {}, now, 0, table.counts().rows);
  uint64_t counter = uint64_t{1} << 40;
  for (uint64_t touched = 0; touched < keys / 100; ++step) {
    std::vector<uint64_t> ids = Draw(keys, counter);
    ids.resize(std::min<uint64_t>(ids.size(), keys / 100 - touched));
    touched += ids.size();
    for (uint64_t& id : ids) id = IdOf(id);
    table.Update(step, ids, gradients);
  }
  const double begin = Seconds();
  const auto undo =
      std::make_shared<UndoLog>(table.records().memory(), table.records().rows(), nullptr);
  table.BeginImage(undo);
  uint64_t words = 0;
  std::vector<float> part;
  for (uint64_t group = 0; group < undo->groups(); ++group) {
    if (!undo->Read(group, part).ok()) std::abort();
    table.records().KeepLive(part, table.now(), ChangedBound(now, table.now()));
    words += part.size();
  }
  const double seconds = Seconds() - begin;
  table.BeginImage(nullptr);
  if (words != table.changes().SinceImage(base)->changed * table.record_words()) std::abort();
  const uint64_t all = table.counts().rows * table.record_words();
  PrintGoal("bytes of a checkpoint with 1 % of the rows touched",
            100 * static_cast<double>(words) / static_cast<double>(all), Bound::kAtMost, 5,
            "% of a full one");
  std::printf("looking through all rows for them: %.2f s\n", seconds);
}

// Records in huge pages, read and changed at random places with nothing else to do: the machine's
// limit for tables that do not fit in a cache.
class PlainRecords {
 public:
  PlainRecords(uint64_t records, uint64_t floats) : floats_(floats), memory_(floats, records) {
    for (const std::span<float> some : memory_.AppendMany(records)) std::ranges::fill(some, 0.5f);
  }

  // Copies the first floats of the records that `ids` lead to.
  void Read(std::span<const uint64_t> ids, std::span<float> out) const {
    const size_t some = out.size() / ids.size();
    ForRecords(ids, some, [&](size_t i, const float* record) {
      std::copy_n(record, some, out.data() + i * some);
    });
  }
  void Add(std::span<const uint64_t> ids) {
    ForRecords(ids, floats_, [&](size_t, float* record) {
      for (uint64_t f = 0; f < floats_; ++f) record[f] += 1;
    });
  }

 private:
  template <class Use>
  void ForRecords(std::span<const uint64_t> ids, size_t floats, const Use& use) const {
    constexpr size_t kAhead = 16, kPart = 512, kLine = 16;
    ParallelFor((ids.size() + kPart - 1) / kPart, [&](size_t part) {
      const auto record = [&](size_t i) {
        return memory_.Row(static_cast<uint32_t>(ids[i] % memory_.rows()));
      };
      const size_t end = std::min(ids.size(), (part + 1) * kPart);
      for (size_t i = part * kPart; i < end; ++i) {
        if (i + kAhead < end) {
          const float* const at = record(i + kAhead);
          for (size_t f = 0; f < floats; f += kLine) PrefetchToRead(at + f);
        }
        use(i, record(i));
      }
    });
  }

  const uint64_t floats_;
  RowMemory memory_;
};

// Prints what share of the machine's limit a way reaches.
void PrintShare(const std::string& what, const Timing& timing, const Timing& limit) {
  std::printf("  %s: %.2fx of %.2f M/s, which is what records without a table reach\n",
              what.c_str(), limit.median / timing.median, MillionsASecond(limit));
}

void Growing(uint64_t keys, uint64_t dim, int rounds) {
  GrowingTableOptions options;
  options.variable.set_name("table");
  options.variable.add_shape(1);
  options.variable.add_shape(dim);
  options.variable.mutable_initializer()->set_name("random_uniform");
  options.optimizer = Adagrad();
  const auto table = GrowingTable::Make(options).value();
  std::vector<float> gradients(kBatch * dim, 0.01f);
  uint64_t step = 0;
  const double begin = Seconds();
  for (uint64_t n = 0; n < keys;) {
    std::vector<uint64_t> ids;
    for (; n < keys && ids.size() < kBatch; ++n) ids.push_back(IdOf(n));
    table->Update(step++, ids, gradients);
  }
  std::printf("%.1f M rows created, %.2f M/s\n", static_cast<double>(keys) / 1e6,
              static_cast<double>(keys) / (Seconds() - begin) / 1e6);
  PrintGoal("bytes of a growing table beside values and slots",
            BytesBeside(table->bytes(), keys, dim), Bound::kAtMost, 23, "a row");
  Batches batches(keys);
  for (auto& batch : batches.all) {
    for (uint64_t& id : batch) id = IdOf(id);
  }
  std::vector<float> rows(kBatch * dim);
  PlainRecords plain(keys, 2 * dim);
  const auto each_batch = [&](const auto& use) {
    return [&, use] {
      for (size_t i = 0; i < kCallsOfRun; ++i) use(batches.Next());
    };
  };
  const std::vector<Way> ways = {
      {"lookup", each_batch([&](const auto& ids) { table->Lookup(ids, rows); })},
      {"update", each_batch([&](const auto& ids) { table->Update(step++, ids, gradients); })},
      {"read", each_batch([&](const auto& ids) { plain.Read(ids, rows); })},
      {"add", each_batch([&](const auto& ids) { plain.Add(ids); })}};
  const std::vector<Timing> timings = TakeTurns(ways, rounds);
  PrintGoal("lookups of a growing table", MillionsASecond(timings[0]), Bound::kAtLeast, 25, "M/s");
  PrintGoal("Adagrad updates of a growing table", MillionsASecond(timings[1]), Bound::kAtLeast, 20,
            "M/s");
  PrintShare("lookups", timings[0], timings[2]);
  PrintShare("updates", timings[1], timings[3]);
  Delta(*table, keys, step, gradients);
  PrintResult({.name = "growing_lookup", .value = MillionsASecond(timings[0]), .unit = "M rows/s"});
  PrintResult({.name = "growing_update", .value = MillionsASecond(timings[1]), .unit = "M rows/s"});
}

// A partition of a fixed table, and pushes to it.
class FixedRows {
 public:
  FixedRows(uint64_t rows, uint64_t dim)
      : dim_(dim), batches_(rows), gradients_(kPushed * dim, 0.01f) {
    const Optimizer optimizer = Adagrad();
    TableContents contents;
    const std::vector<uint64_t> shape = {rows, dim};
    contents.fixed = std::make_unique<FixedTable>(optimizer, shape, 0, /*trained=*/true);
    const PlacedIn<float> place = contents.fixed->PlaceOf(contents.fixed->columns()[0]);
    const std::vector<float> some(kBatch * dim, 0.5f);
    for (uint64_t done = 0; done < place.size; done += some.size()) {
      place.Put(done, std::span(some).first(std::min<uint64_t>(some.size(), place.size - done)));
    }
    contents.fixed->FillSlots();
    partition_ =
        std::make_unique<TablePartition>(Partition::Facts{.id = 0,
                                                          .name = "v",
                                                          .shape = shape,
                                                          .trained = true,
                                                          .bytes = place.size * sizeof(float)},
                                         1, std::move(contents));
    for (auto& batch : batches_.all) std::ranges::sort(batch);
  }

  const TablePartition& partition() const { return *partition_; }
  const std::vector<uint64_t>& Next() { return batches_.Next(); }
  void Push(const RowIds& ids) {
    PartitionUpdate update;
    update.rows = ids;
    update.gradient = Gradient(absl::MakeCordFromExternal(
        absl::string_view(reinterpret_cast<const char*>(gradients_.data()),
                          ids.size() * dim_ * sizeof(float)),
        [](absl::string_view) {}));
    if (partition_->Push({0, next_++, kSplitBatches}, false, update, {}).outcome != PUSH_APPLIED) {
      std::abort();
    }
  }

 private:
  const uint64_t dim_;
  Batches batches_;
  const std::vector<float> gradients_;
  std::unique_ptr<TablePartition> partition_;
  uint32_t next_ = 0;
};

// Writes an image, drops the data, and returns their size.
uint64_t WriteImage(const TablePartition& partition, const ImageOrder& order = {}) {
  const std::unique_ptr<PartitionImage> image = partition.NewImage(/*copied=*/false, order);
  uint64_t bytes = 0;
  image->Refer();
  const absl::Status written = image->Write([&](std::string_view more) {
    bytes += more.size();
    return absl::OkStatus();
  });
  if (!written.ok()) std::abort();
  return bytes;
}

// The mean and the longest time of a push of 30,000 rows, in ms.
struct Pushes {
  double mean = 0, longest = 0;
};
Pushes TimePushes(FixedRows& table, uint64_t rows, uint64_t& draw) {
  Pushes pushes;
  int count = 0;
  for (const double end = Seconds() + kBesideSeconds; Seconds() < end; ++count) {
    RowIds ids;
    while (ids.size() < std::min<uint64_t>(kPushed, rows / 2)) {
      ids.push_back(RandomBits(2, draw++) % rows);
    }
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    const double begin = Seconds();
    table.Push(ids);
    const double took = 1e3 * (Seconds() - begin);
    pushes.mean += took;
    pushes.longest = std::max(pushes.longest, took);
  }
  pushes.mean /= count;
  return pushes;
}

// Times pushes of rows during images and without.
void Beside(FixedRows& table, uint64_t rows) {
  uint64_t draw = 0;
  const Pushes without = TimePushes(table, rows, draw);
  std::atomic<bool> stop = false;
  std::thread images([&] {
    while (!stop) {
      WriteImage(table.partition());
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
  });
  const Pushes beside = TimePushes(table, rows, draw);
  stop = true;
  images.join();
  std::printf("pushes of %zu rows: mean %.2f ms and longest %.1f ms, beside images %.2f and %.1f\n",
              kPushed, without.mean, without.longest, beside.mean, beside.longest);
  PrintGoal("longest push beside an image", beside.longest, Bound::kAtMost, 10, "ms");
  PrintGoal("mean push beside an image", beside.mean / without.mean, Bound::kAtMost, 2,
            "x of one without");
}

void FixedDelta(FixedRows& table, uint64_t rows, uint64_t dim) {
  const CheckpointName base{.step = 1, .generation = 1, .round = 1};
  const uint64_t all = WriteImage(table.partition(), {.own = base});
  for (uint64_t touched = 0; touched < rows / 100;) {
    RowIds ids = table.Next();
    ids.resize(std::min<uint64_t>(ids.size(), rows / 100 - touched));
    touched += ids.size();
    table.Push(ids);
  }
  const double begin = Seconds();
  const uint64_t some = WriteImage(table.partition(), {.base = base});
  const double seconds = Seconds() - begin;
  std::printf("the changed rows of %.1f M gathered in %.3f s\n", static_cast<double>(rows) / 1e6,
              seconds);
  PrintGoal("bytes of a fixed table beside values and slots",
            BytesBeside(table.partition().resident_bytes(), rows, dim), Bound::kAtMost, 0.3,
            "a row");
  PrintGoal("bytes of a checkpoint with 1 % of a fixed table's rows touched",
            100 * static_cast<double>(some) / static_cast<double>(all), Bound::kAtMost, 2,
            "% of a full one");
}

void Fixed(uint64_t rows, uint64_t dim, int rounds) {
  FixedRows table(rows, dim);
  std::vector<float> values(kBatch * dim);
  const auto push = [&] {
    for (size_t i = 0; i < kCallsOfRun; ++i) table.Push(table.Next());
  };
  const auto pull = [&] {
    for (size_t i = 0; i < kCallsOfRun; ++i) table.partition().PullRows(table.Next(), values);
  };
  PlainRecords plain(rows, 2 * dim);
  const auto read = [&] {
    for (size_t i = 0; i < kCallsOfRun; ++i) plain.Read(table.Next(), values);
  };
  const auto add = [&] {
    for (size_t i = 0; i < kCallsOfRun; ++i) plain.Add(table.Next());
  };
  const std::vector<Timing> timings =
      TakeTurns({{"pull", pull}, {"push", push}, {"read", read}, {"add", add}}, rounds);
  PrintGoal("rows pulled of a fixed table", MillionsASecond(timings[0]), Bound::kAtLeast, 10,
            "M/s");
  PrintGoal("rows pushed with Adagrad", MillionsASecond(timings[1]), Bound::kAtLeast, 25, "M/s");
  PrintShare("pulls", timings[0], timings[2]);
  PrintShare("pushes", timings[1], timings[3]);
  Beside(table, rows);
  FixedDelta(table, rows, dim);
  PrintResult({.name = "fixed_pull", .value = MillionsASecond(timings[0]), .unit = "M rows/s"});
  PrintResult({.name = "fixed_push", .value = MillionsASecond(timings[1]), .unit = "M rows/s"});
}

int Main(int argc, char** argv) {
  int64_t keys = 10000000;
  int64_t dim = 32;
  int64_t rounds = 9;
  std::string where;
  Flags flags("bench_rows", "Reads, updates and restores rows without network.");
  flags.Integer("keys", "N", "rows of the tables", 10000, 1000000000, &keys);
  flags.Integer("dim", "N", "elements of a row", 1, 4096, &dim);
  flags.Integer("rounds", "N", "repetitions", 1, 1000, &rounds);
  flags.String("dir", "DIR", "for checkpoints of half the rows; default: the temporary directory",
               &where);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  PrintMachine();
  SetParallelThreads(static_cast<int>(std::min(2u, std::thread::hardware_concurrency())));
  Growing(static_cast<uint64_t>(keys), static_cast<uint64_t>(dim), static_cast<int>(rounds));
  Fixed(static_cast<uint64_t>(keys), static_cast<uint64_t>(dim), static_cast<int>(rounds));
  MeasureRestores(static_cast<uint64_t>(keys) / 2, static_cast<uint64_t>(dim),
                  std::min(static_cast<int>(rounds), kRestoresMax), where);
  return 0;
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
