// A snapshot of a synchronous job takes each partition at the cut, without holding up training.
#include "store/snapshot.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/data_plan.h"
#include "storage/safetensors.h"
#include "store/dense_partition.h"
#include "tests/fakes.h"
#include "tests/floats.h"
#include "tests/watched_files.h"

namespace paracord {
namespace {

// A partition with rounds of one batch. Images wait as the test says.
class RoundPartition : public DensePartition {
 public:
  RoundPartition(uint32_t id, const Optimizer& optimizer, bool trained = true)
      : DensePartition({.id = id,
                        .name = "v" + std::to_string(id),
                        .shape = {4},
                        .trained = trained,
                        .bytes = 16},
                       optimizer, Zeros()) {}
  static PartitionContents Zeros() {
    PartitionContents contents{.value = Block(4), .slots = {}, .ledger = {}};
    contents.value.Fill(0);
    return contents;
  }
  void Round() {
    const std::vector<float> ones(4, 1.0f);
    const Gradient gradient = *Gradient::Read(
        ENCODING_FLOAT32, 4, absl::Cord({reinterpret_cast<const char*>(ones.data()), 16}));
    const PlanBatch batch{.split = 0, .batch = static_cast<uint32_t>(state), .split_batches = 99};
    REQUIRE(Push(batch, false, gradient).outcome == PUSH_APPLIED);
    if (++state != waits_for_ || image_ == nullptr) return;
    image_->Refer();
    image_ = nullptr;
    referred_();
  }
  absl::Status ReferAt(uint64_t wanted, PartitionImage& image,
                       std::function<void()> referred) override {
    if (wanted < state) return absl::OutOfRangeError("it is past the cut");
    image_ = &image;
    waits_for_ = wanted;
    referred_ = std::move(referred);
    if (wanted > state) return absl::OkStatus();
    image_ = nullptr;
    image.Refer();
    referred_();
    return absl::OkStatus();
  }
  void ForgetImage() override { image_ = nullptr; }
  bool waits() const { return image_ != nullptr; }

  uint64_t state = 0;

 private:
  uint64_t waits_for_ = 0;
  PartitionImage* image_ = nullptr;
  std::function<void()> referred_;
};

struct Rounds {
  Rounds() {
    content.optimizer = *ParseOptimizer({"sgd", {{"learning_rate", 1.0}}});
    content.sync = true;
    for (uint32_t id = 0; id < 3; ++id) {
      auto partition = std::make_unique<RoundPartition>(id, content.optimizer, /*trained=*/id != 2);
      partitions.push_back(partition.get());
      content.partitions.push_back(std::move(partition));
    }
  }
  std::unique_ptr<SnapshotTask> Task(uint64_t round = 1) {
    const PsFileIdentity identity{
        .run_id = "run", .generation = 1, .round = round, .ps = 0, .ps_count = 1, .boot_id = "b"};
    return std::make_unique<SnapshotTask>(
        files, content, SnapshotOrder{.identity = identity, .directory = directory / ""}, copies,
        voided);
  }
  std::function<void()> Counts() {
    return [this] { ++taken; };
  }

  TestDirectory directory;
  PosixFiles files;
  MemoryShare copies;
  std::atomic<bool> voided = false;
  PartitionSet content;
  std::vector<RoundPartition*> partitions;
  int taken = 0;
};

TEST_CASE("a cut has every partition at its state, whenever each comes to it") {
  Rounds test;
  test.partitions[0]->Round();
  const auto task = test.Task();
  REQUIRE(task->TakeAt(2, test.Counts()).ok());
  CHECK(test.copies.bytes() == 3 * 16);
  test.partitions[0]->Round();
  test.partitions[0]->Round();
  test.partitions[1]->Round();
  CHECK(test.taken == 0);
  test.partitions[1]->Round();
  CHECK(test.taken == 1);
  test.partitions[1]->Round();
  const absl::StatusOr<SnapshotReply> reply = task->Write();
  REQUIRE(reply.ok());
  REQUIRE(reply->partitions_size() == 3);
  CHECK(reply->partitions(0).ledger().applied() == 2);
  CHECK(reply->partitions(1).ledger().applied() == 2);
  const auto file = SafetensorsFile::Open(test.files, test.directory / reply->file());
  REQUIRE(file.ok());
  for (const auto& [name, value] :
       std::map<std::string, float>{{"v0", -2}, {"v1", -2}, {"v2", 0}}) {
    std::vector<float> values(4);
    REQUIRE((*file)->ReadElements(*(*file)->header().Find(name), 0, values).ok());
    CHECK(values == std::vector<float>(4, value));
  }
  CHECK(test.copies.bytes() == 0);
}

TEST_CASE("a cut that all have come to is taken at once") {
  Rounds test;
  for (RoundPartition* const partition : {test.partitions[0], test.partitions[1]}) {
    partition->Round();
  }
  const auto task = test.Task();
  REQUIRE(task->TakeAt(1, test.Counts()).ok());
  CHECK(test.taken == 1);
  CHECK(task->Write().ok());
}

TEST_CASE("a cut that some partition is past is refused, and no other waits for it any more") {
  Rounds test;
  for (int round = 0; round < 3; ++round) test.partitions[1]->Round();
  const auto task = test.Task();
  CHECK(absl::IsOutOfRange(task->TakeAt(2, test.Counts())));
  task->Forget();
  CHECK_FALSE(test.partitions[0]->waits());
  CHECK(test.copies.bytes() == 0);
  test.partitions[0]->Round();
  test.partitions[0]->Round();
  CHECK(test.taken == 0);
}

TEST_CASE("what is void waits no more, and leaves a newer cut alone") {
  Rounds test;
  auto old = test.Task(1);
  REQUIRE(old->TakeAt(1, test.Counts()).ok());
  int fresh = 0;
  const auto newer = test.Task(2);
  REQUIRE(newer->TakeAt(2, [&] { ++fresh; }).ok());
  old->Forget();
  old = nullptr;
  for (int round = 0; round < 2; ++round) {
    test.partitions[0]->Round();
    test.partitions[1]->Round();
  }
  CHECK(test.taken == 0);
  CHECK(fresh == 1);
  CHECK(newer->Write().ok());
  auto voided = test.Task(3);
  REQUIRE(voided->TakeAt(3, test.Counts()).ok());
  voided = nullptr;
  CHECK_FALSE(test.partitions[0]->waits());
  test.voided = true;
  CHECK(absl::IsAborted(test.Task(4)->TakeAt(3, test.Counts())));
  CHECK_FALSE(test.partitions[0]->waits());
}

// Files that call `interrupt` when a file is created.
class InterruptedFiles : public PosixFiles {
 public:
  explicit InterruptedFiles(std::function<void()> interrupt) : interrupt_(std::move(interrupt)) {}
  absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string& path) override {
    interrupt_();
    return PosixFiles::Create(path);
  }

 private:
  const std::function<void()> interrupt_;
};

TEST_CASE("a push while a snapshot is written changes values where they are") {
  constexpr uint64_t kElements = kChunkElements + 1000;
  PartitionSet content;
  content.optimizer = ParseOptimizer({"sgd", {{"momentum", 0.9}}}).value();
  PartitionContents contents{.value = Block(kElements), .slots = {}, .ledger = {}};
  contents.value.Fill(1.0f);
  FillSlots(content.optimizer, contents);
  content.partitions.push_back(std::make_unique<DensePartition>(
      Partition::Facts{0, "v", {kElements}, true, kElements * sizeof(float)}, content.optimizer,
      std::move(contents)));
  content.trained = 1;
  auto& partition = dynamic_cast<DensePartition&>(*content.partitions[0]);
  const auto places = [&] {
    ChunkRefs chunks;
    partition.Pull(chunks);
    return std::pair(chunks.at(0).values().data(), chunks.at(1).values().data());
  };
  const auto before = places();
  InterruptedFiles files([&] {
    DataPlan plan;
    plan.set_records(10);
    plan.set_batch(1);
    plan.set_split_batches(10);
    const Floats gradient(kElements, 1.0f);
    const Gradient read = *Gradient::Read(ENCODING_FLOAT32, kElements, CordOf(gradient));
    REQUIRE(partition.Push(*FindBatch(plan, BatchId()), false, read).outcome == PUSH_APPLIED);
  });
  const TestDirectory directory;
  MemoryShare copies;
  const std::atomic<bool> voided = false;
  const auto write = [&](Files& where) {
    SnapshotTask task(where, content, {{"run", 1, 1, 0, 1, "boot"}, directory / ""}, copies,
                      voided);
    REQUIRE(task.TakeNow().ok());
    return task.Write();
  };
  const auto written = write(files);
  REQUIRE(written.ok());
  CHECK(places() == before);
  ChunkRefs chunks;
  CHECK(partition.Pull(chunks) == 1);
  CHECK(chunks.at(1).values().back() != 1.0f);
  const auto file = SafetensorsFile::Open(files, directory / written->file());
  REQUIRE(file.ok());
  Floats values(kElements);
  const auto tensor = [&](std::string_view name) { return *(*file)->header().Find(name); };
  REQUIRE((*file)->ReadElements(tensor("v"), 0, values).ok());
  CHECK(values == Floats(kElements, 1.0f));
  const std::string slot = SlotTensorName("v", content.optimizer.slots[0].name);
  REQUIRE((*file)->ReadElements(tensor(slot), 0, values).ok());
  CHECK(values == Floats(kElements, 0.0f));
  content.pushes = 1;  // held for ever, so the snapshot stops giving way
  PosixFiles undisturbed;
  CHECK(write(undisturbed).ok());
}

}  // namespace
}  // namespace paracord
