// Gradients that leave before their batch is computed.
#include "worker/staged_push.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "exchange/codec.h"
#include "proto/protocol.h"
#include "tests/fakes.h"
#include "tests/parts.h"

namespace paracord {
namespace {

constexpr uint64_t kRow = 1024;                     // elements
constexpr uint64_t kEnough = kRow * sizeof(float);  // enough for a call to a ps

struct SentCall {
  std::string method;
  DecodedRequest request;
  ReplyFn done;
};

class KeepingLink : public Link {
 public:
  void Call(std::string_view method, Parts request, int64_t, ReplyFn done) override {
    const absl::Cord bytes = Joined(request);
    calls.push_back({std::string(method), DecodeExchangeRequest(bytes).value(), std::move(done)});
  }
  const std::string& address() const override { return address_; }
  bool shares_memory() const override { return shares; }

  std::vector<SentCall> calls;
  bool shares = false;

 private:
  const std::string address_ = "ps";
};

// Four variables of one row, "v0" to "v3", on two ps. v1 has a half on each.
struct StagedPushFixture {
  explicit StagedPushFixture(const TransferOptions& transfer = {}) {
    session.set_run_id("run");
    for (const char* boot : {"a", "b"}) session.add_ps()->set_boot_id(boot);
    for (uint32_t v = 0; v < 4; ++v) {
      VariableSpec& variable = variables.emplace_back();
      variable.set_name(absl::StrCat("v", v));
      variable.add_shape(kRow);
      variable.set_trainable(true);
      if (v == 1) {
        Partition(v, 0, kRow / 2, 0);
        Partition(v, kRow / 2, kRow, 1);
      } else {
        Partition(v, 0, kRow, v % 2);
      }
    }
    copy = std::make_shared<ParameterCopy>(session, variables, transfer);
    copy->BeginBatch(0);
    copy->gradients().Prepare(0);
    for (size_t v = 0; v < 4; ++v) {
      std::ranges::fill(copy->gradients().arrays(0)[v], static_cast<float>(v + 1));
    }
  }
  void Partition(uint32_t variable, uint64_t begin, uint64_t end, uint32_t ps) {
    PartitionSpec& partition = *session.add_partitions();
    partition.set_id(static_cast<uint32_t>(session.partitions_size()) + 9);
    partition.set_variable(variable);
    partition.set_row_begin(begin);
    partition.set_row_end(end);
    partition.set_ps(ps);
  }
  std::shared_ptr<StagedPushSender> Begin() {
    return std::make_shared<StagedPushSender>(StagedPushOptions{"worker:0", 1000, kEnough}, copy, 0,
                                              std::vector<Link*>{&links[0], &links[1]},
                                              Environment{loop, network, files, executor, random},
                                              gate->Hold(), pauses);
  }
  // Finishes v3 and v1, which is enough for a call.
  std::shared_ptr<StagedPushSender> BeginAndSend() {
    std::shared_ptr<StagedPushSender> early = Begin();
    CHECK(early->Add(3));
    CHECK(early->Add(1));
    loop.RunPosted();
    return early;
  }
  // Returns the request of the exchange with `ps`.
  DecodedRequest Exchange(const StagedPushSender& early, uint32_t ps) const {
    ExchangeOrder order;
    order.batch.emplace();
    const absl::Cord bytes = Joined(copy->Request(ps, "worker:0", order, early.For(ps)).parts);
    return DecodeExchangeRequest(bytes).value();
  }

  ManualLoop loop;
  ManualExecutor executor{loop};
  NoNetwork network;
  PosixFiles files;
  SeededRandom random{1};
  KeepingLink links[2];
  Session session;
  std::vector<VariableSpec> variables;
  std::shared_ptr<ParameterCopy> copy;
  std::shared_ptr<StagedPushPauses> pauses = std::make_shared<StagedPushPauses>(2);
  std::optional<Gate> gate{std::in_place};  // gate of the session that owns the links
};

// Returns the bytes of pieces, by partition.
std::map<uint32_t, uint64_t> BytesOf(const DecodedRequest& request) {
  std::map<uint32_t, uint64_t> bytes;
  for (const PieceView& piece : request.pieces) bytes[piece.partition] += piece.data.size();
  return bytes;
}

TEST_CASE("gradients leave when there are enough of them, and the exchange carries the others") {
  StagedPushFixture test;
  const auto early = test.Begin();
  CHECK(early->Add(3));
  test.loop.RunPosted();
  CHECK(test.links[1].calls.empty());  // not enough yet
  CHECK(early->Add(1));
  test.loop.RunPosted();
  REQUIRE(test.links[0].calls.size() == 1);
  REQUIRE(test.links[1].calls.size() == 1);
  const SentCall& first = test.links[0].calls[0];
  const SentCall& second = test.links[1].calls[0];
  CHECK(first.method == method::kStage);
  const uint64_t row = kRow * sizeof(float);
  CHECK(BytesOf(first.request) == std::map<uint32_t, uint64_t>{{11, row / 2}});
  CHECK(BytesOf(second.request) == std::map<uint32_t, uint64_t>{{12, row / 2}, {14, row}});
  CHECK(first.request.header.fence().boot_id() == "a");
  CHECK(first.request.header.staged().id() == second.request.header.staged().id());
  CHECK_FALSE(first.request.header.staged().id().empty());
  CHECK(early->Add(2));
  CHECK(early->Add(0));
  test.loop.RunPosted();
  CHECK(test.links[0].calls.size() == 1);  // the exchange follows at once

  const DecodedRequest to_first = test.Exchange(*early, 0);
  CHECK(BytesOf(to_first) == std::map<uint32_t, uint64_t>{{10, row}, {13, row}});
  CHECK(to_first.header.staged().calls() == 1);
  CHECK(to_first.header.staged().id() == first.request.header.staged().id());
  CHECK(to_first.header.push_size() == 3);  // every partition is named
  for (const PartitionPush& push : to_first.header.push()) CHECK(push.bytes() > 0);
  CHECK(BytesOf(test.Exchange(*early, 1)).empty());
}

TEST_CASE("a ps that has no room gets everything with the exchange, the other one does not") {
  StagedPushFixture test;
  const auto early = test.BeginAndSend();
  CHECK_FALSE(early->any_refused());
  test.links[0].calls.at(0).done(absl::ResourceExhaustedError("no room"));
  test.loop.RunPosted();
  CHECK(early->any_refused());
  CHECK(early->For(0) == nullptr);
  CHECK(BytesOf(test.Exchange(*early, 0)).size() == 3);
  CHECK_FALSE(test.Exchange(*early, 0).header.has_staged());
  CHECK(early->For(1) != nullptr);
}

TEST_CASE("after a refusal nothing leaves early for that ps, for a while") {
  StagedPushFixture test;
  test.Begin()->Refused(0);
  const auto calls_of_a_batch = [&] {
    for (KeepingLink& link : test.links) link.calls.clear();
    const auto early = test.Begin();
    for (const size_t v : {3u, 1u, 2u, 0u}) CHECK(early->Add(v));
    test.loop.RunPosted();
    CHECK((early->For(0) != nullptr) == !test.links[0].calls.empty());
    return std::pair(test.links[0].calls.size(), test.links[1].calls.size());
  };
  CHECK(calls_of_a_batch() == std::pair<size_t, size_t>(0, 2));
  test.loop.Advance(29000);
  CHECK(calls_of_a_batch().first == 0);
  test.loop.Advance(1000);
  CHECK(calls_of_a_batch() == std::pair<size_t, size_t>(1, 1));
}

TEST_CASE("nothing leaves early for a ps that reads gradients where they lie") {
  StagedPushFixture test;
  test.links[1].shares = true;
  const auto early = test.BeginAndSend();
  CHECK(test.links[0].calls.size() == 1);
  CHECK(test.links[1].calls.empty());
  CHECK(early->For(1) == nullptr);
  CHECK(BytesOf(test.Exchange(*early, 1)).size() == 2);
}

TEST_CASE("a gradient that is not finite does not leave, nor what overflows in the wire's type") {
  for (const bool overflows : {false, true}) {
    StagedPushFixture test(
        {.wire = overflows ? ENCODING_F16 : ENCODING_FLOAT32, .compression = {}});
    test.copy->gradients().arrays(0)[1][7] =
        overflows ? 1e6f : std::numeric_limits<float>::quiet_NaN();
    const auto early = test.Begin();
    CHECK(early->Add(3));
    CHECK_FALSE(early->Add(1));
    test.loop.RunPosted();
    CHECK(test.links[1].calls.empty());
  }
}

TEST_CASE("gradients leave as the wire has them") {
  StagedPushFixture test({.wire = ENCODING_BF16, .compression = {}});
  const auto early = test.BeginAndSend();
  CHECK(BytesOf(test.links[1].calls.at(0).request) ==
        std::map<uint32_t, uint64_t>{{12, kRow}, {14, 2 * kRow}});
  CHECK(std::string(test.links[1].calls[0].request.pieces[1].data).substr(0, 2) == "\x80\x40");
}

TEST_CASE("once the session is over nothing leaves") {
  StagedPushFixture test;
  const auto early = test.Begin();
  CHECK(early->Add(3));
  CHECK(early->Add(1));
  test.gate.reset();
  test.loop.RunPosted();
  CHECK(test.links[0].calls.empty());
  CHECK(test.links[1].calls.empty());
}

}  // namespace
}  // namespace paracord
