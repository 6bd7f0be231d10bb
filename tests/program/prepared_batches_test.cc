#include "program/prepared_batches.h"

#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace paracord {
namespace {

// Ten records with their number as the only feature. `read` records the reads.
class NumberedRecords : public DataSource {
 public:
  explicit NumberedRecords(std::multiset<uint64_t>& read) : read_(read) {}
  uint64_t records() const override { return 10; }
  std::string fingerprint() const override { return "numbered"; }
  const Batch& schema() const override { return schema_; }
  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    batch.examples = static_cast<uint32_t>(records.size());
    batch.inputs = {{"", {}, {static_cast<float>(records[0])}}};
    read_.insert(records[0]);
    return absl::OkStatus();
  }
  std::string Where(uint64_t record) const override { return std::to_string(record); }

 private:
  std::multiset<uint64_t>& read_;
  Batch schema_;
};

BatchId Id(uint64_t split, uint32_t batch) {
  BatchId id;
  id.set_split(split);
  id.set_batch(batch);
  return id;
}

// A feed with batches of one record and splits of five batches.
struct FeedFixture {
  FeedFixture() {
    DataPlan plan;
    plan.set_records(10);
    plan.set_batch(1);
    plan.set_split_batches(5);
    feed->Start(plan);
  }
  // Returns the number of the batch in the epoch.
  float Get(const BatchId& id, std::vector<BatchId> upcoming = {}) {
    const absl::StatusOr<const Batch*> batch = feed->Get(id, upcoming);
    REQUIRE(batch.ok());
    return (*batch)->inputs[0].values[0];
  }
  float Peek(const BatchId& id) {
    const Batch* const batch = feed->Peek(id);
    return batch == nullptr ? -1 : batch->inputs[0].values[0];
  }

  std::multiset<uint64_t> read;  // written by the feed's thread
  std::unique_ptr<BatchFeed> feed =
      MakePreparedBatches(std::make_unique<NumberedRecords>(read), /*depth=*/2);
};

TEST_CASE("the batches that are said to come are read once, in whatever order of splits") {
  FeedFixture test;
  CHECK(test.Get(Id(0, 0), {Id(1, 0), Id(0, 1), Id(1, 1)}) == 0);
  CHECK(test.Peek(Id(1, 0)) == 5);
  CHECK(test.Peek(Id(0, 1)) == 1);
  CHECK(test.Peek(Id(1, 1)) == -1);  // too far ahead
  CHECK(test.Get(Id(1, 0), {Id(0, 1), Id(1, 1)}) == 5);
  CHECK(test.Get(Id(0, 1), {Id(1, 1)}) == 1);
  CHECK(test.Peek(Id(1, 1)) == 6);
  CHECK(test.Get(Id(1, 1)) == 6);
  test.feed.reset();
  CHECK(test.read == std::multiset<uint64_t>{0, 1, 5, 6});
}

TEST_CASE("what is said to come may change, and what is asked for comes all the same") {
  FeedFixture test;
  CHECK(test.Get(Id(0, 0), {Id(0, 1), Id(0, 2)}) == 0);
  CHECK(test.Get(Id(0, 1), {Id(1, 0), Id(0, 2)}) == 1);
  CHECK(test.Peek(Id(1, 0)) == 5);
  CHECK(test.Get(Id(1, 0), {}) == 5);
  CHECK(test.Get(Id(1, 3), {Id(1, 4)}) == 8);
  CHECK(test.Get(Id(0, 4), {Id(1, 0)}) == 4);
  CHECK(test.Get(Id(1, 0)) == 5);
}

TEST_CASE("after a time in which nothing was said to come the feed prepares again") {
  FeedFixture test;
  CHECK(test.Get(Id(0, 0)) == 0);
  CHECK(test.Peek(Id(0, 1)) == -1);
  CHECK(test.Get(Id(0, 1), {Id(0, 2)}) == 1);
  CHECK(test.Peek(Id(0, 2)) == 2);
  CHECK(test.Get(Id(0, 2), {Id(0, 3), Id(0, 4)}) == 2);
  CHECK(test.Peek(Id(0, 4)) == 4);
}

TEST_CASE("a batch that the plan has not is an error, and those after it come") {
  FeedFixture test;
  CHECK(test.Get(Id(1, 4), {Id(2, 0), Id(0, 0)}) == 9);
  const std::vector<BatchId> upcoming = {Id(0, 0)};
  const absl::Status error = test.feed->Get(Id(2, 0), upcoming).status();
  CHECK(error.message() == "the data plan has no batch 0 in split 2");
  CHECK(test.Get(Id(0, 0)) == 0);
}

}  // namespace
}  // namespace paracord
