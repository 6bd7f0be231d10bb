// Tests how a model is cut into stages, and the order in which a stage computes micro-batches.
#include "keras/stage_cut.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "keras/stage_schedule.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;

// Returns layers "l0", "l1" and so on with these bytes and multiply-adds.
std::vector<StageLayer> LayersOf(const std::vector<std::pair<int64_t, int64_t>>& weights) {
  std::vector<StageLayer> layers;
  for (const auto& [bytes, multiply_adds] : weights) {
    layers.push_back({.name = "l" + std::to_string(layers.size()),
                      .bytes = bytes,
                      .multiply_adds = multiply_adds,
                      .begin = layers.size()});
  }
  return layers;
}

std::vector<size_t> CutIn(const std::vector<StageLayer>& layers, uint32_t count) {
  return CutStages(layers, {.count = count, .begins = {}}).value();
}

std::string ErrorOf(const std::vector<StageLayer>& layers, const StagesSpec& stages) {
  const auto cut = CutStages(layers, stages);
  REQUIRE(cut.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(cut.status().message());
}

StagesSpec BeginningWith(std::vector<std::string> names) {
  return {.count = static_cast<uint32_t>(names.size()) + 1, .begins = std::move(names)};
}

double WeightOfGreatest(const std::vector<StageLayer>& layers, std::vector<size_t> begins) {
  double bytes = 0, multiply_adds = 0, greatest = 0;
  for (const StageLayer& layer : layers) {
    bytes += static_cast<double>(layer.bytes);
    multiply_adds += static_cast<double>(layer.multiply_adds);
  }
  begins.push_back(layers.size());
  for (size_t s = 0; s + 1 < begins.size(); ++s) {
    double weight = 0;
    for (size_t i = begins[s]; i < begins[s + 1]; ++i) {
      weight += static_cast<double>(layers[i].bytes) / bytes +
                static_cast<double>(layers[i].multiply_adds) / multiply_adds;
    }
    greatest = std::max(greatest, weight);
  }
  return greatest;
}

// Calls `each` with every way to cut `layers` layers into `count` stages.
void ForEachCut(size_t layers, size_t count, std::vector<size_t> begins,
                const std::function<void(const std::vector<size_t>&)>& each) {
  if (begins.size() == count) return each(begins);
  for (size_t next = begins.back() + 1; next < layers; ++next) {
    begins.push_back(next);
    ForEachCut(layers, count, begins, each);
    begins.pop_back();
  }
}

TEST_CASE("no other cut has a lighter greatest stage") {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::pair<int64_t, int64_t>> weights(3 + random() % 5);
    for (auto& [bytes, multiply_adds] : weights) {
      bytes = random() % 3 == 0 ? 0 : static_cast<int64_t>(random() % 100);
      multiply_adds = static_cast<int64_t>(random() % 100) + 1;
    }
    weights[0].first = 5;
    const std::vector<StageLayer> layers = LayersOf(weights);
    for (uint32_t count = 1; count <= layers.size() && count <= 4; ++count) {
      const std::vector<size_t> cut = CutIn(layers, count);
      REQUIRE(cut.size() == count);
      CHECK(cut[0] == 0);
      CHECK(std::ranges::adjacent_find(cut, std::greater_equal<>()) == cut.end());
      const double least = WeightOfGreatest(layers, cut);
      ForEachCut(layers.size(), count, {0}, [&](const std::vector<size_t>& other) {
        CHECK(WeightOfGreatest(layers, other) >= least - 1e-9);
      });
    }
  }
}

TEST_CASE("equal halves are cut in the middle, and names cut where they say") {
  const std::vector<StageLayer> layers = LayersOf({{8, 80}, {8, 80}, {8, 80}, {8, 80}});
  CHECK(CutIn(layers, 2) == std::vector<size_t>{0, 2});
  CHECK(CutIn(layers, 4) == std::vector<size_t>{0, 1, 2, 3});
  CHECK(CutStages(layers, BeginningWith({"l1", "l3"})).value() == std::vector<size_t>{0, 1, 3});
  const std::string text = StagesText(layers, std::vector<size_t>{0, 3});
  CHECK(text ==
        "stage 1: l0 to l2, 3 layers, 24 bytes of parameters, 240 multiply-adds to train on one "
        "example\n"
        "stage 2: l3, 1 layer, 8 bytes of parameters, 80 multiply-adds to train on one example\n");
}

TEST_CASE("no cut parts the calls of a layer with weights, or a table from the first stage") {
  std::vector<StageLayer> layers = LayersOf({{1, 1}, {8, 80}, {8, 80}, {8, 80}, {1, 1}});
  layers[3].shares = {1};
  const std::vector<size_t> cut = CutIn(layers, 2);
  CHECK((cut[1] == 1 || cut[1] == 4));
  CHECK(CutIn(layers, 3) == std::vector<size_t>{0, 1, 4});
  CHECK(absl::StrContains(ErrorOf(layers, {.count = 4, .begins = {}}),
                          "stages: is 4, and the model can be parted in 2 places"));
  CHECK(absl::StrContains(ErrorOf(layers, BeginningWith({"l2"})),
                          "stages: layer \"l1\" is called in stage 1 and again in stage 2"));
  layers[3].shares.clear();
  layers[1].table = true;
  CHECK(CutIn(layers, 3)[1] > 1);
  CHECK(absl::StrContains(ErrorOf(layers, BeginningWith({"l1", "l3"})),
                          "stages: layer \"l1\" is in stage 2, and its rows travel alone (key "
                          "`tables`)"));
}

TEST_CASE("names and numbers that cut nothing are errors that say what to do") {
  const std::vector<StageLayer> layers = LayersOf({{8, 80}, {8, 80}, {8, 80}});
  CHECK(absl::StrContains(ErrorOf(layers, {.count = 4, .begins = {}}),
                          "stages: is 4, and the model has 3 layers"));
  CHECK(absl::StrContains(ErrorOf(layers, BeginningWith({"k1"})),
                          "stages: the model computes no layer \"k1\"; did you mean `l1`?"));
  CHECK(absl::StrContains(ErrorOf(layers, BeginningWith({"l0"})), "is the model's first layer"));
  CHECK(
      absl::StrContains(ErrorOf(layers, BeginningWith({"l2", "l1"})), "names \"l1\" after \"l2\""));
}

TEST_CASE("a graph has its layers in order, with what they share and weigh") {
  const auto ops = TestOps();
  const json model = {
      {"class_name", "Functional"},
      {"config",
       {{"name", "m"},
        {"layers",
         {Named("InputLayer", "in", {{"batch_shape", {nullptr, 4}}}, json::array()),
          Named("Dense", "twice", {{"units", 4}}, {Call("in"), Call("act")}),
          Named("Activation", "act", {{"activation", "relu"}}, {Call("twice")}),
          Named("Dense", "out", {{"units", 2}}, {Call("twice", 1)})}},
        {"input_layers", {{"in", 0, 0}}},
        {"output_layers", {{"out", 0, 0}}}}}};
  const auto graph = GraphOf(*ops, model, {4});
  const std::vector<StageLayer> layers = graph->StageLayers();
  REQUIRE(layers.size() == 3);
  CHECK(layers[0].name == "twice");
  CHECK(layers[0].begin == 0);
  CHECK(layers[0].bytes == 4 * (4 * 4 + 4));
  CHECK(layers[1].name == "act");  // with the second call of the preceding layer
  CHECK(layers[1].shares == std::vector<size_t>{0});
  CHECK(layers[2].name == "out");
  CHECK(layers[2].bytes == 4 * (4 * 2 + 2));
  CHECK(layers[2].multiply_adds == 3 * 4 * 2);
}

TEST_CASE("each micro-batch goes forward and then backward, and few are held") {
  for (size_t stages = 1; stages <= 5; ++stages) {
    for (size_t stage = 0; stage < stages; ++stage) {
      for (const size_t micro_batches : {1u, 2u, 3u, 8u}) {
        const std::vector<StageStep> steps = ScheduleOfStage(stages, stage, micro_batches);
        REQUIRE(steps.size() == 2 * micro_batches);
        size_t forward = 0, backward = 0;
        for (const StageStep& step : steps) {
          CHECK(step.micro_batch == (step.forward ? forward++ : backward++));
          CHECK(backward <= forward);
        }
        CHECK(HeldAtMost(steps) == std::min(stages - stage, micro_batches));
      }
    }
  }
}

TEST_CASE("the schedules of all stages never wait for each other in a circle") {
  for (size_t stages = 1; stages <= 5; ++stages) {
    for (const size_t micro_batches : {1u, 2u, 3u, 8u}) {
      std::vector<std::vector<StageStep>> schedules;
      for (size_t s = 0; s < stages; ++s) {
        schedules.push_back(ScheduleOfStage(stages, s, micro_batches));
      }
      std::vector<size_t> at(stages, 0), forward(stages, 0), backward(stages, 0);
      for (bool moved = true; std::exchange(moved, false);) {
        for (size_t s = 0; s < stages; ++s) {
          if (at[s] == schedules[s].size()) continue;
          const StageStep& step = schedules[s][at[s]];
          const bool may = step.forward ? s == 0 || forward[s - 1] > step.micro_batch
                                        : s + 1 == stages || backward[s + 1] > step.micro_batch;
          if (!may) continue;
          ++(step.forward ? forward : backward)[s];
          ++at[s];
          moved = true;
        }
      }
      for (size_t s = 0; s < stages; ++s) CHECK(at[s] == 2 * micro_batches);
    }
  }
}

}  // namespace
}  // namespace paracord
