#include "data/batch_loader.h"

#include <atomic>
#include <catch2/catch.hpp>

namespace paracord {
namespace {

// A source in which record r has the feature r. Some records are unreadable.
class CountingSource : public DataSource {
 public:
  uint64_t records() const override { return 1000; }
  std::string fingerprint() const override { return "counting"; }
  const Batch& schema() const override { return schema_; }
  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    batch.examples = static_cast<uint32_t>(records.size());
    batch.inputs.resize(1);
    batch.inputs[0].values.clear();
    for (const uint64_t record : records) {
      if (record == bad) return absl::DataLossError(Where(record));
      batch.inputs[0].values.push_back(static_cast<float>(record));
    }
    return absl::OkStatus();
  }
  std::string Where(uint64_t record) const override { return "row " + std::to_string(record); }

  uint64_t bad = ~uint64_t{0};

 private:
  Batch schema_;
};

BatchLoader::Sequence Count(uint64_t first, uint64_t batches) {
  return [=](uint64_t index, std::vector<uint64_t>& records) {
    if (index < batches) records = {first + 2 * index, first + 2 * index + 1};
    return uint64_t{0};
  };
}

float FirstValue(const absl::StatusOr<const Batch*>& batch) {
  REQUIRE(batch.ok());
  REQUIRE(*batch != nullptr);
  return (*batch)->inputs[0].values[0];
}

TEST_CASE("batches come in the order of the sequence and end with it") {
  CountingSource source;
  for (size_t depth : {0u, 1u, 2u, 5u}) {
    BatchLoader loader(source, depth);
    CHECK(*loader.Next() == nullptr);
    loader.Start(Count(10, 20));
    for (int i = 0; i < 20; ++i) CHECK(FirstValue(loader.Next()) == Approx(10 + 2 * i));
    CHECK(*loader.Next() == nullptr);
    CHECK(*loader.Next() == nullptr);
  }
}

TEST_CASE("batches can be looked at before their turn") {
  CountingSource source;
  source.bad = 16;
  BatchLoader loader(source, 2);
  CHECK(loader.Peek(0) == nullptr);  // no sequence was started
  loader.Start(Count(10, 5));
  const Batch* const second = loader.Peek(1);
  CHECK(FirstValue(second) == Approx(12));
  CHECK(FirstValue(loader.Peek(0)) == Approx(10));
  CHECK(FirstValue(loader.Next()) == Approx(10));
  CHECK(loader.Peek(0) == second);
  CHECK(FirstValue(loader.Peek(1)) == Approx(14));
  CHECK(*loader.Next() == second);
  CHECK(loader.Peek(1) == nullptr);  // the batch is unreadable
  CHECK(FirstValue(loader.Next()) == Approx(14));
  CHECK_FALSE(loader.Next().ok());
  CHECK(FirstValue(loader.Peek(0)) == Approx(18));
  CHECK(loader.Peek(1) == nullptr);  // the sequence has ended
}

TEST_CASE("a restart drops what was prepared") {
  CountingSource source;
  BatchLoader loader(source, 3);
  for (uint64_t start = 0; start < 50; ++start) {
    loader.Start(Count(start, 5));
    for (uint64_t i = 0; i < start % 4; ++i) {
      CHECK(FirstValue(loader.Next()) == static_cast<float>(start + 2 * i));
    }
  }
}

TEST_CASE("a sequence that was over goes on when it has batches again") {
  CountingSource source;
  std::atomic<uint64_t> left = 0, next = 0;  // the loader's thread reads them until the loader ends
  BatchLoader loader(source, 2);
  loader.Start([&](uint64_t, std::vector<uint64_t>& records) {
    if (left > 0) {
      --left;
      records = {next++};
    }
    return uint64_t{0};
  });
  for (uint64_t i = 0; i < 200; ++i) {
    CHECK(*loader.Next() == nullptr);
    ++left;
    loader.GoOn();
    CHECK(FirstValue(loader.Next()) == static_cast<float>(i));
  }
}

TEST_CASE("an error comes in the place of its batch") {
  CountingSource source;
  source.bad = 5;
  BatchLoader loader(source, 2);
  loader.Start(Count(0, 5));
  CHECK(FirstValue(loader.Next()) == 0);
  CHECK(FirstValue(loader.Next()) == 2);
  const auto bad = loader.Next();
  CHECK(bad.status().message() == "row 5");
  CHECK(FirstValue(loader.Next()) == 6);
}

TEST_CASE("a loader can be destroyed while it prepares") {
  CountingSource source;
  for (int i = 0; i < 20; ++i) {
    BatchLoader loader(source, 4);
    loader.Start(Count(0, 1000));
    if (i % 2 == 0) CHECK(FirstValue(loader.Next()) == 0);
  }
}

}  // namespace
}  // namespace paracord
