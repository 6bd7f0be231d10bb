// Trains the examples' models on made-up data: after a few steps all tensor-sized memory exists,
// and further steps allocate none, including batches.
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "config/job.h"
#include "data/batch_loader.h"
#include "data/memory_files.h"
#include "keras/build.h"
#include "keras/model_testing.h"
#include "steady/counted_malloc.h"
#include "tensor/cpu/cpu_ops.h"

namespace paracord {
namespace {

// The smallest allocation that counts, below all activations of these models for a batch.
constexpr size_t kTensorBytes = 16 << 10;

std::string IdxOf(const std::vector<uint32_t>& shape, const std::string& elements) {
  std::string file{0, 0, 8, static_cast<char>(shape.size())};
  for (const uint32_t dim : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(dim >> shift);
  }
  return file + elements;
}

// Makes files with the names in the jobs below.
void MakeData(MemoryFiles& files) {
  constexpr uint32_t kImages = 640;
  std::mt19937 random(1);
  std::string images(kImages * 28 * 28, '\0'), labels(kImages, '\0'), text, reviews;
  for (char& c : images) c = static_cast<char>(random());
  for (char& c : labels) c = static_cast<char>(random() % 10);
  for (int i = 0; i < 30000; ++i) text += static_cast<char>('a' + random() % 26);
  for (int line = 0; line < 640; ++line) {
    reviews += line % 2 == 0 ? "bad\t" : "good\t";
    for (int word = 0; word < 50; ++word) reviews += "w" + std::to_string(random() % 5000) + " ";
    reviews += "\n";
  }
  files.contents = {{"/x", IdxOf({kImages, 28, 28}, images)},
                    {"/y", IdxOf({kImages}, labels)},
                    {"/text", text},
                    {"/reviews", reviews}};
}

Job ExampleJob(const std::string& path, nlohmann::json data) {
  PosixFiles files;
  absl::StatusOr<Job> job = ReadJobFile(files, PARACORD_SOURCE_DIR "/examples/" + path);
  INFO(job.status());
  REQUIRE(job.ok());
  for (const auto& [key, value] : data.items()) job->train.options[key] = value;
  job->train.options.erase("part");
  return *std::move(job);
}

void CheckSteady(const Job& job, int threads) {
  MemoryFiles files;
  MakeData(files);
  auto opened = OpenDataSource(files, job.train);
  INFO(opened.status());
  REQUIRE(opened.ok());
  const DataSource& source = **opened;
  auto built = BuildKerasProgram(job, source.schema(), MakeCpuOps(threads));
  INFO(built.status());
  REQUIRE(built.ok());
  Variables variables(**built);
  variables.Initialise(1);
  BatchLoader loader(source, /*depth=*/2);
  loader.Start([&](uint64_t index, std::vector<uint64_t>& records) {
    records.resize(job.batch);
    std::iota(records.begin(), records.end(), index * job.batch % (source.records() - job.batch));
    return index;
  });
  const auto step = [&](uint64_t key) {
    const absl::StatusOr<const Batch*> batch = loader.Next();
    if (!batch.ok() || *batch == nullptr) return false;
    return (*built)
        ->ComputeGradients(**batch, key, variables.value_spans(), variables.gradient_spans())
        .ok();
  };
  // Batches are prepared ahead. After kBefore steps each buffer has been used.
  constexpr uint64_t kBefore = 4, kCounted = 3;
  for (uint64_t key = 0; key < kBefore; ++key) REQUIRE(step(key));
  StartCounting(kTensorBytes);
  bool good = true;
  for (uint64_t key = kBefore; key < kBefore + kCounted; ++key) good = step(key) && good;
  const LargeAllocations seen = StopCounting();
  CHECK(good);
  CAPTURE(seen.largest);
  CHECK(seen.count == 0);
}

TEST_CASE("allocations of all kinds are counted") {
  StartCounting(1000);
  std::vector<std::vector<char>> held;
  held.emplace_back(2000);
  held.emplace_back(500);
  void* const c = std::calloc(100, 30);
  void* const a = std::aligned_alloc(64, 6400);
  const LargeAllocations seen = StopCounting();
  CHECK(c != nullptr);
  CHECK(a != nullptr);
  std::free(c);
  std::free(a);
  CHECK(seen.count == 3);
  CHECK(seen.largest == 6400);
}

TEST_CASE("a steady step of the image classifier allocates no tensor") {
  CheckSteady(ExampleJob("fashion-mnist/cnn.json", {{"features", "/x"}, {"labels", "/y"}}),
              /*threads=*/2);
}

TEST_CASE("a steady step of ResNet-18 allocates no tensor") {
  Job job = ExampleJob("fashion-mnist/resnet18.json", {{"features", "/x"}, {"labels", "/y"}});
  job.batch = 2;  // small, to save time; its tensors are still large
  CheckSteady(job, /*threads=*/1);
}

TEST_CASE("a steady step of the LSTM allocates no tensor") {
  CheckSteady(ExampleJob("sentiment/job.json", {{"files", "/reviews"}}), /*threads=*/1);
}

TEST_CASE("a steady step of the Transformer allocates no tensor") {
  CheckSteady(ExampleJob("shakespeare/job.json", {{"files", "/text"}}), /*threads=*/1);
}

}  // namespace
}  // namespace paracord
