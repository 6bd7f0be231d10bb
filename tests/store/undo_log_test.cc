// Images of rows that change during the reading.
#include "store/undo_log.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "common/counter_random.h"
#include "store/table_partition.h"

namespace paracord {
namespace {

constexpr uint64_t kFireRows = 4096, kFireWidth = 35, kFireThreads = 4;

// Rows whose elements count the writes to the row. Threads write disjoint rows, as in a push.
// Whoever holds all locks excludes writers.
class Fire {
 public:
  Fire() {
    for (const std::span<float> part : memory_.AppendMany(kFireRows)) std::ranges::fill(part, 0.0f);
    for (uint64_t t = 0; t < kFireThreads; ++t) threads_.emplace_back([this, t] { Write(t); });
  }
  ~Fire() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  // Reads an image. Returns the number of rows that differ from the image's beginning.
  int WrongRows() {
    auto undo = std::make_unique<UndoLog>(memory_, kFireRows, &share_);
    std::vector<float> counts;
    Quietly([&] {
      undo->Begin();
      undo_ = undo.get();
      for (uint32_t row = 0; row < kFireRows; ++row) counts.push_back(*memory_.Row(row));
    });
    int wrong = 0;
    uint64_t row = 0;
    std::vector<float> words;
    for (uint64_t group = 0; group < undo->groups(); ++group) {
      // Each group must meet writers, however few CPUs there are.
      for (const uint64_t before = pushes_; pushes_ == before;) std::this_thread::yield();
      REQUIRE(undo->Read(group, words).ok());
      if (undo->Pass(group)) Quietly([&] { undo->Recycle(); });
      for (uint64_t at = 0; at < words.size(); at += kFireWidth, ++row) {
        const float* const begin = &words[at];
        const auto is_right = [&](float word) { return word == counts[row]; };
        if (!std::all_of(begin, begin + kFireWidth, is_right)) ++wrong;
      }
    }
    REQUIRE(row == kFireRows);
    CHECK(share_.bytes() > 0);
    Quietly([&] { undo_ = nullptr; });
    undo = nullptr;
    CHECK(share_.bytes() == 0);
    return wrong;
  }

 private:
  template <class Do>
  void Quietly(const Do& act) {
    for (std::mutex& mu : mu_) mu.lock();
    act();
    for (std::mutex& mu : mu_) mu.unlock();
  }
  void Write(uint64_t thread) {
    for (uint64_t draw = 0; !stop_; std::this_thread::yield()) {
      const std::lock_guard<std::mutex> lock(mu_[thread]);
      UndoLog* const undo = undo_;
      const uint64_t unread = undo == nullptr ? 0 : undo->first_unread();
      for (int i = 0; i < 64; ++i) {
        const uint64_t row = RandomBits(thread, draw++) % (kFireRows / kFireThreads);
        const auto own = static_cast<uint32_t>(row * kFireThreads + thread);
        if (undo != nullptr) undo->BeforeWrite(own, unread);
        for (uint64_t word = 0; word < kFireWidth; ++word) memory_.Row(own)[word] += 1;
      }
      ++pushes_;
    }
  }

  RowMemory memory_{kFireWidth};
  MemoryShare share_;
  std::array<std::mutex, kFireThreads> mu_;
  UndoLog* undo_ = nullptr;  // read under any lock, set under all locks
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> pushes_ = 0;
  std::vector<std::thread> threads_;
};

// Returns the number of wrong rows in so many images.
int WrongRowsOf(int images) {
  Fire fire;
  int wrong = 0;
  for (int image = 0; image < images; ++image) wrong += fire.WrongRows();
  return wrong;
}

TEST_CASE("an image that is read without a lock has every row as it was, under fire") {
  CHECK(WrongRowsOf(100) == 0);
}

TEST_CASE("10,000 images that are read without a lock have every row as it was", "[.slow]") {
  CHECK(WrongRowsOf(10000) == 0);
}

// A table with one shard, whose rows are all pushed at once.
class Pushed {
 public:
  explicit Pushed(uint64_t rows) {
    VariableSpec variable;
    variable.set_name("user");
    variable.add_shape(1);
    variable.add_shape(kDim);
    variable.mutable_initializer()->set_name("zeros");
    variable.mutable_table()->set_kind(TableSpec::GROWING);
    TableContents contents;
    contents.table =
        MakeTableOfShard(variable, ParseOptimizer({"sgd", {{"learning_rate", 1.0}}}).value(), 1)
            .value();
    partition = std::make_unique<TablePartition>(
        Partition::Facts{
            .id = 0, .name = "user/part_0", .shape = {1, kDim}, .trained = true, .row_begin = 0},
        1, std::move(contents));
    for (uint64_t id = 0; id < rows; ++id) ids.push_back(id);
    Push();
    Push();
  }

  Outcome Push() {
    const std::vector<float> values(ids.size() * kDim, -1.0f);
    PartitionUpdate update;
    update.rows = ids;
    update.gradient = Gradient(absl::Cord(absl::string_view(
        reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))));
    return partition->Push({0, batch_++, 1000}, false, update, {});
  }
  float First() const {
    std::vector<float> row(kDim);
    partition->PullRows(std::vector<uint64_t>{0}, row);
    return row[0];
  }
  // Writes an image. Returns its bytes.
  absl::StatusOr<std::string> Written(PartitionImage& image) {
    std::string bytes;
    const absl::Status written = image.Write([&](std::string_view more) {
      bytes += more;
      return absl::OkStatus();
    });
    if (!written.ok()) return written;
    return bytes;
  }

  static constexpr uint64_t kDim = 8;
  std::unique_ptr<TablePartition> partition;
  RowIds ids;

 private:
  uint32_t batch_ = 0;
};

TEST_CASE(
    "where old rows find no room, a push waits, and then the image ends and training goes on") {
  Pushed table(20000);
  MemoryShare share(200000);
  const auto image = table.partition->NewImage(false, {.snapshots = &share, .push_wait_ms = 20});
  image->Refer();
  CHECK(share.bytes() > 0);
  CHECK(share.bytes() < 100000);
  CHECK(table.Push().outcome == PUSH_APPLIED);
  CHECK(table.First() == 3);
  CHECK(share.bytes() <= 200000);
  const auto written = table.Written(*image);
  INFO(written.status());
  CHECK(absl::IsResourceExhausted(written.status()));
  CHECK(absl::StrContains(written.status().message(), "user/part_0: rows changed faster"));
  CHECK(absl::StrContains(written.status().message(), "the share \"snapshots\""));
  CHECK(table.Push().outcome == PUSH_APPLIED);
  SECTION("and the next image is whole where there is room") {
    const auto next = table.partition->NewImage(false, {.snapshots = nullptr});
    next->Refer();
    CHECK(table.Written(*next).ok());
  }
}

TEST_CASE("a push that waits for room goes on as the image is read, which is as it was") {
  Pushed table(20000);
  MemoryShare share(200000);
  const auto image = table.partition->NewImage(false, {.snapshots = &share, .push_wait_ms = 60000});
  image->Refer();
  std::thread pushes([&] {
    for (int i = 0; i < 3; ++i) table.Push();
  });
  const auto written = table.Written(*image);
  pushes.join();
  INFO(written.status());
  REQUIRE(written.ok());
  CHECK(table.First() == 5);
  const uint64_t record = image->tensors()[0].shape[1];
  REQUIRE(written->size() == table.ids.size() * record);
  int wrong = 0;
  for (size_t at = 0; at < written->size(); at += record) {
    float value = 0;
    std::memcpy(&value, &(*written)[at + record - sizeof value], sizeof value);
    if (value != 2) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("an image that is given up gives its memory back") {
  Pushed table(20000);
  MemoryShare share(uint64_t{64} << 20);
  {
    const auto image = table.partition->NewImage(false, {.snapshots = &share});
    image->Refer();
    table.Push();
    CHECK(share.bytes() > 20000 * 40);
  }
  CHECK(share.bytes() == 0);
  table.Push();
  CHECK(table.First() == 4);
}

}  // namespace
}  // namespace paracord
