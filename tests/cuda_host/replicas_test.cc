// A program on several devices, each of which computes a part of every batch.
#include "keras/replicas.h"

#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/metric.h"
#include "keras/build.h"
#include "keras/part_sum.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cuda/cuda_ops.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;
using nlohmann::json;

constexpr char kSparse[] = "sparse_categorical_crossentropy";
const json kNone = json::object();

// Devices on the processor with separate orders of streams. `set` may change their options.
class Group {
 public:
  using Set = std::function<void(size_t rank, cuda::HostOptions& options)>;

  Group(const Job& job, const Batch& schema, size_t ranks, uint64_t seed, const Set& set = {})
      : nccl(std::make_shared<cuda::HostGroup>(ranks)), wrong_(ranks), calls(ranks) {
    std::vector<Replica> replicas;
    for (size_t rank = 0; rank < ranks; ++rank) {
      cuda::HostOptions options;
      options.seed = seed * 100 + rank;
      options.group = nccl;
      options.rank = rank;
      options.at_end = [this, rank](int64_t all, const std::string& what) {
        calls[rank] = all;
        wrong_[rank] = what;
      };
      if (set) set(rank, options);
      auto replica = cuda::MakeReplica(cuda::MakeHostRuntime(std::move(options)));
      built = replica.status();
      if (!built.ok()) return;
      replicas.push_back(*std::move(replica));
    }
    auto made = BuildReplicas(job, schema, std::move(replicas));
    built = made.status();
    if (built.ok()) program = *std::move(made);
  }
  // Ends everything and returns the errors of all devices.
  std::string Wrong() {
    program.reset();
    std::string all;
    for (const std::string& each : wrong_) all += each;
    return all;
  }

  const std::shared_ptr<cuda::HostGroup> nccl;

 private:
  std::vector<std::string> wrong_;

 public:
  std::vector<int64_t> calls;  // calls of each device, when it ends
  absl::Status built;
  std::unique_ptr<GradientProgram> program;
};

absl::StatusOr<Floats> Step(GradientProgram& program, Variables& variables, const Batch& batch,
                            uint64_t key) {
  const auto loss =
      program.ComputeGradients(batch, key, variables.value_spans(), variables.gradient_spans());
  if (!loss.ok()) return loss.status();
  Floats all{static_cast<float>(*loss)};
  for (const Floats& g : variables.gradients) all.insert(all.end(), g.begin(), g.end());
  return all;
}

void CheckSame(const Floats& got, const Floats& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("number " << i);
    REQUIRE(got[i] == Approx(wanted[i]).epsilon(1e-4).margin(1e-5));
  }
}

// Compares scores over batches, some of which are too small to give every device a part.
void CheckSameScores(GradientProgram& ours, GradientProgram& theirs, const Variables& variables,
                     const Batch& schema, uint32_t classes) {
  std::vector<MetricState> states, wanted;
  for (const uint32_t examples : {11u, 1u, 12u, 2u}) {
    const Batch batch = RandomBatch(schema, examples, classes, 9 + examples);
    REQUIRE(ours.Evaluate(batch, variables.value_spans(), states).ok());
    REQUIRE(theirs.Evaluate(batch, variables.value_spans(), wanted).ok());
  }
  REQUIRE(states.size() == wanted.size());
  for (size_t m = 0; m < states.size(); ++m) {
    const std::string& name = theirs.metric_names()[m];
    INFO(name);
    CHECK(states[m].kind() == wanted[m].kind());
    REQUIRE(states[m].values_size() == wanted[m].values_size());
    CHECK(states[m].values(1) == wanted[m].values(1));  // the counts
    if (m > 0) CHECK(states[m].values(0) == wanted[m].values(0));
    CHECK(MetricValue(states[m]) == Approx(MetricValue(wanted[m])).epsilon(1e-4));
  }
}

// Compares with one CPU that computes every batch whole, or in equally many slices.
void CheckGroups(Job job, const Batch& schema, uint32_t classes, bool whole) {
  for (const size_t ranks : {2u, 3u}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Job alone = job;
      if (!whole) alone.accumulate = job.accumulate * static_cast<uint32_t>(ranks);
      const auto cpu = BuildKerasProgram(alone, schema, MakeCpuOps(1)).value();
      Group group(job, schema, ranks, seed);
      INFO(group.built);
      REQUIRE(group.built.ok());
      Variables ours(*group.program), theirs(*cpu);
      for (Variables* variables : {&ours, &theirs}) {
        variables->Randomise(3);
        for (size_t i = 0; i < variables->names.size(); ++i) {
          const bool variance = variables->names[i].find("variance") != std::string::npos;
          for (float& x : variables->values[i]) x += variance ? 1.f : 0.f;
        }
      }
      std::map<size_t, Floats> early;
      group.program->OnGradient([&](size_t v) { early[v] = ours.gradients[v]; });
      for (const uint32_t examples : {12u, 7u, 12u, 1u, 2u, 12u, 12u, 12u, 12u}) {
        INFO("ranks " << ranks << " seed " << seed << " examples " << examples);
        early.clear();
        const Batch batch = RandomBatch(schema, examples, classes, examples);
        const auto got = Step(*group.program, ours, batch, examples);
        INFO(got.status());
        REQUIRE(got.ok());
        CheckSame(*got, Step(*cpu, theirs, batch, examples).value());
        for (size_t v = 0; v < ours.gradients.size(); ++v) CHECK(early[v] == ours.gradients[v]);
      }
      CheckSameScores(*group.program, *cpu, theirs, schema, classes);
      CHECK(group.nccl->sums() >= 6);
      CHECK(group.Wrong().empty());
    }
  }
}

json Regularized() {
  const json l2 = {{"class_name", "L2"}, {"config", {{"l2", 0.01}}}};
  return SequentialJson(
      {LayerJson("Conv2D", {{"filters", 3}, {"kernel_size", {3, 3}}, {"activation", "relu"}}),
       LayerJson("Flatten", kNone), LayerJson("Dropout", {{"rate", 0.3}}),
       LayerJson("Dense", {{"units", 6},
                           {"activation", "tanh"},
                           {"kernel_regularizer", l2},
                           {"activity_regularizer", l2}}),
       LayerJson("Dense", {{"units", 4}, {"activation", "softmax"}})});
}

TEST_CASE("several devices have the loss and the gradients of one with the whole batch") {
  Job job = JobFor(Regularized(), kSparse, 12);
  job.metrics = {{"accuracy"}};
  CheckGroups(job, SchemaOf({5, 5, 2}, {}), 4, true);
}

TEST_CASE("an evaluation is the work of all devices, and errors of any end it for all") {
  const Batch schema = SchemaOf({5, 5, 2}, {});
  std::vector<int> products(3);
  Group group(JobFor(Regularized(), kSparse, 12), schema, 3, 1,
              [&](size_t rank, cuda::HostOptions& options) {
                options.done = [&products, rank](const char* what, size_t) {
                  products[rank] += std::string(what) == "matmul" ? 1 : 0;
                };
              });
  REQUIRE(group.built.ok());
  Variables variables(*group.program);
  variables.Randomise(3);
  std::vector<MetricState> states;
  Batch batch = RandomBatch(schema, 12, 4, 1);
  REQUIRE(group.program->Evaluate(batch, variables.value_spans(), states).ok());
  CHECK(products == std::vector<int>{2, 2, 2});
  CHECK(states[0].values(1) == 12);
  batch.targets[0].values[11] = 17;
  const absl::Status wrong = group.program->Evaluate(batch, variables.value_spans(), states);
  CHECK(absl::IsInvalidArgument(wrong));
  CHECK(wrong.message().find("GPU") == std::string::npos);  // an error of the batch and of no GPU
  CHECK(states[0].values(1) == 12);
  CHECK(group.Wrong().empty());
}

TEST_CASE("batch normalization sees the part of its device, as it sees a slice") {
  const json model =
      SequentialJson({LayerJson("Dense", {{"units", 6}}), LayerJson("BatchNormalization", kNone),
                      LayerJson("Dense", {{"units", 4}})});
  Job job = JobFor(model, "mse", 12);
  CheckGroups(job, SchemaOf({5}, {4}), 0, false);
  job.accumulate = 2;  // each part in slices
  CheckGroups(job, SchemaOf({5}, {4}), 0, false);
}

TEST_CASE("where a mask says how many rows count, it is those of all devices") {
  const json model =
      SequentialJson({LayerJson("Masking", {{"mask_value", 0.0}}),
                      LayerJson("GRU", {{"units", 4}, {"return_sequences", true}}),
                      LayerJson("Dense", {{"units", 3}, {"activation", "softmax"}})});
  const Batch schema = SchemaOf({5, 2}, {5, 3});
  for (const size_t ranks : {2u, 3u}) {
    const Job job = JobFor(model, "categorical_crossentropy", 6);
    const auto cpu = BuildKerasProgram(job, schema, MakeCpuOps(1)).value();
    Group group(job, schema, ranks, 1);
    REQUIRE(group.built.ok());
    Variables ours(*group.program), theirs(*cpu);
    ours.Randomise(3);
    theirs.Randomise(3);
    for (const uint32_t examples : {6u, 5u, 2u, 1u}) {
      Batch batch = RandomBatch(schema, examples, 0, examples);
      for (uint32_t e = 0; e < examples; ++e) {  // examples differ in their number of steps
        const size_t steps = 1 + e % 5;
        for (size_t i = steps * 2; i < 10; ++i) batch.inputs[0].values[e * 10 + i] = 0;
      }
      for (float& x : batch.targets[0].values) x = std::abs(x);
      CheckSame(Step(*group.program, ours, batch, 1).value(), Step(*cpu, theirs, batch, 1).value());
      std::vector<MetricState> states, wanted;
      REQUIRE(group.program->Evaluate(batch, ours.value_spans(), states).ok());
      REQUIRE(cpu->Evaluate(batch, theirs.value_spans(), wanted).ok());
      CHECK(MetricValue(states[0]) == Approx(MetricValue(wanted[0])).epsilon(1e-4));
      CHECK(group.program->Evaluate(schema, ours.value_spans(), states).message() ==
            "the batch has no examples");
    }
    CHECK(group.Wrong().empty());
  }
}

json WithLargeLayer() {
  return SequentialJson({LayerJson("Dense", {{"units", 50}, {"activation", "tanh"}}),
                         LayerJson("Dense", {{"units", 22000}}),  // 4.4 MB
                         LayerJson("Dense", {{"units", 2}})});
}

TEST_CASE("sums begin while gradients are still computed") {
  const Batch schema = SchemaOf({3}, {2});
  int early = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::vector<std::vector<std::string>> done(2);
    Group group(JobFor(WithLargeLayer(), "mse", 4), schema, 2, seed,
                [&](size_t rank, cuda::HostOptions& options) {
                  options.done = [&, rank](const char* what, size_t) {
                    done[rank].emplace_back(what);
                  };
                });
    REQUIRE(group.built.ok());
    Variables variables(*group.program);
    variables.Randomise(3, 0.05f);
    for (uint32_t step = 0; step < 4; ++step) {  // the first ones hold sums back
      for (auto& each : done) each.clear();
      REQUIRE(Step(*group.program, variables, RandomBatch(schema, 4, 0, 1), 1).ok());
    }
    for (const auto& each : done) {
      const auto sum = std::find(each.begin(), each.end(), "all-reduce");
      REQUIRE(sum != each.end());
      early += std::find(sum, each.end(), "matmul") != each.end() ? 1 : 0;
      CHECK(std::count(each.begin(), each.end(), "all-reduce") == 2);
    }
    // One device downloads: six gradients, and the loss of each.
    CHECK(std::count(done[0].begin(), done[0].end(), "copy to the host") == 7);
    CHECK(std::count(done[1].begin(), done[1].end(), "copy to the host") == 1);
    CHECK(group.Wrong().empty());
  }
  CHECK(early > 3);
}

// CUDA may delay these calls until a GPU is idle, but a sum only ends when all devices have issued
// it.
TEST_CASE("steps that may allocate or load code ask for their sums at the end, together") {
  const std::set<std::string> allocate = {"cudaMalloc",   "cudaFree",         "cudaHostAlloc",
                                          "cudaFreeHost", "cudaHostRegister", "cudaHostUnregister"};
  const std::set<std::string> of_sums = {"cudaSetDevice",       "cudaStreamCreate",
                                         "cudaEventCreate",     "cudaEventRecord",
                                         "cudaStreamWaitEvent", "ncclAllReduce"};
  std::mutex mu;
  // The calls of a step. `beside` counts calls while one device waits for another.
  std::map<std::string, int> calls, beside;
  int asked[2] = {};
  const Batch schema = SchemaOf({3}, {2});
  Group group(JobFor(WithLargeLayer(), "mse", 4), schema, 2, 1,
              [&](size_t rank, cuda::HostOptions& options) {
                options.called = [&, rank](const char* name) {
                  const std::lock_guard lock(mu);
                  ++calls[name];
                  if (asked[0] != asked[1]) ++beside[name];
                  if (std::string(name) == "ncclAllReduce") ++asked[rank];
                };
              });
  REQUIRE(group.built.ok());
  Variables variables(*group.program);
  variables.Randomise(3, 0.05f);
  const auto held = [&](uint32_t examples) {
    calls.clear();
    beside.clear();
    const Batch batch = RandomBatch(schema, examples, 0, 1);
    REQUIRE(Step(*group.program, variables, batch, 1).ok());
    const bool at_end = calls["ncclAllReduce"] == 2;  // otherwise there are two for each device
    for (const auto& [name, count] : at_end ? beside : calls) {
      INFO(name << " with " << examples << " examples");
      CHECK(count > 0);
      CHECK((at_end ? of_sums.count(name) == 1 : allocate.count(name) == 0));
    }
    return at_end;
  };
  for (int round = 0; round < 2; ++round) {
    for (const bool expected : {true, true, true, false, false}) CHECK(held(4) == expected);
    CHECK(held(3));  // like an epoch's last batch
    for (const bool expected : {true, true, true, false}) CHECK(held(4) == expected);
    std::vector<MetricState> states;
    const Batch batch = RandomBatch(schema, 4, 0, 1);
    REQUIRE(group.program->Evaluate(batch, variables.value_spans(), states).ok());
  }
  CHECK(held(4));
  CHECK(group.Wrong().empty());
}

TEST_CASE("what is wrong with a batch is said, and the next one is computed") {
  const Batch schema = SchemaOf({5, 5, 2}, {});
  Group group(JobFor(Regularized(), kSparse, 4), schema, 2, 1);
  REQUIRE(group.built.ok());
  Variables variables(*group.program);
  variables.Randomise(3);
  Batch batch = RandomBatch(schema, 4, 4, 1);
  batch.targets[0].values[3] = 17;
  CHECK(absl::IsInvalidArgument(Step(*group.program, variables, batch, 1).status()));
  batch.targets[0].values[3] = 1;
  CHECK(Step(*group.program, variables, batch, 1).ok());
  const std::string memory = group.program->Memory();
  INFO(memory);
  CHECK(memory.find("2 GPUs compute a part of each batch: the effective batch of an update is 4 "
                    "examples; on each, memory for batches of 2: ") == 0);
  CHECK(group.Wrong().empty());
  const Group few(JobFor(Regularized(), kSparse, 2), schema, 3, 1);
  CHECK(few.built.message() == "batches of 2 examples have no part for each of 3 GPUs");
}

absl::StatusOr<double> LossOf(GradientProgram& program, const Variables& variables,
                              const Batch& batch) {
  std::vector<MetricState> states;
  const absl::Status status = program.Evaluate(batch, variables.value_spans(), states);
  if (!status.ok()) return status;
  return MetricValue(states.at(0));
}

// Makes a new group for each call of a whole run (kFailedCallStep), and fails the call once or for
// good.
template <class Body>
void WithEachFailure(const Group& whole, const Job& job, const Batch& schema, const Body& body) {
  for (const bool sticky : {false, true}) {
    for (size_t failing = 0; failing < 2; ++failing) {
      for (int64_t call = 0; call < whole.calls[failing]; call += cuda::kFailedCallStep) {
        INFO("call " << call << " of " << failing << (sticky ? ", sticky" : ""));
        Group group(job, schema, 2, 1, [&](size_t rank, cuda::HostOptions& options) {
          if (rank != failing) return;
          options.fail_call = call;
          options.sticky = sticky;
        });
        if (!group.built.ok()) continue;
        body(group, failing, sticky);
        CHECK(group.Wrong() == "");
      }
    }
  }
}

TEST_CASE("an error of any call of an evaluation is reported, and nobody waits for ever") {
  const json model =
      SequentialJson({LayerJson("Masking", {{"mask_value", 0.0}}),
                      LayerJson("GRU", {{"units", 4}, {"return_sequences", true}}),
                      LayerJson("Dense", {{"units", 3}, {"activation", "softmax"}})});
  const Batch schema = SchemaOf({5, 2}, {5, 3});
  const Job job = JobFor(model, "categorical_crossentropy", 6);
  const auto batch = [&](uint32_t at) {
    Batch made = RandomBatch(schema, 6, 0, at);
    for (float& x : made.targets[0].values) x = std::abs(x);
    return made;
  };
  Group whole(job, schema, 2, 1);
  Variables variables(*whole.program);
  variables.Randomise(3);
  std::vector<double> wanted;
  for (uint32_t at = 0; at < 3; ++at) {
    wanted.push_back(LossOf(*whole.program, variables, batch(at)).value());
  }
  REQUIRE(whole.Wrong().empty());
  int failed = 0;
  WithEachFailure(whole, job, schema, [&](Group& group, size_t failing, bool sticky) {
    for (uint32_t at = 0; at < 3; ++at) {
      auto got = LossOf(*group.program, variables, batch(at));
      if (!got.ok()) {
        INFO(got.status());
        ++failed;
        CHECK(got.status().message().find("GPU " + std::to_string(failing) + ": ") == 0);
        if (sticky) {
          CHECK(absl::IsDataLoss(got.status()));
          break;
        }
        got = LossOf(*group.program, variables, batch(at));
      }
      REQUIRE(got.ok());
      CHECK(*got == Approx(wanted[at]).epsilon(1e-6));
    }
  });
  CHECK(failed > 100);
}

// No step may hang or be wrong: it is computed again, or the group is lost for good.
TEST_CASE("an error of any call of any device is reported, and nobody waits for ever") {
  const Batch schema = SchemaOf({5, 5, 2}, {});
  const Job job = JobFor(Regularized(), kSparse, 4);
  const auto batch = [&](uint32_t step) { return RandomBatch(schema, 4, 4, step); };
  Group whole(job, schema, 2, 1);
  Variables variables(*whole.program);
  variables.Randomise(3);
  std::vector<Floats> wanted;
  for (uint32_t step = 0; step < 5; ++step) {  // the first one holds sums back
    wanted.push_back(Step(*whole.program, variables, batch(step), step).value());
  }
  REQUIRE(whole.Wrong().empty());
  int lost = 0, again = 0;
  WithEachFailure(whole, job, schema, [&](Group& group, size_t, bool sticky) {
    std::map<size_t, Floats> early;
    group.program->OnGradient([&](size_t v) { early[v] = variables.gradients[v]; });
    for (uint32_t step = 0; step < 5; ++step) {
      auto got = Step(*group.program, variables, batch(step), step);
      if (!got.ok() && !absl::IsDataLoss(got.status())) {
        INFO(got.status());
        CHECK(got.status().message().find("failed as asked") != std::string::npos);
        got = Step(*group.program, variables, batch(step), step);
        again += got.ok() ? 1 : 0;
      }
      if (!got.ok()) {
        CHECK((sticky || absl::IsDataLoss(got.status())));
        ++lost;
        break;
      }
      CheckSame(*got, wanted[step]);
      CHECK(early.size() == variables.gradients.size());
      for (const auto& [v, gradient] : early) CHECK(gradient == variables.gradients[v]);
    }
  });
  CHECK(lost > 10);
  CHECK(again > 10);
}

TEST_CASE("parts get the sum when all have come, round after round, and none after an abort") {
  PartSum sums(3);
  std::vector<std::vector<double>> got(3);
  {
    std::vector<std::jthread> threads;
    for (size_t part = 0; part < 3; ++part) {
      threads.emplace_back([&, part] {
        for (int round = 0; round < 200; ++round) {
          got[part].push_back(sums.Sum(part, {round + 1.0 * static_cast<double>(part)})->at(0));
        }
      });
    }
  }
  for (int round = 0; round < 200; ++round) {
    for (const auto& each : got) CHECK(each[static_cast<size_t>(round)] == 3 * round + 3);
  }
  absl::Status waited;
  {
    const std::jthread waits([&] { waited = sums.Sum(0, {1}).status(); });
    sums.Abort();
  }
  CHECK(absl::IsAborted(waited));
  CHECK(absl::IsAborted(sums.Sum(1, {1}).status()));
}

}  // namespace
}  // namespace paracord
