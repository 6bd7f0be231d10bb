// Compares models in stages with the same models on one device, bit for bit.
#include "keras/stage_program.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "keras/build.h"
#include "keras/device_program.h"
#include "tests/golden/golden.h"
#include "tests/keras/golden_job.h"
#include "tests/keras/table_models.h"
#include "tests/sanitized.h"

namespace paracord {
namespace {

using nlohmann::json;

std::vector<StageDevice> DevicesOfStages(size_t count) {
  std::vector<StageDevice> devices;
  while (devices.size() < count) {
    devices.push_back({absl::StrCat("device ", devices.size()), TestOps()});
  }
  return devices;
}

Job InStages(Job job, uint32_t stages) {
  job.guarantees.stages = {.count = stages, .begins = {}};
  return job;
}

// Sign and payload of a NaN depend on the order of a sum's operands, which compilers choose: NaNs
// count as equal.
template <class Float>
bool SameNumber(Float a, Float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, SameNumber<float>);
}

std::string TextOfStates(const std::vector<MetricState>& states) {
  std::string text;
  for (const MetricState& state : states) text += state.SerializeAsString() + "|";
  return text;
}

// A program with variables, trained by plain gradient steps.
struct Trained {
  explicit Trained(std::unique_ptr<GradientProgram> built)
      : program(std::move(built)), variables(*program) {
    variables.Randomise(11);
    for (size_t v = 0; v < variables.names.size(); ++v) {
      if (variables.names[v].find("variance") == std::string::npos) continue;
      for (float& x : variables.values[v]) x = 1 + std::abs(x);
    }
  }
  absl::StatusOr<double> Step(const Batch& batch, uint64_t key) {
    for (auto& gradient : variables.gradients) std::fill(gradient.begin(), gradient.end(), 9.f);
    return program->ComputeGradients(batch, key, variables.value_spans(),
                                     variables.gradient_spans());
  }
  void Descend() {
    for (size_t v = 0; v < variables.values.size(); ++v) {
      const float rate = program->variables()[v].moving_average() > 0 ? 0.f : 0.05f;
      for (size_t i = 0; i < variables.gradients[v].size(); ++i) {
        variables.values[v][i] -= rate * variables.gradients[v][i];
      }
    }
  }
  std::unique_ptr<GradientProgram> program;
  Variables variables;
};

void CheckSameStep(Trained& one, Trained& stages, const Batch& batch, uint64_t key) {
  INFO("batch of " << batch.examples);
  const auto loss = one.Step(batch, key), other = stages.Step(batch, key);
  INFO(loss.status() << other.status());
  REQUIRE((loss.ok() && other.ok()));
  CHECK(SameNumber(*loss, *other));
  CHECK(TextOfStates(one.program->TakeTrainingMetrics()) ==
        TextOfStates(stages.program->TakeTrainingMetrics()));
  for (size_t v = 0; v < one.variables.names.size(); ++v) {
    INFO(one.variables.names[v]);
    CHECK(SameBits(one.variables.gradients[v], stages.variables.gradients[v]));
  }
  std::vector<MetricState> states, others;
  CHECK(one.program->Evaluate(batch, one.variables.value_spans(), states) == absl::OkStatus());
  CHECK(stages.program->Evaluate(batch, stages.variables.value_spans(), others) ==
        absl::OkStatus());
  CHECK(TextOfStates(states) == TextOfStates(others));
  const auto outputs = one.program->Predict(batch, one.variables.value_spans());
  const auto predicted = stages.program->Predict(batch, stages.variables.value_spans());
  REQUIRE((outputs.ok() && predicted.ok()));
  REQUIRE(outputs->size() == predicted->size());
  for (size_t i = 0; i < outputs->size(); ++i) {
    CHECK(SameBits((*outputs)[i].values, (*predicted)[i].values));
  }
}

// Trains on `batches`. Returns whether the model can be cut into `count` stages.
bool CheckStagesBits(const Job& job, const Batch& schema, const std::vector<Batch>& batches,
                     uint32_t count) {
  INFO("stages " << count << ", accumulate " << job.accumulate);
  auto in_stages = BuildStages(InStages(job, count), schema, DevicesOfStages(count));
  if (!in_stages.ok()) {
    CHECK(absl::StartsWith(in_stages.status().message(), "stages: is "));
    return false;
  }
  auto whole = BuildKerasProgram(InStages(job, 1), schema, TestOps());
  REQUIRE(whole.ok());
  Trained one(*std::move(whole)), stages(*std::move(in_stages));
  CHECK(one.variables.names == stages.variables.names);
  CHECK(one.program->metric_names() == stages.program->metric_names());
  CHECK(one.program->MultiplyAdds() == stages.program->MultiplyAdds());
  for (size_t i = 0; i < batches.size(); ++i) {
    CheckSameStep(one, stages, batches[i], i);
    one.Descend();
    stages.Descend();
  }
  return true;
}

// Tries batches of 8 examples, a short batch, and a batch with fewer examples than slices.
void CheckEverySize(Job job, const Batch& schema, uint32_t classes) {
  std::vector<Batch> batches;
  for (const uint32_t examples : {8u, 5u, 8u, 1u, 7u}) {
    batches.push_back(RandomBatch(schema, examples, classes, 3 + examples));
  }
  for (const uint32_t accumulate : {1u, 2u, 8u}) {
    job.batch = 8;
    job.accumulate = accumulate;
    for (const uint32_t stages : {1u, 2u, 3u, 4u}) {
      CHECK(CheckStagesBits(job, schema, batches, stages));
    }
  }
}

const json kNoConfig = json::object();

json NormalizedMlp() {
  return SequentialJson(
      {LayerJson("Dense", {{"name", "a"}, {"units", 12}}),
       LayerJson("BatchNormalization", {{"name", "norm"}}),
       LayerJson("Activation", {{"name", "act"}, {"activation", "relu"}}),
       LayerJson("Dropout", {{"name", "drop"}, {"rate", 0.4}}),
       LayerJson("Dense", {{"name", "b"}, {"units", 12}, {"activation", "tanh"}}),
       LayerJson("Dropout", {{"name", "drop2"}, {"rate", 0.2}}),
       LayerJson("BatchNormalization", {{"name", "norm2"}}),
       LayerJson("Dense", {{"name", "c"}, {"units", 4}, {"activation", "softmax"}})});
}

TEST_CASE("an MLP with BatchNormalization and dropout has the same bits in stages") {
  Job job = JobFor(NormalizedMlp(), "sparse_categorical_crossentropy");
  job.metrics = {{"accuracy"}};
  CheckEverySize(job, SchemaOf({6}, {}), 4);
}

TEST_CASE("a CNN has the same bits in stages") {
  const json model = SequentialJson(
      {LayerJson("Conv2D", {{"filters", 4}, {"kernel_size", {3, 3}}, {"activation", "relu"}}),
       LayerJson("MaxPooling2D", {{"pool_size", {2, 2}}}),
       LayerJson("SpatialDropout2D", {{"rate", 0.3}}), LayerJson("BatchNormalization", kNoConfig),
       LayerJson("Flatten", kNoConfig), LayerJson("Dense", {{"units", 3}})});
  Job job = JobFor(model, "sparse_categorical_crossentropy");
  job.loss.options["from_logits"] = true;
  CheckEverySize(job, SchemaOf({10, 10, 2}, {}), 3);
}

// Two parallel residual blocks: all later layers read the first layer's values, an output lies in
// the middle and is read later, and weights and values have penalties.
json SkippingModel() {
  const json l2 = {{"class_name", "L2"}, {"config", {{"l2", 0.01}}}};
  const auto dense = [&](const char* name, const char* of, json more = json::object()) {
    json config = {{"units", 6}, {"activation", "tanh"}, {"kernel_regularizer", l2}};
    config.update(more);
    return Named("Dense", name, config, {Call(of)});
  };
  return {
      {"class_name", "Functional"},
      {"config",
       {{"name", "m"},
        {"layers",
         {Named("InputLayer", "in", {{"batch_shape", {nullptr, 6}}}, json::array()),
          dense("first", "in"), dense("second", "first", {{"activity_regularizer", l2}}),
          Named("Add", "sum", kNoConfig, {CallWith({"first", "second"})}),
          Named("Dropout", "drop", {{"rate", 0.3}}, {Call("sum")}), dense("middle", "drop"),
          dense("third", "middle"),
          Named("Concatenate", "all", kNoConfig, {CallWith({"first", "middle", "third", "in"})}),
          dense("frozen", "all", {{"trainable", false}}),
          Named("Add", "sum2", kNoConfig, {CallWith({"frozen", "first", "middle"})}),
          Named("Dense", "last", {{"units", 1}, {"activation", "sigmoid"}}, {Call("sum2")})}},
        {"input_layers", {{"in", 0, 0}}},
        {"output_layers", {{"middle", 0, 0}, {"last", 0, 0}}}}}};
}

TEST_CASE("skips across cuts, several outputs and penalties have the same bits in stages") {
  Job job = JobFor(SkippingModel(), "");
  job.loss = {};
  job.losses = {{"mean_squared_error", json::object(), "middle"},
                {"binary_crossentropy", json::object(), "last"}};
  job.loss_weights.by_output = {{"middle", 0.3}};
  Batch schema = SchemaOf({6}, {6});
  schema.targets[0].name = "middle";
  schema.targets.push_back({"last", {1}, {}});
  CheckEverySize(job, schema, 2);
}

// A model of ids: an embedding that masks zeros, attention, and a mean over the unmasked steps.
json MaskedModel() {
  json self = Call("norm");
  self["args"].push_back(self["args"][0]);
  return ModelJson(
      json::array({InputJson("ids", 5),
                   Named("Embedding", "embed",
                         {{"input_dim", 9}, {"output_dim", 4}, {"mask_zero", true}}, {Call("ids")}),
                   Named("LayerNormalization", "norm", {{"axis", -1}}, {Call("embed")}),
                   Named("MultiHeadAttention", "attend",
                         {{"num_heads", 2}, {"key_dim", 3}, {"dropout", 0.2}}, {self}),
                   Named("Add", "add", kNoConfig, {CallWith({"embed", "attend"})}),
                   Named("Dense", "up", {{"units", 8}, {"activation", "gelu"}}, {Call("add")}),
                   Named("LSTM", "steps", {{"units", 4}, {"return_sequences", true}}, {Call("up")}),
                   Named("Dense", "each", {{"units", 9}}, {Call("steps")})}),
      {"ids"}, "each");
}

TEST_CASE("masks that reach losses in a later stage have the same bits in stages") {
  Job job = JobFor(MaskedModel(), "sparse_categorical_crossentropy");
  job.loss.options["from_logits"] = true;
  job.metrics = {{"accuracy"}};
  Batch schema;
  schema.inputs.push_back({"ids", {5}, {}});
  schema.targets.push_back({"", {5}, {}});
  std::vector<Batch> batches;
  for (const uint32_t examples : {8u, 5u, 1u}) {
    batches.push_back(RandomBatch(schema, examples, 9, 4));
    for (size_t i = 0; i < batches.back().inputs[0].values.size(); ++i) {
      batches.back().inputs[0].values[i] = static_cast<float>(i * i % 9 * (i % 4 != 0));
    }
  }
  job.batch = 8;
  for (const uint32_t accumulate : {1u, 2u, 8u}) {
    job.accumulate = accumulate;
    for (const uint32_t stages : {1u, 2u, 3u, 4u}) {
      CHECK(CheckStagesBits(job, schema, batches, stages));
    }
  }
}

TEST_CASE("a recommender whose tables have the rows of a batch has the same bits in stages") {
  const json model = ModelJson(
      json::array({InputJson("a", 4), InputJson("b", 4), EmbeddingJson("of_a", 1000, {"a"}),
                   EmbeddingJson("of_b", 1000, {"b"}),
                   Named("GlobalAveragePooling1D", "pa", kNoConfig, {Call("of_a")}),
                   Named("GlobalAveragePooling1D", "pb", kNoConfig, {Call("of_b")}),
                   Named("Concatenate", "all", kNoConfig, {CallWith({"pa", "pb"})}),
                   Named("Dense", "deep", {{"units", 8}, {"activation", "relu"}}, {Call("all")}),
                   Named("Dropout", "drop", {{"rate", 0.3}}, {Call("deep")}),
                   Named("Dense", "out", {{"units", 1}}, {Call("drop")})}),
      {"a", "b"}, "out");
  std::vector<float> a, b;
  for (int i = 0; i < 4 * 7; ++i) a.push_back(static_cast<float>(i * 37 % 90));
  for (int i = 0; i < 4 * 7; ++i) b.push_back(static_cast<float>(i * 91 % 700));
  const Batch batch = IdsBatch(a, b);
  for (const uint32_t accumulate : {1u, 2u, 8u}) {
    Job job = TablesJob(model, Fixed({"of_a", "of_b"}), 8);
    job.accumulate = accumulate;
    const auto one = BuildKerasProgram(job, WithoutValues(batch), TestOps()).value();
    Variables all(*one);
    all.Randomise(3);
    const auto rows = one->RowsOf(batch).value();
    BatchRows want(*one, *rows, all);
    one->UseRows(rows);
    const double loss =
        one->ComputeGradients(batch, 5, want.value_spans, want.gradient_spans).value();
    for (const uint32_t count : {2u, 3u, 4u}) {
      INFO("stages " << count << ", accumulate " << accumulate);
      const auto stages =
          BuildStages(InStages(job, count), WithoutValues(batch), DevicesOfStages(count)).value();
      const auto own = stages->RowsOf(batch).value();
      CHECK(own->ids == rows->ids);
      BatchRows got(*stages, *own, all);
      for (int step = 0; step < 2; ++step) {
        stages->UseRows(own);
        const double same =
            stages->ComputeGradients(batch, 5, got.value_spans, got.gradient_spans).value();
        CHECK(std::memcmp(&loss, &same, sizeof(double)) == 0);
        for (size_t v = 0; v < got.gradients.size(); ++v) {
          CHECK(SameBits(want.gradients[v], got.gradients[v]));
        }
      }
    }
  }
}

TEST_CASE("Keras' own models have the same bits in stages, wherever they can be cut") {
  size_t cut = 0, model = 0;
  for (const char* file :
       {"graph.keras3.json", "graph.keras2.json", "recommender.keras3.json", "sequence.keras3.json",
        "batch.keras3.json", "call.keras3.json", "edge.keras3.json", "image.keras3.json"}) {
    for (const json& golden : GoldenJson(file)) {
      INFO(file << ": " << golden["name"]);
      Job job = CompiledJob(golden);
      const std::vector<Batch> batches(2, GoldenBatch(golden, true));
      ++model;
      for (const uint32_t stages : {2u, 3u}) {
        if (Sanitized() && (model + stages) % 2 == 0) continue;
        job.accumulate = std::min(stages, job.batch);
        cut += CheckStagesBits(job, GoldenBatch(golden, false), batches, stages) ? 1 : 0;
      }
    }
  }
  CHECK(cut > UnderSanitizers(200u, 400u));
}

TEST_CASE("stages report each gradient on the caller's thread, once it is complete") {
  Job job = JobFor(NormalizedMlp(), "sparse_categorical_crossentropy", 8);
  job.accumulate = 4;
  const Batch schema = SchemaOf({6}, {});
  Trained stages(BuildStages(InStages(job, 3), schema, DevicesOfStages(3)).value());
  std::map<size_t, std::vector<float>> there;
  const auto caller = std::this_thread::get_id();
  stages.program->OnGradient([&](size_t v) {
    CHECK(std::this_thread::get_id() == caller);
    CHECK(there.emplace(v, stages.variables.gradients[v]).second);
  });
  const Batch batch = RandomBatch(schema, 8, 4, 1);
  REQUIRE(stages.Step(batch, 1).ok());
  CHECK(there.size() == stages.variables.names.size());
  for (const auto& [v, early] : there) CHECK(SameBits(early, stages.variables.gradients[v]));
  there.clear();
  stages.program->OnGradient(nullptr);
  REQUIRE(stages.Step(batch, 1).ok());
  CHECK(there.empty());
}

TEST_CASE("after an error of its stages a program computes the next batch as if nothing had been") {
  Job job = JobFor(NormalizedMlp(), "sparse_categorical_crossentropy", 8);
  job.accumulate = 4;
  const Batch schema = SchemaOf({6}, {});
  Trained one(BuildKerasProgram(job, schema, TestOps()).value());
  Trained stages(BuildStages(InStages(job, 3), schema, DevicesOfStages(3)).value());
  const Batch batch = RandomBatch(schema, 8, 4, 1);
  auto gradients = stages.variables.gradient_spans();
  const std::vector<std::span<float>> fewer(gradients.begin(), gradients.end() - 1);
  CHECK(stages.program->ComputeGradients(batch, 1, stages.variables.value_spans(), fewer)
            .status()
            .code() == absl::StatusCode::kInternal);
  Batch wrong = batch;
  wrong.targets[0].values[2] = 4;
  CHECK(absl::IsInvalidArgument(stages.Step(wrong, 1).status()));
  CheckSameStep(one, stages, batch, 1);
}

TEST_CASE("a model in stages is refused other numbers of devices than it has stages") {
  Job job = JobFor(NormalizedMlp(), "sparse_categorical_crossentropy", 8);
  const auto built = BuildStages(InStages(job, 3), SchemaOf({6}, {}), DevicesOfStages(2));
  CHECK(built.status() == absl::InvalidArgumentError(
                              "stages: the job's model has 3, and there are 2 devices: each stage "
                              "has one of its own"));
  job.guarantees.stages = {.count = 2, .begins = {"nrm"}};
  for (const absl::Status& status :
       {BuildStages(job, SchemaOf({6}, {}), DevicesOfStages(2)).status(),
        BuildKerasProgram(job, SchemaOf({6}, {}), TestOps()).status()}) {
    CHECK(absl::StrContains(status.message(),
                            "stages: the model computes no layer \"nrm\"; did you mean `norm`?"));
  }
  job.guarantees.stages.begins = {"norm"};
  const auto plain = BuildKerasProgram(job, SchemaOf({6}, {}), TestOps());
  REQUIRE(plain.ok());
  CHECK(absl::StrContains((*plain)->Summary(), "stage 1: a, 1 layer, 336 bytes of parameters, "));
}

TEST_CASE("another number of devices than of stages, and what is neither, is refused by name") {
  const Job job = InStages(JobFor(NormalizedMlp(), "sparse_categorical_crossentropy", 8), 2);
  CHECK(CheckStageDevices(job, "cpu:2") == absl::OkStatus());
  CHECK(CheckStageDevices(job, "cuda:0,1") == absl::OkStatus());
  CHECK(CheckStageDevices(job, "cuda:all") == absl::OkStatus());  // has here none, elsewhere two
  CHECK(CheckStageDevices(InStages(job, 1), "cuda:0,1,2") == absl::OkStatus());
  const char* const advice = ": give --device cpu:2, or name 2 GPUs as cuda:N,M";
  for (const auto& [device, count] :
       {std::pair("cpu:3", 3), {"cpu", 1}, {"auto", 1}, {"cuda:1", 1}, {"cuda:0,1,2", 3}}) {
    CHECK(
        CheckStageDevices(job, device).message() ==
        absl::StrCat("stages: the model is cut into 2, each on a device of its own, and --device ",
                     device, " is ", count, advice));
  }
  CHECK(CheckStageDevices(job, "pjrt:/lib/plugin.so:all").message() ==
        absl::StrCat("stages: are computed by devices of the processor or GPUs, and --device is "
                     "pjrt:/lib/plugin.so:all",
                     advice));
  std::vector<std::string> asked;
  const auto make = [&](const std::string& device, int threads) {
    asked.push_back(absl::StrCat(device, " ", threads));
    return absl::StatusOr<std::unique_ptr<Ops>>(TestOps());
  };
  const auto built = BuildStagesOnDevices(job, SchemaOf({6}, {}), {"cpu:2", false, 3, 0}, make);
  REQUIRE(built.ok());
  CHECK(built->device == "cpu:2");
  CHECK(asked == std::vector<std::string>{"cpu 3", "cpu 3"});
  const auto gpus = BuildStagesOnDevices(job, SchemaOf({6}, {}), {"cuda:2,0", false, 1, 0}, make);
  REQUIRE(gpus.ok());
  CHECK(absl::StrContains(gpus->program->Memory(), "; stage 1 on cuda:2: memory for batches of "));
  CHECK(absl::StrContains(gpus->program->Memory(), "; stage 2 on cuda:0: memory for batches of "));
}

TEST_CASE("numbers that are not finite are those of one device in stages") {
  const Batch schema = SchemaOf({6}, {});
  Job job = JobFor(NormalizedMlp(), "sparse_categorical_crossentropy", 8);
  job.accumulate = 4;
  Batch batch = RandomBatch(schema, 8, 4, 1);
  batch.inputs[0].values[9] = std::numeric_limits<float>::infinity();
  CHECK(CheckStagesBits(job, schema, {batch, RandomBatch(schema, 8, 4, 2)}, 3));
}

}  // namespace
}  // namespace paracord
