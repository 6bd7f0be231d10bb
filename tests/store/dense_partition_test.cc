#include "store/dense_partition.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

TEST_CASE("an image of a dense partition has the values of the moment when it refers to them") {
  const Optimizer optimizer = *ParseOptimizer({"sgd", {{"learning_rate", 1.0}, {"momentum", 0.5}}});
  const bool copied = GENERATE(false, true);
  PartitionContents contents{.value = Block(4), .slots = {}, .ledger = {}};
  contents.value.Fill(5);
  FillSlots(optimizer, contents);
  DensePartition partition({.id = 0, .name = "v", .shape = {4}, .trained = true, .bytes = 16},
                           optimizer, std::move(contents));
  const std::vector<float> ones(4, 1.0f);
  const Gradient gradient = *Gradient::Read(
      ENCODING_FLOAT32, 4, absl::Cord({reinterpret_cast<const char*>(ones.data()), 16}));
  const auto push = [&](uint32_t batch) {
    return partition.Push({.split = 0, .batch = batch, .split_batches = 9}, false, gradient);
  };
  CHECK(push(0).outcome == PUSH_APPLIED);  // values 4, momenta -1
  const std::unique_ptr<PartitionImage> image = partition.NewImage(copied, {});
  image->Refer();
  CHECK(push(1).outcome == PUSH_APPLIED);
  image->Copy();
  CHECK(push(2).outcome == PUSH_APPLIED);
  CHECK(image->counts().ledger.applied() == 1);
  std::vector<float> written;
  REQUIRE(image
              ->Write([&](std::string_view bytes) {
                const auto* const floats = reinterpret_cast<const float*>(bytes.data());
                written.insert(written.end(), floats, floats + bytes.size() / sizeof(float));
                return absl::OkStatus();
              })
              .ok());
  CHECK(written == std::vector<float>{4, 4, 4, 4, -1, -1, -1, -1});
}

}  // namespace
}  // namespace paracord
