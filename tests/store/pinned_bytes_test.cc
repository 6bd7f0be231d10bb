#include "store/pinned_bytes.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "config/data_plan.h"
#include "store/dense_partition.h"
#include "store/partition_set.h"
#include "tests/floats.h"

namespace paracord {
namespace {

constexpr uint64_t kFirst = kChunkElements * sizeof(float);  // size of the first chunk
constexpr uint64_t kSecond = 40000;                          // size of the second
constexpr uint64_t kPinnedElements = kChunkElements + kSecond / sizeof(float);

// A partition with two chunks.
struct PinningPartition {
  PinningPartition() {
    const Optimizer optimizer = ParseOptimizer({"sgd", {{"learning_rate", 1.0}}}).value();
    PartitionContents contents{.value = Block(kPinnedElements), .slots = {}, .ledger = {}};
    contents.value.Fill(0.0f);
    partition = std::make_unique<DensePartition>(
        Partition::Facts{0, "v", {kPinnedElements}, true, kPinnedElements * sizeof(float)},
        optimizer, std::move(contents), pinned);
    plan.set_records(1000000);
    plan.set_batch(1);
    plan.set_split_batches(1000000);
  }
  void Push(const Gradient& gradient) {
    BatchId id;
    id.set_batch(next++);
    REQUIRE(partition->Push(*FindBatch(plan, id), false, gradient).outcome == PUSH_APPLIED);
  }
  void Push() {
    const Floats ones(kPinnedElements, 1.0f);
    Push(*Gradient::Read(ENCODING_FLOAT32, kPinnedElements, CordOf(ones)));
  }
  ChunkRefs Chunks() const {
    ChunkRefs chunks;
    partition->Pull(chunks);
    return chunks;
  }
  std::vector<PulledChunk> Pull() const { return Pull(Chunks()); }
  std::vector<PulledChunk> Pull(ChunkRefs chunks) const {
    std::vector<PulledChunk> pulled;
    for (ChunkRef& chunk : chunks) pulled.emplace_back(std::move(chunk), pinned);
    return pulled;
  }

  const std::shared_ptr<PinnedBytes> pinned = std::make_shared<PinnedBytes>(kFirst);
  std::unique_ptr<DensePartition> partition;
  DataPlan plan;
  uint32_t next = 0;
};

TEST_CASE("a chunk counts from its replacement to the end of its last pull") {
  PinningPartition store;
  const uint64_t all = kFirst + kSecond;
  store.Push();
  CHECK(store.pinned->bytes() == 0);  // the update was in place

  auto first = store.Pull();
  auto second = store.Pull();
  CHECK(store.pinned->bytes() == 0);
  store.Push();
  CHECK(store.pinned->bytes() == all);
  store.Push();  // replaces chunks that no reader pins
  CHECK(store.pinned->bytes() == all);
  auto third = store.Pull();
  CHECK(store.pinned->bytes() == all);
  store.Push();
  CHECK(store.pinned->bytes() == 2 * all);
  first.clear();
  CHECK(store.pinned->bytes() == 2 * all);
  second.pop_back();
  CHECK(store.pinned->bytes() == 2 * all - kSecond);
  CHECK(store.pinned->OverLimit());
  second.clear();
  third.clear();
  CHECK(store.pinned->bytes() == 0);
  CHECK_FALSE(store.pinned->OverLimit());
}

TEST_CASE("a snapshot does not count, nor does it hide a pull of the same chunk") {
  PinningPartition store;
  auto image = std::make_unique<DensePartition::Image>(store.partition->TakeImage());
  store.Push();
  CHECK(store.pinned->bytes() == 0);
  *image = store.partition->TakeImage();
  auto pulled = store.Pull();
  store.Push();
  CHECK(store.pinned->bytes() == kFirst + kSecond);
  SECTION("let go first") {
    image = nullptr;
    CHECK(store.pinned->bytes() == kFirst + kSecond);
    pulled.clear();
  }
  SECTION("let go last") { pulled.clear(); }
  CHECK(store.pinned->bytes() == 0);
}

TEST_CASE("only chunks that changed count, also if the pull begins when they have") {
  PinningPartition store;
  const ChunkRefs chunks = store.Chunks();
  std::string entry(8, '\0');  // a top-k entry: index 0, then a value
  const float value = 1.0f;
  std::memcpy(entry.data() + 4, &value, sizeof(value));
  store.Push(*Gradient::Read(ENCODING_TOP_K, kPinnedElements, absl::Cord(entry)));
  CHECK(store.pinned->bytes() == 0);
  auto pulled = store.Pull(chunks);
  CHECK(store.pinned->bytes() == kFirst);
  auto again = store.Pull(chunks);
  CHECK(store.pinned->bytes() == kFirst);
  pulled.clear();
  CHECK(store.pinned->bytes() == kFirst);
  // The chunks of a destroyed partition count as replaced. Replies may outlive the partition.
  store.partition = nullptr;
  CHECK(store.pinned->bytes() == kFirst + kSecond);
  again.clear();
  CHECK(store.pinned->bytes() == 0);
}

TEST_CASE("pulls that begin and end on many threads while chunks are replaced add up to nothing") {
  PinningPartition store;
  std::atomic<int> fell{0};
  store.pinned->Watch([&] { ++fell; });
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      std::vector<std::vector<PulledChunk>> held;
      while (!stop) {
        held.push_back(store.Pull());
        if (held.size() == 3) held.erase(held.begin());
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    store.Push();
    if (i % 10 == 0) store.pinned->RaiseLimit();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(store.pinned->bytes() == 0);
  CHECK_FALSE(store.pinned->OverLimit());
  // The limit has not changed.
  auto pulled = store.Pull();
  store.Push();
  CHECK(store.pinned->OverLimit());
  fell = 0;
  CHECK(store.pinned->Wait(0));
  pulled.clear();
  CHECK(fell == 1);
}

TEST_CASE("what is forgiven is forgiven only for as long as it is held") {
  PinningPartition store;
  const auto version = [&] {
    auto pulled = store.Pull();
    store.Push();
    return pulled;
  };
  auto stuck = version();
  CHECK(store.pinned->OverLimit());
  store.pinned->RaiseLimit();
  CHECK_FALSE(store.pinned->OverLimit());
  auto other = version();
  CHECK(store.pinned->OverLimit());
  int fell = 0;
  store.pinned->Watch([&] { ++fell; });
  CHECK(store.pinned->Wait(0));
  other.clear();
  CHECK_FALSE(store.pinned->OverLimit());
  CHECK(fell == 1);
  stuck.clear();
  other = version();
  CHECK(store.pinned->OverLimit());
}

TEST_CASE("bytes are reserved if they fit, alone also beyond the limit, and copies take them") {
  const auto pinned =
      std::make_shared<PinnedBytes>(std::make_shared<MemoryShare>(/*bytes_max=*/100, /*spare=*/50));
  CHECK_FALSE(pinned->Reserve(151));
  {
    REQUIRE(pinned->Reserve(150));  // allowed, since nothing else is reserved
    PinnedReservation reserved(150, pinned);
    CHECK(pinned->OverLimit());
    CHECK_FALSE(pinned->Reserve(1));
    const PulledCopy copy(40, pinned, &reserved);
    CHECK(pinned->bytes() == 150);
    CHECK_FALSE(reserved.Take(111));
  }
  CHECK(pinned->bytes() == 0);
  REQUIRE(pinned->Reserve(60));
  const PinnedReservation held(60, pinned);
  CHECK(pinned->Fits(40));
  CHECK_FALSE(pinned->Fits(41));
  CHECK(pinned->Fits(0));
  CHECK(pinned->bytes() == 60);
}

}  // namespace
}  // namespace paracord
