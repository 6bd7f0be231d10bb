// A worker's exchanges with a ps that answers as the test says.
#include "worker/trainer.h"

#include <catch2/catch.hpp>
#include <limits>

#include "common/limit_error.h"
#include "exchange/codec.h"
#include "proto/protocol.h"
#include "tests/fakes.h"
#include "tests/parts.h"
#include "tests/worker/plain_parts.h"
#include "worker/ps_session.h"

namespace paracord {
namespace {

// Keeps the calls until the test answers.
class ManualLink : public Link {
 public:
  void Call(std::string_view method, Parts request, int64_t, ReplyFn done) override {
    REQUIRE(method == method::kStage);  // values have a sink
    const absl::Cord bytes = Joined(request);
    staged.push_back(DecodeExchangeRequest(bytes).value());
    staged_done.push_back(std::move(done));
  }
  void CallInto(std::string_view, Parts request, int64_t, std::shared_ptr<ReplySink> given,
                ReplyFn done) override {
    sink = std::move(given);
    calls.push_back(std::move(done));
    const absl::Cord bytes = Joined(request);
    DecodedRequest decoded = DecodeExchangeRequest(bytes).value();
    last_request = std::move(decoded.header);
    last_pieces = std::move(decoded.pieces);
  }
  const std::string& address() const override { return address_; }
  bool shares_memory() const override { return shares; }
  bool replies_valid() const override { return valid; }

  bool shares = false, valid = true;
  std::shared_ptr<ReplySink> sink;  // sink of the last call
  std::vector<ReplyFn> calls;
  ExchangeRequest last_request;
  std::vector<PieceView> last_pieces;
  std::vector<DecodedRequest> staged;
  std::vector<ReplyFn> staged_done;

 private:
  const std::string address_ = "unix:/ps";
};

class OneWeight : public GradientProgram {
 public:
  // `seen` gets the weight of each batch. `others`: further weights, whose gradients are complete
  // earlier.
  OneWeight(std::vector<float>& seen, size_t others) : seen_(seen) {
    for (size_t i = 0; i <= others; ++i) {
      VariableSpec& weight = variables_.emplace_back();
      weight.set_name(i == 0 ? "weight" : "other");
      weight.add_shape(1);
      weight.set_dtype(FLOAT32);
      weight.set_trainable(true);
    }
  }
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t, ConstTensors values,
                                          MutableTensors gradients) override {
    if (!error.ok()) return error;
    seen_.push_back(values[0][0]);
    for (size_t v = gradients.size(); v-- > 0;) {
      gradients[v][0] = v == 0 ? gradient : 2;
      if (there_) there_(v);
    }
    return 0.5;
  }
  void OnGradient(std::function<void(size_t)> there) override { there_ = std::move(there); }
  absl::Status Evaluate(const Batch&, ConstTensors, std::vector<MetricState>&) override {
    return absl::UnimplementedError("no evaluation");
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch&, ConstTensors) override {
    return absl::UnimplementedError("no prediction");
  }

  float gradient = 1;
  absl::Status error;  // if not OK, nothing is computed

 private:
  std::function<void(size_t)> there_;
  std::vector<float>& seen_;
  std::vector<VariableSpec> variables_;
  std::vector<std::string> metric_names_;
};

// A trainer with one lease, which begins with a pull.
struct TrainerFixture {
  static constexpr int64_t kExchangeMs = 1000;

  explicit TrainerFixture(uint32_t batches = 1, bool overlap = false, size_t others = 0) {
    session.set_run_id("run");
    session.add_ps()->set_boot_id("a");
    for (uint32_t i = 0; i <= others; ++i) {
      PartitionSpec& partition = *session.add_partitions();
      partition.set_id(i);
      partition.set_variable(i);
      partition.set_row_end(1);
    }
    const auto workload = std::make_shared<Workload>();
    auto own = std::make_unique<OneWeight>(seen, others);
    program = own.get();
    workload->program = std::move(own);
    auto example = std::make_unique<OneExample>();
    batch = &example->batch;
    workload->feed = std::move(example);
    TrainerCallbacks callbacks;
    callbacks.report = [this](const LeaseReport& report) { reports.push_back(report); };
    callbacks.wants_task = [] {};
    callbacks.evaluated = [](const EvaluationReport&) {};
    const Environment environment{loop, network, files, executor, random};
    auto parameters =
        std::make_unique<PsSession>(PsSessionOptions{.task = "worker:0",
                                                     .exchange_ms = kExchangeMs,
                                                     .transfer = {},
                                                     .overlap = overlap,
                                                     .staged_push_bytes = 1},
                                    session, workload, std::vector<Link*>{&link}, environment,
                                    [](const std::string& why) { FAIL(why); });
    trainer.emplace(TrainerOptions{.overlap = overlap}, session.plan(), workload,
                    std::move(parameters), environment, std::move(callbacks));
    Lease lease;
    lease.set_id(1);
    lease.set_end_batch(batches);
    lease.set_proof("the lease's proof");
    trainer->Take(lease);
    loop.RunPosted();
    CHECK(link.calls.empty());  // no memory exists for the pulled values yet
    RunExecutor();
  }
  // Answers the open call with a status and no values; then `ms` pass.
  void Answer(const absl::Status& status, int64_t ms) {
    REQUIRE(link.calls.size() == 1);
    const ReplyFn done = std::move(link.calls[0]);
    link.calls.clear();
    done(status);
    loop.Advance(ms);
  }

  // Answers the exchange with the weight's new value after `updates` updates.
  void AnswerWeight(float weight, uint64_t updates) {
    ExchangeReply reply;
    std::vector<PieceView> pieces;
    const absl::string_view bytes(reinterpret_cast<const char*>(&weight), sizeof(weight));
    for (uint32_t i = 0; i < static_cast<uint32_t>(link.last_request.pull_size()); ++i) {
      PartitionState& state = *reply.add_partitions();
      state.set_partition(i);
      state.set_updates(updates);
      state.set_bytes(sizeof(weight));
      if (link.last_request.has_batch()) {
        state.set_outcome(PUSH_APPLIED);
        state.set_next(link.last_request.batch().batch() + 1);
      }
      pieces.push_back({i, 0, absl::Cord(bytes)});
    }
    const absl::Cord whole = Joined(EncodeExchange(reply, std::move(pieces)));
    REQUIRE(link.calls.size() == 1);
    const ReplyFn done = std::move(link.calls[0]);
    link.calls.clear();
    done(whole);
    loop.RunPosted();
  }
  void RunExecutor() {
    REQUIRE(executor.RunOne());
    loop.RunPosted();
  }
  // Returns the number of the batch whose push is in flight.
  uint32_t BatchUnderWay() const {
    REQUIRE(link.calls.size() == 1);
    REQUIRE(link.last_request.has_batch());
    return link.last_request.batch().batch();
  }

  ManualLoop loop;
  ManualExecutor executor{loop, /*at_once=*/false};
  NoNetwork network;
  PosixFiles files;
  SeededRandom random{1};
  ManualLink link;
  Session session;
  OneWeight* program = nullptr;
  Batch* batch = nullptr;
  std::vector<float> seen;  // the weight for each batch
  std::vector<LeaseReport> reports;
  std::optional<Trainer> trainer;
};

TEST_CASE("a lease of which nothing is left ends at once") {
  TrainerFixture fixture(/*batches=*/0);
  CHECK(fixture.link.calls.empty());
  REQUIRE(fixture.reports.size() == 1);
  CHECK(fixture.reports[0].ended());
  CHECK(fixture.reports[0].problem() == PROBLEM_NONE);
  CHECK(fixture.trainer->Idle());
}

TEST_CASE("a ps without room costs no try: it is asked again, ever less often") {
  TrainerFixture test;
  const int64_t begin_ms = test.loop.NowMs();
  int calls = 0;
  for (; test.loop.NowMs() - begin_ms < 3 * TrainerFixture::kExchangeMs; ++calls) {
    test.Answer(absl::ResourceExhaustedError("too many exchanges wait"), 0);
    CHECK(test.reports.empty());
    while (test.link.calls.empty()) test.loop.Advance(50);
  }
  CHECK(calls > 3);
  CHECK(calls < 10);
  // Waits as long as three unanswered calls would take, and no longer.
  test.Answer(absl::ResourceExhaustedError("too many exchanges wait"), 10000);
  CHECK(test.link.calls.empty());
  REQUIRE(test.reports.size() == 1);
  CHECK(test.reports[0].problem() == PROBLEM_UNREACHABLE);
}

TEST_CASE("a limit of a ps is asked for once, and is no failure of the batch") {
  const absl::Status error = GENERATE(LimitError("a batch of 9 ids is more than this ps takes"),
                                      absl::UnimplementedError("no method /Exchange"));
  const bool pushes = GENERATE(false, true);
  TrainerFixture test;
  if (pushes) {
    test.AnswerWeight(1, 0);
    test.RunExecutor();
    CHECK(test.link.last_request.proof() == "the lease's proof");
  }
  test.Answer(error, 10000);
  CHECK(test.link.calls.empty());
  REQUIRE(test.reports.size() == 1);
  CHECK(test.reports[0].problem() == PROBLEM_LIMIT);
  CHECK(test.reports[0].message() == error.message());
}

TEST_CASE("a program or a device that lacks something is no failure of the batch") {
  struct Case {
    absl::Status status;
    Problem problem;
  };
  for (const Case& one : {Case{absl::ResourceExhaustedError("the GPU is full"), PROBLEM_LIMIT},
                          Case{absl::UnimplementedError("no such operation"), PROBLEM_LIMIT},
                          Case{absl::FailedPreconditionError("no GPU"), PROBLEM_LIMIT},
                          Case{absl::InvalidArgumentError("of a wrong shape"), PROBLEM_SHAPE}}) {
    TrainerFixture test;
    test.program->error = one.status;
    test.AnswerWeight(1, 0);
    test.RunExecutor();
    REQUIRE(test.reports.size() == 1);
    CHECK(test.reports[0].problem() == one.problem);
  }
}

TEST_CASE("three calls that find nobody give the lease back, whatever had no room between them") {
  TrainerFixture test;
  for (int i = 0; i < 2; ++i) {
    test.Answer(absl::UnavailableError("no connection"), 200);
    test.Answer(absl::ResourceExhaustedError("too many exchanges wait"), 200);
    CHECK(test.reports.empty());
  }
  test.Answer(absl::UnavailableError("no connection"), 200);
  CHECK(test.link.calls.empty());
  REQUIRE(test.reports.size() == 1);
  CHECK(test.reports[0].problem() == PROBLEM_UNREACHABLE);
}

TEST_CASE("with overlap, where values may be read while they come, they have no place") {
  for (const bool overlap : {true, false}) {
    const TrainerFixture test(1, overlap);
    const std::string head("\x7a\x08\x10\x00\x1a\x04", 6);  // head of a piece of four bytes
    const ReplySink::Place place = test.link.sink->Look(head);
    CHECK((place.at == nullptr) == overlap);
    CHECK(place.wanted != overlap);
  }
}

TEST_CASE(
    "a reply whose memory the ps took back is none; what comes over the network then is one") {
  TrainerFixture test(/*batches=*/2);
  test.link.valid = false;  // only asked of replies in shared memory
  test.AnswerWeight(1, 0);
  test.link.shares = true;
  test.RunExecutor();
  CHECK(test.seen == std::vector<float>{1});
  test.AnswerWeight(2, 1);
  CHECK(test.link.calls.empty());
  test.link.shares = false;
  test.loop.Advance(100);
  CHECK(test.BatchUnderWay() == 0);  // again, and whole
  CHECK_FALSE(test.link.last_request.pull(0).has_known_version());
  CHECK(test.link.last_pieces.size() == 1);
  test.AnswerWeight(2, 1);
  test.RunExecutor();
  CHECK(test.seen == std::vector<float>{1, 2});
  test.AnswerWeight(3, 2);
  REQUIRE(test.reports.size() == 2);
  CHECK(test.reports[1].problem() == PROBLEM_NONE);
}

TEST_CASE("no batch is computed with what is left of a lost reply") {
  TrainerFixture test(/*batches=*/2);
  test.AnswerWeight(1, 0);
  test.RunExecutor();
  CHECK(test.link.last_request.pull(0).has_known_version());
  // The weight is pulled whole again, also after a failed evaluation.
  test.Answer(absl::UnavailableError("torn"), 100);
  CHECK_FALSE(test.link.last_request.pull(0).has_known_version());
  test.AnswerWeight(2, 1);
  EvaluationLease evaluation;
  evaluation.set_id(2);
  test.trainer->Take(evaluation);
  test.RunExecutor();
  test.AnswerWeight(3, 2);
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(test.link.last_request.has_batch());
    test.Answer(absl::UnavailableError("torn"), 100);
  }
  Lease lease;
  lease.set_id(3);
  lease.set_split(1);
  lease.set_end_batch(1);
  test.trainer->Take(lease);
  test.loop.RunPosted();
  CHECK_FALSE(test.executor.RunOne());
  test.AnswerWeight(4, 3);
  test.RunExecutor();
  CHECK(test.seen == std::vector<float>{1, 2, 4});
}

TEST_CASE("gradients leave while others are computed, and again only if the push is repeated") {
  TrainerFixture test(/*batches=*/2, /*overlap=*/false, /*others=*/1);
  test.AnswerWeight(1, 0);
  for (uint32_t batch = 0; batch < 2; ++batch) {
    test.RunExecutor();
    REQUIRE(test.link.staged.size() == batch + 1);
    const DecodedRequest& early = test.link.staged.back();
    REQUIRE(early.pieces.size() == 1);
    CHECK(early.pieces[0].partition == 1);
    CHECK(test.BatchUnderWay() == batch);
    CHECK(test.link.last_request.push_size() == 2);
    CHECK(test.link.last_request.staged().id() == early.header.staged().id());
    REQUIRE(test.link.last_pieces.size() == 1);
    CHECK(test.link.last_pieces[0].partition == 0);
    if (batch == 1) {
      CHECK(early.header.staged().id() != test.link.staged[0].header.staged().id());
      // The exchange is repeated at once, and as often as usual, even if a ps has reported "no
      // room".
      test.link.staged_done[1](absl::ResourceExhaustedError("no room"));
      test.loop.RunPosted();
      test.Answer(absl::NotFoundError("0 of 1 calls are here"), 0);
      CHECK(test.link.last_request.pull(0).has_known_version());
      test.Answer(absl::UnavailableError("no connection"), 100);
      test.Answer(absl::UnavailableError("no connection"), 100);
      CHECK_FALSE(test.link.last_request.has_staged());
      CHECK(test.link.last_pieces.size() == 2);
    }
    test.AnswerWeight(static_cast<float>(batch) + 2, batch + 1);
  }
  CHECK(test.reports.back().ended());
  CHECK(test.reports.back().problem() == PROBLEM_NONE);
}

TEST_CASE("a batch of which something left early is given up all the same if it is not finite") {
  TrainerFixture test(/*batches=*/2, /*overlap=*/false, /*others=*/1);
  test.program->gradient = std::numeric_limits<float>::infinity();
  test.batch->inputs.push_back({"x", {}, {std::numeric_limits<float>::quiet_NaN()}});
  test.AnswerWeight(1, 0);
  test.RunExecutor();
  CHECK(test.link.staged.size() == 1);
  CHECK(test.link.calls.empty());
  REQUIRE(test.reports.size() == 1);
  CHECK(test.reports[0].problem() == PROBLEM_NONFINITE);
  CHECK(test.reports[0].message() ==
        "the gradient of weight is not finite; example 0 of the batch: input \"x\" is nan");
  const StepCounters given_up = test.trainer->TakeCounters();
  CHECK(given_up.computed == 0);  // its loss is in no mean
  CHECK(given_up.loss_sum == 0);
  // An exchange never names gradients that left early, and the next batch uses other memory.
  const char* const before = test.link.staged[0].pieces[0].data.Flatten().data();
  test.program->gradient = 1;
  Lease lease;
  lease.set_id(2);
  lease.set_end_batch(1);
  test.trainer->Take(lease);
  test.RunExecutor();
  REQUIRE(test.link.staged.size() == 2);
  CHECK(test.link.staged[1].pieces[0].data.Flatten().data() != before);
  CHECK(test.link.last_request.staged().id() == test.link.staged[1].header.staged().id());
  const StepCounters good = test.trainer->TakeCounters();
  CHECK(good.computed == 1);
  CHECK(good.loss_sum == 0.5);
}

TEST_CASE("with overlap gradients leave with their exchange") {
  TrainerFixture test(/*batches=*/1, /*overlap=*/true, /*others=*/1);
  test.AnswerWeight(1, 0);
  test.RunExecutor();
  CHECK(test.link.staged.empty());
  CHECK(test.link.last_pieces.size() == 2);
}

TEST_CASE("without overlap each batch is computed with what the push before brought back") {
  TrainerFixture test(/*batches=*/3);
  test.AnswerWeight(1, 0);
  for (uint32_t batch = 0; batch < 3; ++batch) {
    test.RunExecutor();
    CHECK(test.BatchUnderWay() == batch);
    CHECK_FALSE(test.executor.RunOne());
    test.AnswerWeight(static_cast<float>(batch) + 2, batch + 1);
  }
  CHECK(test.seen == std::vector<float>{1, 2, 3});
  CHECK(test.reports.back().ended());
  CHECK(test.reports.back().next() == 3);
}

TEST_CASE("with overlap a batch is computed while the one before travels, and not sent before it") {
  TrainerFixture test(/*batches=*/3, /*overlap=*/true);
  test.AnswerWeight(1, 0);
  test.RunExecutor();
  CHECK(test.BatchUnderWay() == 0);
  test.RunExecutor();  // batch 1
  CHECK(test.BatchUnderWay() == 0);
  test.AnswerWeight(2, 1);
  CHECK(test.BatchUnderWay() == 1);
  test.RunExecutor();  // batch 2
  test.AnswerWeight(3, 2);
  CHECK(test.BatchUnderWay() == 2);
  CHECK_FALSE(test.executor.RunOne());
  test.AnswerWeight(4, 3);
  CHECK(test.seen == std::vector<float>{1, 1, 2});
  CHECK(test.reports.back().ended());
  CHECK(test.reports.back().next() == 3);
}

TEST_CASE("what comes back while a batch is computed does not change the weights under it") {
  TrainerFixture test(/*batches=*/3, /*overlap=*/true);
  test.AnswerWeight(1, 0);
  test.RunExecutor();
  test.AnswerWeight(2, 1);  // before batch 1 is computed
  CHECK(test.link.calls.empty());
  test.RunExecutor();
  CHECK(test.BatchUnderWay() == 1);
  test.RunExecutor();
  CHECK(test.seen == std::vector<float>{1, 1, 2});
}

}  // namespace
}  // namespace paracord
