// A session with two ps that answer as the test says.
#include "worker/ps_session.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exchange/codec.h"
#include "tests/fakes.h"
#include "tests/parts.h"

namespace paracord {
namespace {

using std::string_literals::operator""s;

class KeptCalls : public Link {
 public:
  void Call(std::string_view, Parts request, int64_t, ReplyFn done) override {
    const absl::Cord bytes = Joined(request);
    requests.push_back(DecodeExchangeRequest(bytes).value().header);
    calls.push_back(std::move(done));
  }
  const std::string& address() const override { return address_; }

  std::vector<ExchangeRequest> requests;
  std::vector<ReplyFn> calls;

 private:
  const std::string address_ = "unix:/ps";
};

class TwoWeights : public GradientProgram {
 public:
  TwoWeights() {
    for (const char* name : {"a", "b"}) {
      VariableSpec& weight = variables_.emplace_back();
      weight.set_name(name);
      weight.add_shape(1);
      weight.set_dtype(FLOAT32);
      weight.set_trainable(true);
    }
  }
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t, ConstTensors,
                                          MutableTensors) override {
    return 0;
  }
  absl::Status Evaluate(const Batch&, ConstTensors, std::vector<MetricState>&) override {
    return absl::UnimplementedError("no evaluation");
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch&, ConstTensors) override {
    return absl::UnimplementedError("no prediction");
  }

 private:
  std::vector<VariableSpec> variables_;
  std::vector<std::string> metric_names_;
};

// Two ps with one weight each.
struct TwoPs {
  explicit TwoPs(
      bool overlap, const std::function<void(Session&)>& change = [](Session&) {}) {
    for (uint32_t i = 0; i < 2; ++i) {
      opened.add_ps()->set_boot_id(i == 0 ? "a" : "b");
      PartitionSpec& partition = *opened.add_partitions();
      partition.set_id(i);
      partition.set_variable(i);
      partition.set_row_end(1);
      partition.set_ps(i);
    }
    change(opened);
    workload->program = std::make_unique<TwoWeights>();
    session = std::make_unique<PsSession>(
        PsSessionOptions{
            .task = "worker:0", .exchange_ms = 600, .transfer = {}, .overlap = overlap},
        opened, workload, std::vector<Link*>{&links[0], &links[1]},
        Environment{loop, network, files, executor, random}, [this](const std::string& why) {
          ended.push_back(why);
          session = nullptr;
        });
    session->Open([] {});
    loop.RunPosted();
  }
  void Answer(uint32_t ps, const ExchangeReply& reply, std::vector<PieceView> pieces = {}) {
    REQUIRE(links[ps].calls.size() == 1);
    const ReplyFn done = std::move(links[ps].calls[0]);
    links[ps].calls.clear();
    done(Joined(EncodeExchange(reply, std::move(pieces))));
    loop.RunPosted();
  }

  ManualLoop loop;
  ManualExecutor executor{loop};
  NoNetwork network;
  PosixFiles files;
  SeededRandom random{1};
  KeptCalls links[2];
  Session opened;
  const std::shared_ptr<Workload> workload = std::make_shared<Workload>();
  std::vector<std::string> ended;
  std::unique_ptr<PsSession> session;
};

TEST_CASE("a session that a reply ends takes none of the replies behind it") {
  TwoPs test(/*overlap=*/true);
  test.session->Exchange({}, nullptr, [](const ExchangeResult&) { FAIL("no exchange succeeds"); });
  const auto step = test.session->Begin(nullptr, 0);
  ExchangeReply reply;  // for a partition that nobody has
  reply.add_partitions()->set_partition(7);
  for (uint32_t ps = 0; ps < 2; ++ps) test.Answer(ps, reply);
  CHECK(test.ended.empty());  // values are being read
  test.session->End();
  CHECK(test.ended.size() == 1);
  CHECK(test.session == nullptr);
}

ExchangeReply WaitsFor(std::vector<uint32_t> lanes) {
  ExchangeReply reply;
  reply.set_waits(true);
  for (const uint32_t lane : lanes) reply.add_missing(lane);
  return reply;
}

// Returns a ps's weight after `updates` updates.
ExchangeReply Weight(uint32_t ps, uint64_t updates) {
  ExchangeReply reply;
  PartitionState& state = *reply.add_partitions();
  state.set_partition(ps);
  state.set_updates(updates);
  state.set_bytes(sizeof(float));
  return reply;
}

TEST_CASE("an exchange waits if one of its ps does, and none of the ps is taken for dead") {
  TwoPs test(/*overlap=*/false);
  std::vector<ExchangeResult> results;
  const auto pull = [&] {
    ExchangeOrder order;
    order.state = 7;
    test.session->Exchange(std::move(order), nullptr,
                           [&](const ExchangeResult& result) { results.push_back(result); });
  };
  const float value = 2.5f;
  const absl::Cord bytes(absl::string_view(reinterpret_cast<const char*>(&value), sizeof(value)));
  pull();
  CHECK(test.links[0].requests.back().state() == 7);
  CHECK(test.links[0].requests.back().wait_ms() == 100);
  test.Answer(0, Weight(0, 3), {{0, 0, bytes}});
  CHECK(results.empty());
  test.Answer(1, WaitsFor({1, 4}));
  REQUIRE(results.size() == 1);
  CHECK(results[0].error.ok());
  CHECK(results[0].outcome.waits);
  CHECK(results[0].outcome.missing == std::vector<uint32_t>{1, 4});
  for (int i = 0; i < 5; ++i) {  // more often than a silent ps is called
    pull();
    CHECK(test.links[0].requests.back().pull(0).known_version() == 3);
    CHECK_FALSE(test.links[1].requests.back().pull(0).has_known_version());
    test.Answer(0, WaitsFor({2, 4}));
    test.Answer(1, WaitsFor({1}));
    CHECK(results.back().error.ok());
    CHECK(results.back().outcome.missing == std::vector<uint32_t>{1, 2, 4});
  }
  pull();
  test.Answer(1, Weight(1, 1), {{1, 0, bytes}});
  ExchangeReply same;
  same.add_partitions()->set_updates(3);
  test.Answer(0, same);
  CHECK_FALSE(results.back().outcome.waits);
  CHECK(test.session->values().tensors[0][0] == 2.5f);
  CHECK(test.session->values().tensors[1][0] == 2.5f);
}

TEST_CASE("a ps that lets a pull wait and cannot ends the session") {
  struct Case {
    bool asks;
    bool pieces;
    const char* said;
  };
  for (const Case& one : {Case{false, false, "ps:0 lets wait who asked for no state"},
                          Case{true, true, "ps:0 sends values and says that they are not there"}}) {
    TwoPs test(/*overlap=*/false);
    ExchangeOrder order;
    if (one.asks) order.state = 1;
    test.session->Exchange(std::move(order), nullptr,
                           [](const ExchangeResult&) { FAIL("no exchange succeeds"); });
    std::vector<PieceView> pieces;
    if (one.pieces) pieces.push_back({0, 0, absl::Cord("four")});
    test.Answer(0, WaitsFor({1}), std::move(pieces));
    CHECK(test.ended == std::vector<std::string>{one.said});
  }
}

TEST_CASE("an exchange leaves out a ps that is away and holds nothing of the session") {
  TwoPs test(/*overlap=*/false, [](Session& session) {
    for (PartitionSpec& partition : *session.mutable_partitions()) partition.set_ps(1);
    session.mutable_ps(0)->clear_boot_id();
  });
  std::vector<ExchangeResult> results;
  test.session->Exchange({}, nullptr,
                         [&](const ExchangeResult& result) { results.push_back(result); });
  CHECK(test.links[0].calls.empty());
  test.loop.Advance(2000);
  CHECK(test.session->WaitsFor() == "ps:1 for 2 s (no answer yet)");
  ExchangeReply reply = Weight(0, 3);
  *reply.add_partitions() = Weight(1, 3).partitions(0);
  test.Answer(1, reply, {{0, 0, absl::Cord("\0\0\0\0"s)}, {1, 0, absl::Cord("\0\0\0\0"s)}});
  REQUIRE(results.size() == 1);
  CHECK(results[0].error.ok());
  CHECK_FALSE(results[0].outcome.waits);
}

TEST_CASE("an exchange is over when every holder has answered, and fails if one does not") {
  for (const uint32_t silent : {0u, 1u}) {
    TwoPs test(/*overlap=*/false, [](Session& session) {
      session.mutable_partitions()->DeleteSubrange(1, 1);
      session.mutable_partitions(0)->add_copies(1);
    });
    std::vector<ExchangeResult> results;
    const auto pull = [&] {
      ExchangeOrder order;
      order.state = 3;
      test.session->Exchange(std::move(order), nullptr,
                             [&](const ExchangeResult& result) { results.push_back(result); });
    };
    const auto answer = [&](uint32_t ps) {
      ExchangeReply reply = Weight(0, 3);
      if (ps == 1) reply.mutable_partitions(0)->clear_bytes();
      std::vector<PieceView> pieces;
      if (ps == 0) pieces.push_back({0, 0, absl::Cord("\0\0\0\0"s)});
      test.Answer(ps, reply, std::move(pieces));
    };
    pull();
    CHECK_FALSE(test.links[0].requests.back().pull(0).state_only());
    CHECK(test.links[1].requests.back().pull(0).state_only());
    answer(1 - silent);
    CHECK(results.empty());
    answer(silent);
    REQUIRE(results.size() == 1);
    CHECK(results[0].error.ok());
    pull();
    test.Answer(1 - silent, WaitsFor({2}));
    for (int i = 0; i < 3; ++i) {
      REQUIRE(results.size() == 1);
      REQUIRE(test.links[silent].calls.size() == 1);
      const ReplyFn done = std::move(test.links[silent].calls[0]);
      test.links[silent].calls.clear();
      done(absl::UnavailableError("the ps is dead"));
      test.loop.Advance(100);
    }
    REQUIRE(results.size() == 2);
    CHECK(absl::IsUnavailable(results[1].error));
  }
}

}  // namespace
}  // namespace paracord
