// Exchanges that wait because slow readers pin too many bytes.
#include <algorithm>
#include <sstream>
#include <thread>

#include "monitor/metric_set.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"
#include "tests/parts.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

constexpr uint64_t kBytes = 600 * 500 * sizeof(float);  // bytes that a reply to a pull pins
constexpr int64_t kPatienceMs = 20000;

TestModel OneMatrix() {
  TestModel model;
  model.variables = {TestVariable("dense/kernel", {600, 500})};
  model.partitions = {TestPartition(0, 0, "dense/kernel/part_0", 0, 600)};
  return model;
}

// A ps that may pin one byte less than a copy of its values, and a reader that pins all values.
struct SlowReader {
  using CallPtr = std::shared_ptr<FakeCall>;

  SlowReader() {
    ps.Ready();
    Hold(slow);
    REQUIRE(ps.Describe().pinned_bytes() == 0);
    REQUIRE(Push()->answered == 1);
    REQUIRE(ps.Describe().pinned_bytes() == kBytes);
  }
  CallPtr Send(const DecodedRequest& request) {
    const absl::Cord whole = Joined(EncodeExchange(request.header, request.pieces));
    return SendBytes(whole);
  }
  CallPtr SendBytes(const absl::Cord& bytes) {
    auto call = std::make_shared<FakeCall>();
    ps.ps->Handle(method::kExchange, bytes, call);
    ps.loop.RunPosted();
    return call;
  }
  // Returns a push of the next batch. The ps answers "gap" if batches run out of order.
  DecodedRequest NextPush(bool pull = false) {
    DecodedRequest request = ps.PushOf(0, next++, 1.0f);
    if (pull) ps.AddPulls(request);
    return request;
  }
  CallPtr Push(bool pull = false) { return Send(NextPush(pull)); }
  void Hold(CallPtr& reader) {
    DecodedRequest pull;
    *pull.header.mutable_fence() = ps.MakeFence();
    ps.AddPulls(pull);
    reader = Send(pull);
    REQUIRE(reader->answered == 1);
  }
  static void LetGo(const CallPtr& reader) { reader->reply = absl::UnknownError("let go"); }
  static bool Applied(const CallPtr& call) {
    if (call->answered != 1 || !call->reply.ok()) return false;
    const auto reply = DecodeExchangeReply(*call->reply);
    return reply.ok() && reply->header.partitions(0).outcome() == PUSH_APPLIED;
  }
  uint64_t Waiting() { return ps.Describe().waiting_exchanges(); }
  uint64_t Updates() { return ps.Describe().partitions(0).updates(); }

  TestPs ps{OneMatrix(), "", 0, kBytes - 1};
  CallPtr slow;
  uint32_t next = 0;
};

TEST_CASE("exchanges wait for slow readers and go on in order, decided on the loop") {
  SlowReader test;
  const auto first = test.Push();
  const auto second = test.Push();
  const auto third = test.Push();
  CHECK(first->answered == 0);
  CHECK(test.Waiting() == 3);
  CHECK(test.Updates() == 1);
  std::thread([&] { SlowReader::LetGo(test.slow); }).join();
  CHECK(first->answered == 0);  // the reader's thread must not run the exchange
  test.ps.loop.RunPosted();
  CHECK(SlowReader::Applied(first));
  CHECK(SlowReader::Applied(second));
  CHECK(SlowReader::Applied(third));
  CHECK(test.Waiting() == 0);
  CHECK(test.ps.Describe().pinned_bytes() == 0);
  CHECK(SlowReader::Applied(test.Push()));
}

TEST_CASE("exchanges that go on are answered on the executor, one at a time, not on the loop") {
  SlowReader test;
  const auto first = test.Push();
  const auto second = test.Push();
  test.ps.executor.set_at_once(false);
  SlowReader::LetGo(test.slow);
  test.ps.loop.RunPosted();
  CHECK(first->answered == 0);
  REQUIRE(test.ps.executor.RunOne());
  CHECK(SlowReader::Applied(first));
  CHECK_FALSE(test.ps.executor.RunOne());  // the loop has not yet learnt that the first is done
  test.ps.loop.RunPosted();
  CHECK(second->answered == 0);
  REQUIRE(test.ps.executor.RunOne());
  CHECK(SlowReader::Applied(second));
}

TEST_CASE("an exchange that went on makes the next wait again, if its reader is slow") {
  SlowReader test;
  const auto first = test.Push(/*pull=*/true);
  const auto second = test.Push();
  const auto third = test.Push();
  SlowReader::LetGo(test.slow);
  test.ps.loop.RunPosted();
  CHECK(SlowReader::Applied(first));
  CHECK(SlowReader::Applied(second));  // replaces the chunks that the first one's reply pins
  CHECK(third->answered == 0);
  test.ps.loop.Advance(kPatienceMs - 1);  // patience begins anew with each exchange
  CHECK(third->answered == 0);
  SlowReader::LetGo(first);
  test.ps.loop.RunPosted();
  CHECK(SlowReader::Applied(third));
}

TEST_CASE("a limit that is reached and not exceeded holds nobody up, and neither do snapshots") {
  SlowReader test;
  SlowReader::LetGo(test.slow);
  test.ps.executor.set_at_once(false);
  const auto snapshot = test.ps.Send(method::kSnapshot, test.ps.SnapshotOrder(1));
  for (int i = 0; i < 3; ++i) CHECK(SlowReader::Applied(test.Push()));
  CHECK(test.ps.Describe().pinned_bytes() == 0);
  test.ps.executor.RunOne();
  test.ps.loop.RunPosted();
  CHECK(snapshot->reply.ok());

  TestPs exact(OneMatrix(), "", 0, kBytes);
  exact.Ready();
  const auto held = std::make_shared<FakeCall>();
  DecodedRequest pull;
  *pull.header.mutable_fence() = exact.MakeFence();
  exact.AddPulls(pull);
  exact.ps->Handle(method::kExchange, EncodeExchange(pull.header, {})[0], held);
  for (uint32_t batch = 0; batch < 3; ++batch) {
    CHECK(exact.Exchange(exact.PushOf(0, batch, 1.0f)).ok());
  }
  CHECK(exact.Describe().pinned_bytes() == kBytes);
}

TEST_CASE("values in another encoding are copies: each counts until its reader lets go") {
  SlowReader test;
  SlowReader::LetGo(test.slow);
  DecodedRequest pull;
  *pull.header.mutable_fence() = test.ps.MakeFence();
  test.ps.AddPulls(pull);
  pull.header.mutable_pull(0)->set_encoding(ENCODING_BF16);
  const auto first = test.Send(pull);
  REQUIRE(first->reply.ok());
  CHECK(test.ps.Describe().pinned_bytes() == kBytes / 2);
  CHECK(SlowReader::Applied(test.Push()));  // replaces the values of which the pull sent a copy
  CHECK(test.ps.Describe().pinned_bytes() == kBytes / 2);
  pull.header.mutable_pull(0)->set_encoding(ENCODING_F16);
  const auto second = test.Send(pull);
  REQUIRE(second->reply.ok());
  CHECK(test.ps.Describe().pinned_bytes() == kBytes);
  const auto third = test.Send(pull);
  const auto push = test.Push();
  CHECK(third->answered == 0);
  SlowReader::LetGo(first);
  test.ps.loop.RunPosted();
  CHECK(third->answered == 1);
  CHECK(push->answered == 0);
  SlowReader::LetGo(second);
  test.ps.loop.RunPosted();
  CHECK(SlowReader::Applied(push));
  SlowReader::LetGo(third);
  CHECK(test.ps.Describe().pinned_bytes() == 0);
}

TEST_CASE("a reader that never lets go holds the others up once") {
  SlowReader test;
  const auto first = test.Push();
  test.ps.loop.Advance(kPatienceMs / 2);
  const auto second = test.Push();
  first->Cancel();  // the deadline has passed; the worker sends it again
  CHECK(test.Waiting() == 1);
  test.next = 1;
  const auto again = test.Push();
  test.ps.loop.Advance(kPatienceMs / 2 - 1);
  CHECK(again->answered == 0);
  test.ps.loop.Advance(1);
  CHECK(first->answered == 0);
  CHECK(second->answered == 1);  // answered "gap", since the first was given up
  CHECK(SlowReader::Applied(again));
  CHECK(SlowReader::Applied(test.Push()));
  CHECK(test.ps.Describe().pinned_bytes() == kBytes);

  // The forgiven bytes no longer count, but bytes pinned later do.
  SlowReader::CallPtr other;
  test.Hold(other);
  CHECK(SlowReader::Applied(test.Push()));
  const auto third = test.Push();
  CHECK(third->answered == 0);
  SlowReader::LetGo(other);
  test.ps.loop.RunPosted();
  CHECK(SlowReader::Applied(third));

  // Once the forgiven reader lets go, the old limit holds again.
  SlowReader::LetGo(test.slow);
  test.Hold(other);
  CHECK(SlowReader::Applied(test.Push()));
  CHECK(test.Push()->answered == 0);
}

// Collects all log lines during its lifetime.
class Log {
 public:
  Log() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(log_)));
  }
  ~Log() { spdlog::set_default_logger(usual_); }
  std::string text() const { return log_.str(); }
  int64_t lines() const { return std::ranges::count(text(), '\n'); }

 private:
  std::ostringstream log_;
  const std::shared_ptr<spdlog::logger> usual_ = spdlog::default_logger();
};

TEST_CASE("the log says that exchanges waited, if it was long, at most once a minute") {
  SlowReader test;
  const Log log;
  const auto wait = [&](int64_t ms) {
    const auto push = test.Push();
    CHECK(push->answered == 0);
    test.ps.loop.Advance(ms);
    SlowReader::LetGo(test.slow);
    test.ps.loop.RunPosted();
    CHECK(SlowReader::Applied(push));
    test.Hold(test.slow);
    CHECK(SlowReader::Applied(test.Push()));
  };
  wait(999);
  CHECK(log.text().empty());
  wait(1000);
  CHECK(log.lines() == 1);
  CHECK(log.text().find("ps:0 exchanges waited 1000 ms for readers that held more than "
                        "1.1 MiB of replaced or converted values (the less of --pinned-mb and its "
                        "share of --memory-limit)") != std::string::npos);
  wait(5000);
  CHECK(log.lines() == 1);
}

TEST_CASE("the log says once that patience was lost, with what it is about") {
  SlowReader test;
  const Log log;
  const auto first = test.Push();
  test.ps.loop.Advance(kPatienceMs - 1);
  CHECK(log.text().empty());
  test.ps.loop.Advance(1);
  CHECK(SlowReader::Applied(first));
  CHECK(log.lines() == 1);
  CHECK(log.text().find("ps:0 readers hold 1.1 MiB of replaced or converted values for 20000 ms, "
                        "and may hold 1.1 MiB (the less of --pinned-mb and its share of "
                        "--memory-limit): exchanges wait for them no longer") != std::string::npos);
  // A second reader within the same minute gets no second line.
  SlowReader::CallPtr other;
  test.Hold(other);
  CHECK(SlowReader::Applied(test.Push()));
  const auto second = test.Push();
  CHECK(second->answered == 0);
  test.ps.loop.Advance(kPatienceMs);
  CHECK(SlowReader::Applied(second));
  CHECK(log.lines() == 1);
}

TEST_CASE("whoever waits for slow readers is answered when the ps goes or is taken over") {
  SlowReader test;
  const auto first = test.Push();
  CHECK(test.ps.Adopt(2).ok());
  CHECK(first->answered == 1);
  CHECK(absl::IsAborted(first->reply.status()));
  CHECK(test.Waiting() == 0);
  test.next = 1;
  const auto second = test.Push();
  CHECK(second->answered == 0);
  test.ps.ps.reset();
  CHECK(second->answered == 1);
  CHECK(absl::IsUnavailable(second->reply.status()));
  SlowReader::LetGo(test.slow);  // the ps is already destroyed
  test.ps.loop.Advance(10 * kPatienceMs);
  CHECK(second->answered == 1);
}

TEST_CASE("exchanges that find no place to wait, or wait in vain, count as failed") {
  SlowReader test;
  const auto failures = [&] {
    MetricSet metrics;
    test.ps.ps->AddMetrics(metrics);
    const std::string text = metrics.Text(), name = "\nparacord_ps_exchange_failures_total ";
    return std::stoi(text.substr(text.find(name) + name.size()));
  };
  std::vector<SlowReader::CallPtr> waiting;
  for (int i = 0; i < 1024; ++i) waiting.push_back(test.SendBytes(absl::Cord("x")));
  CHECK(test.Waiting() == 1024);
  CHECK(failures() == 0);
  const auto refused = test.SendBytes(absl::Cord("x"));
  CHECK(absl::IsResourceExhausted(refused->reply.status()));
  CHECK(failures() == 1);
  CHECK(test.ps.Adopt(2).ok());
  CHECK(absl::IsAborted(waiting.back()->reply.status()));
  CHECK(failures() == 1025);
}

TEST_CASE("an exchange outlives the Load that drops what slow readers hold") {
  SlowReader test;
  const auto waiting = test.Push();
  CHECK(test.ps.Adopt(2).ok());
  CHECK(test.ps.Load().ok());
  CHECK(waiting->answered == 1);
  CHECK(test.ps.Describe().pinned_bytes() == kBytes);
  SlowReader::LetGo(test.slow);
  CHECK(test.ps.Describe().pinned_bytes() == 0);
  // A Load replaces the values that it drops.
  test.Hold(test.slow);
  CHECK(test.ps.Adopt(3).ok());
  CHECK(test.ps.Load().ok());
  CHECK(test.ps.Describe().pinned_bytes() == kBytes);
}

TEST_CASE("a bad request that waited harms nobody") {
  SlowReader test;
  DecodedRequest stale = test.NextPush();
  stale.header.mutable_fence()->set_generation(7);
  DecodedRequest wrong = test.NextPush();
  wrong.header.mutable_push(0)->set_partition(9);
  test.next = 1;
  const std::vector<SlowReader::CallPtr> bad = {test.SendBytes(absl::Cord("\x0a\x7f")),
                                                test.SendBytes(absl::Cord()), test.Send(stale),
                                                test.Send(wrong)};
  const auto good = test.Push();
  for (const auto& call : bad) CHECK(call->answered == 0);
  SlowReader::LetGo(test.slow);
  test.ps.loop.RunPosted();
  CHECK(absl::IsInvalidArgument(bad[0]->reply.status()));
  CHECK_FALSE(bad[1]->reply.ok());
  CHECK(absl::IsAborted(bad[2]->reply.status()));
  CHECK(absl::IsInvalidArgument(bad[3]->reply.status()));
  for (const auto& call : bad) CHECK(call->answered == 1);
  CHECK(SlowReader::Applied(good));
  CHECK(test.Updates() == 2);
}

TEST_CASE("so many exchanges wait and no more") {
  SlowReader test;
  const DecodedRequest push = test.NextPush();
  std::vector<SlowReader::CallPtr> calls;
  for (int i = 0; i < 1024; ++i) calls.push_back(test.Send(push));
  CHECK(calls.back()->answered == 0);
  CHECK(absl::IsResourceExhausted(test.Send(push)->reply.status()));
  SlowReader::LetGo(test.slow);
  test.ps.loop.RunPosted();
  CHECK(SlowReader::Applied(calls.front()));
  for (const auto& call : calls) CHECK(call->answered == 1);
  CHECK(test.Updates() == 2);
}

}  // namespace
}  // namespace paracord
