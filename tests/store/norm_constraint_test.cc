// Compares norm constraints with results of Keras 3 (keras.constraints).
#include "store/norm_constraint.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "store/dense_partition.h"
#include "tests/floats.h"

namespace paracord {
namespace {

NormConstraint Norm(double least, double most, double rate, std::vector<uint32_t> axes) {
  NormConstraint norm;
  norm.set_least(least);
  norm.set_most(most);
  norm.set_rate(rate);
  for (const uint32_t axis : axes) norm.add_axes(axis);
  return norm;
}

struct Case {
  NormConstraint norm;
  Floats keras;
};

// The cases constrain the values (0, ..., 11) / 4 - 1.25 of shape (3, 2, 2).
std::vector<Case> Cases() {
  return {
      // MaxNorm(1, axis=0)
      {Norm(0, 1, 1, {0}),
       {-0.8451541662f, -0.7071067095f, -0.5070924759f, -0.3015113175f, -0.1690308303f, 0,
        0.1690308303f, 0.3015113175f, 0.5070924759f, 0.7071067095f, 0.8451541662f, 0.9045339823f}},
      // MaxNorm(1.5, axis=[0, 1])
      {Norm(0, 1.5, 1, {0, 1}),
       {-0.8964214325f, -0.6882472038f, -0.5378528833f, -0.3441236019f, -0.1792842895f, 0,
        0.1792842895f, 0.3441236019f, 0.5378528833f, 0.6882472038f, 0.8964214325f, 1.0323708057f}},
      // UnitNorm(axis=1)
      {Norm(1, 1, 1, {1}),
       {-0.8574928641f, -0.8944270611f, -0.5144957304f, -0.4472135305f, -0.7071065903f, 0,
        0.7071065903f, 0.9999997616f, 0.5144957304f, 0.5547001362f, 0.8574928641f, 0.8320502639f}},
      // UnitNorm(axis=[1, 2])
      {Norm(1, 1, 1, {1, 2}),
       {-0.6804137826f, -0.5443310142f, -0.4082482755f, -0.2721655071f, -0.4082481861f, 0,
        0.4082481861f, 0.8164963722f, 0.3234983087f, 0.4313310981f, 0.5391638279f, 0.6469966173f}},
      // MinMaxNorm(0.5, 1, rate=0.25, axis=[0, 2])
      {Norm(0.5, 1, 0.25, {0, 2}),
       {-1.0902117491f, -0.8721694350f, -0.6468815804f, -0.4312543869f, -0.2180423588f, 0,
        0.2156271935f, 0.4312543869f, 0.6541270614f, 0.8721694350f, 1.0781359673f, 1.2937631607f}}};
}

Floats Values() {
  Floats values;
  for (int i = 0; i < 12; ++i) values.push_back(static_cast<float>(i) / 4 - 1.25f);
  return values;
}

void CheckEqual(const Floats& got, const Floats& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).epsilon(1e-6));
}

TEST_CASE("norms are those of Keras, wherever the chunks are cut") {
  const std::vector<uint64_t> shape = {3, 2, 2};
  for (const Case& one : Cases()) {
    CAPTURE(one.norm.ShortDebugString());
    for (const size_t cut : {size_t{0}, size_t{1}, size_t{5}, size_t{12}}) {
      Floats values = Values();
      const std::span<float> all(values);
      ScaleToNorm(one.norm, shape, std::vector<std::span<float>>{all.first(cut), all.subspan(cut)});
      CheckEqual(values, one.keras);
    }
  }
}

TEST_CASE("a partition scales its values after each update, and a reader's copy stays") {
  for (const Case& one : Cases()) {
    Optimizer optimizer;
    optimizer.learning_rate = ConstantRate{1};
    optimizer.norm = one.norm;
    CHECK_FALSE(ZeroGradientChangesNothing(optimizer));
    const Floats values = Values();
    PartitionContents contents{.value = Block(12), .slots = {}, .ledger = {}};
    contents.value.Assign(Floats(12));
    DensePartition partition(
        {.id = 0, .name = "v", .shape = {3, 2, 2}, .trained = true, .bytes = 48}, optimizer,
        std::move(contents));
    ChunkRefs before, after;
    partition.Pull(before);
    Floats gradient;
    for (const float value : values) gradient.push_back(-value);
    const Gradient pushed(absl::Cord(absl::string_view(
        reinterpret_cast<const char*>(gradient.data()), gradient.size() * sizeof(float))));
    const PlanBatch batch{.split = 0, .batch = 0, .split_batches = 1};
    CHECK(partition.Push(batch, false, pushed).outcome == PUSH_APPLIED);
    partition.Pull(after);
    CheckEqual(Floats(after[0].values().begin(), after[0].values().end()), one.keras);
    CHECK(Floats(before[0].values().begin(), before[0].values().end()) == Floats(12));
  }
}

TEST_CASE("zeros have no direction, and stay") {
  Floats values(4);
  const std::vector<std::span<float>> chunks = {values};
  ScaleToNorm(Norm(1, 1, 1, {0}), std::vector<uint64_t>{4}, chunks);
  CHECK(values == Floats(4));
}

}  // namespace
}  // namespace paracord
