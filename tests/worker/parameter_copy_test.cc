#include "worker/parameter_copy.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>

#include "common/aligned_memory.h"
#include "common/shared_memory.h"
#include "exchange/codec.h"
#include "exchange/compression.h"
#include "exchange/encoding.h"
#include "tests/parts.h"
#include "tests/worker/copied_session.h"

namespace paracord {
namespace {

// A matrix in two partitions on two ps, and a moving average on the first.
struct DenseCopy : CopiedSession {
  DenseCopy() {
    VariableSpec matrix;
    matrix.set_name("kernel");
    matrix.add_shape(4);
    matrix.add_shape(100);
    matrix.set_trainable(true);
    VariableSpec average;
    average.set_name("moving_variance");
    average.add_shape(3);
    average.set_trainable(true);
    average.set_moving_average(0.9);
    variables = {matrix, average};
    Add(0, 0, 3, 0);
    Add(0, 3, 4, 1);
    Add(1, 0, 3, 0);
  }
};

BatchId BatchNumber(uint32_t number) {
  BatchId batch;
  batch.set_batch(number);
  return batch;
}

// Gives the copy partition 1 with an update count of 0.
void Give(ParameterCopy& copy) {
  ExchangeReply reply;
  PartitionState& state = *reply.add_partitions();
  state.set_partition(1);
  state.set_bytes(400);
  const absl::Cord whole =
      Joined(EncodeExchange(reply, {{1, 0, absl::Cord(std::string(400, '\0'))}}));
  REQUIRE(copy.TakeReply(1, {}, false, whole).ok());
}

// Returns the answer of a ps without values.
absl::Cord Answer(std::initializer_list<uint32_t> partitions, PushOutcome outcome) {
  ExchangeReply reply;
  for (const uint32_t id : partitions) {
    PartitionState& state = *reply.add_partitions();
    state.set_partition(id);
    state.set_outcome(outcome);
    state.set_next(1);
  }
  return absl::Cord(reply.SerializeAsString());
}

void Fill(ParameterCopy& copy, uint32_t buffer, float value) {
  copy.BeginBatch(buffer);
  copy.gradients().Prepare(buffer);
  for (const std::span<float> gradient : copy.gradients().arrays(buffer)) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = value * (1.0f + static_cast<float>(i % 100) / 128.0f);
    }
  }
}

bool EncodeAll(ParameterCopy& copy, uint32_t buffer) {
  bool finite = true;
  for (size_t v = 0; v < copy.values().size(); ++v) {
    finite = copy.gradients().Encode(buffer, v) && finite;
  }
  return finite;
}

TEST_CASE("parameters and gradients travel in the wire's type, moving averages in float32") {
  DenseCopy fixture;
  ParameterCopy copy(fixture.session, fixture.variables,
                     {.wire = ENCODING_BF16, .compression = {}});
  Fill(copy, 0, 1.0f + 0x1p-12f);
  REQUIRE(EncodeAll(copy, 0));
  ExchangeOrder order{.batch = BatchNumber(0)};
  const SentRequest request = Sent(copy, 0, order);
  REQUIRE(request.header.push_size() == 2);
  CHECK(request.header.push(0).encoding() == ENCODING_BF16);
  CHECK(request.header.push(0).bytes() == 600);
  CHECK(request.bytes.at(0).size() == 600);
  CHECK(request.bytes.at(0).substr(0, 2) == std::string("\x80\x3f", 2));
  CHECK(request.header.push(1).encoding() == ENCODING_FLOAT32);
  CHECK(request.bytes.at(2).size() == 12);
  CHECK(request.header.pull(0).encoding() == ENCODING_BF16);
  CHECK(request.header.pull(1).encoding() == ENCODING_FLOAT32);
  order = {};
  order.exact = true;
  CHECK(Sent(copy, 0, order).header.pull(0).encoding() == ENCODING_FLOAT32);
}

TEST_CASE("values of another encoding are not the copy that a pull speaks of") {
  DenseCopy fixture;
  ParameterCopy copy(fixture.session, fixture.variables,
                     {.wire = ENCODING_BF16, .compression = {}});
  ExchangeReply header;
  std::vector<PieceView> pieces;
  PartitionState& state = *header.add_partitions();
  state.set_partition(1);
  state.set_updates(7);
  state.set_bytes(200);
  const std::string ones = [] {
    std::string text;
    for (int i = 0; i < 100; ++i) text += std::string("\x80\x3f", 2);
    return text;
  }();
  // A piece may end between elements, but not within one.
  for (const uint64_t cut : {61u, 60u}) {
    pieces = {{1, 0, absl::Cord(ones.substr(0, cut))}, {1, cut, absl::Cord(ones.substr(cut))}};
    const absl::Cord whole = Joined(EncodeExchange(header, pieces));
    CHECK(copy.TakeReply(1, {}, false, whole).ok() == (cut % 2 == 0));
  }
  CHECK(copy.values()[0][300] == 1.0f);
  CHECK(copy.values()[0][399] == 1.0f);
  CHECK(Sent(copy, 1, {}).header.pull(0).known_version() == 7);
  ExchangeOrder exact;
  exact.exact = true;
  CHECK_FALSE(Sent(copy, 1, exact).header.pull(0).has_known_version());
}

TEST_CASE("only float32 values of partitions of that ps have a place to be received in") {
  DenseCopy fixture;
  ParameterCopy copy(fixture.session, fixture.variables, {});
  const auto* const matrix = reinterpret_cast<const char*>(copy.values()[0].data());
  CHECK(PlaceOf(copy, 0, {}, 0, 0, 1200) == matrix);
  CHECK(PlaceOf(copy, 0, {}, 0, 400, 800) == matrix + 400);
  CHECK(PlaceOf(copy, 1, {}, 1, 0, 400) == matrix + 1200);
  CHECK(PlaceOf(copy, 0, {}, 0, 0, 1201) == nullptr);
  CHECK(PlaceOf(copy, 0, {}, 0, 1201, 0) == nullptr);
  CHECK(PlaceOf(copy, 0, {}, 0, 4, UINT64_MAX) == nullptr);
  CHECK(PlaceOf(copy, 0, {}, 1, 0, 4) == nullptr);  // a partition of the other ps
  CHECK(PlaceOf(copy, 0, {}, 9, 0, 4) == nullptr);
  ParameterCopy half(fixture.session, fixture.variables,
                     {.wire = ENCODING_BF16, .compression = {}});
  CHECK(PlaceOf(half, 0, {}, 0, 0, 4) == nullptr);
  ExchangeOrder exact;
  exact.exact = true;
  CHECK(PlaceOf(half, 0, exact, 0, 0, 4) != nullptr);
  CHECK(PlaceOf(half, 0, {}, 2, 0, 12) != nullptr);  // moving averages are float32
}

TEST_CASE("what the copy does not have is not taken for current") {
  DenseCopy fixture;
  ParameterCopy copy(fixture.session, fixture.variables, {});
  ExchangeReply reply;
  CHECK_FALSE(copy.TakeReply(1, {}, false, absl::Cord(reply.SerializeAsString())).ok());
  PartitionState& state = *reply.add_partitions();
  state.set_partition(1);
  state.set_updates(7);
  CHECK(
      std::string(
          copy.TakeReply(1, {}, false, absl::Cord(reply.SerializeAsString())).status().message()) ==
      "ps:1 sends nothing of partition 1, which is not current");
  state.set_bytes(400);
  const absl::Cord whole =
      Joined(EncodeExchange(reply, {{1, 0, absl::Cord(std::string(400, 'x'))}}));
  REQUIRE(copy.TakeReply(1, {}, false, whole).ok());
  state.set_bytes(0);
  CHECK(copy.TakeReply(1, {}, false, absl::Cord(reply.SerializeAsString())).ok());
  state.set_updates(8);
  CHECK_FALSE(copy.TakeReply(1, {}, false, absl::Cord(reply.SerializeAsString())).ok());
}

TEST_CASE("a partition beyond its variable is none, and a reply is as large as its values") {
  DenseCopy fixture;
  fixture.Add(0, 3, 5, 1);  // the variable has four rows
  fixture.Add(0, 3, 2, 1);
  ParameterCopy copy(fixture.session, fixture.variables, {});
  CHECK(PlaceOf(copy, 1, {}, 3, 0, 4) == nullptr);
  CHECK(PlaceOf(copy, 1, {}, 4, 0, 4) == nullptr);
  CHECK(copy.Request(0, "worker:0", {}).reply_bytes_max > 1212);
  CHECK(copy.Request(0, "worker:0", {}).reply_bytes_max < 1212 + 100000);
}

TEST_CASE("nothing of a reply counts that is not valid after it was read") {
  DenseCopy fixture;
  const TransferOptions transfer{.wire = ENCODING_FLOAT32,
                                 .compression = {.kind = CompressionSpec::Kind::kInt8, .ratio = 0}};
  ParameterCopy copy(fixture.session, fixture.variables, transfer);
  Give(copy);
  ExchangeReply wrong;
  wrong.add_partitions()->set_partition(77);
  for (const absl::Cord& reply :
       {Answer({1}, PUSH_APPLIED), absl::Cord("\x0a\x7f"), absl::Cord(wrong.SerializeAsString())}) {
    const auto taken = copy.TakeReply(1, {.batch = BatchId()}, false, reply, [] { return false; });
    CHECK(absl::IsUnavailable(taken.status()));
    CHECK(taken.status().message() == "ps:1 took back the memory of a reply before it was read");
  }
  CHECK(Sent(copy, 1, {}).header.pull(0).known_version() == 0);
}

TEST_CASE("a push is entered whose values wait for a round, and the values stay what they were") {
  DenseCopy fixture;
  ParameterCopy copy(fixture.session, fixture.variables, {});
  Give(copy);
  const ExchangeOrder order{.batch = BatchNumber(0), .state = 5, .wait_ms = 250};
  copy.BeginBatch(0);
  copy.gradients().Prepare(0);
  const SentRequest sent = Sent(copy, 1, order);
  CHECK(sent.header.state() == 5);
  CHECK(sent.header.wait_ms() == 250);
  CHECK_FALSE(Sent(copy, 1, {.batch = BatchNumber(0)}).header.has_state());
  ExchangeReply reply;
  reply.set_waits(true);
  for (uint32_t lane = 40; lane-- > 0;) reply.add_missing(lane);
  const auto taken = [&] {
    return copy.TakeReply(1, order, false, absl::Cord(reply.SerializeAsString()));
  };
  CHECK(taken().status().message() == "ps:1 does not say what became of the push to partition 1");
  PartitionState& state = *reply.add_partitions();
  state.set_partition(1);
  state.set_outcome(PUSH_APPLIED);
  state.set_next(1);
  state.set_updates(9);
  const ExchangeOutcome outcome = taken().value();
  CHECK(outcome.waits);
  CHECK(outcome.missing.size() == 16);
  CHECK(outcome.applied);
  CHECK(outcome.next == 1);
  CHECK(outcome.staleness == 8);
  state.set_entered(3);  // rounds were entered while the answer waited
  CHECK(taken()->staleness == 5);
  state.set_entered(70);
  CHECK(taken()->staleness == 0);
  CHECK(Sent(copy, 1, {}).header.pull(0).known_version() == 0);
  state.set_partition(7);
  CHECK(taken().status().message() == "ps:1 answers for partition 7, which it was not asked for");
}

TEST_CASE("after a reply was lost all its values are asked for again") {
  DenseCopy fixture;
  ParameterCopy copy(fixture.session, fixture.variables, {});
  ExchangeReply header;
  PartitionState& state = *header.add_partitions();
  state.set_partition(1);
  state.set_updates(7);
  state.set_bytes(400);
  const absl::Cord whole =
      Joined(EncodeExchange(header, {{1, 0, absl::Cord(std::string(400, 'x'))}}));
  REQUIRE(copy.TakeReply(1, {}, false, whole).ok());
  CHECK(Sent(copy, 1, {}).header.pull(0).known_version() == 7);
  copy.ForgetValues(0);
  CHECK(Sent(copy, 1, {}).header.pull(0).known_version() == 7);
  copy.ForgetValues(1);
  CHECK_FALSE(Sent(copy, 1, {}).header.pull(0).has_known_version());
}

TEST_CASE(
    "values that are not whole or out of place are not taken for the version that they name") {
  DenseCopy fixture;
  ParameterCopy copy(fixture.session, fixture.variables, {});
  ExchangeReply header;
  PartitionState& state = *header.add_partitions();
  state.set_partition(1);
  state.set_updates(7);
  state.set_bytes(400);
  const auto take = [&](std::vector<std::pair<uint64_t, uint64_t>> places) {
    std::vector<PieceView> pieces;
    for (const auto& [offset, size] : places) {
      pieces.push_back({1, offset, absl::Cord(std::string(size, '\0'))});
    }
    const absl::Cord whole = Joined(EncodeExchange(header, pieces));
    return copy.TakeReply(1, {}, false, whole);
  };
  using Places = std::vector<std::pair<uint64_t, uint64_t>>;
  for (const Places& places :
       {Places{}, Places{{0, 200}}, Places{{0, 200}, {0, 200}}, Places{{0, 200}, {100, 200}},
        Places{{0, 404}}, Places{{400, 400}}, Places{{UINT64_MAX - 3, 400}}, Places{{2, 398}}}) {
    const auto taken = take(places);
    INFO(taken.status().ToString());
    CHECK(absl::IsInternal(taken.status()));
    CHECK_FALSE(Sent(copy, 1, {}).header.pull(0).has_known_version());
  }
  CHECK(take({{0, 200}, {200, 200}}).ok());
  CHECK(Sent(copy, 1, {}).header.pull(0).known_version() == 7);
}

// Decodes the gradient that a push has for the matrix's partition on ps 1.
std::vector<double> Meaning(const SentRequest& request, Encoding encoding) {
  std::vector<double> out(100, 0.0);
  const std::string& bytes = request.bytes.at(1);
  if (encoding == ENCODING_TOP_K) {
    for (size_t i = 0; i < bytes.size() / 8; ++i) {
      uint32_t index = 0;
      float value = 0;
      std::memcpy(&index, bytes.data() + 4 * i, 4);
      std::memcpy(&value, bytes.data() + bytes.size() / 2 + 4 * i, 4);
      out.at(index) = static_cast<double>(value);
    }
    return out;
  }
  float scale = 0;
  std::memcpy(&scale, bytes.data(), 4);
  for (size_t i = 0; i < 100; ++i) {
    out[i] = static_cast<double>(static_cast<int8_t>(bytes[4 + i])) * static_cast<double>(scale);
  }
  return out;
}

double Sum(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

// Returns the sum of Fill(value) over partition 1.
double Filled(double value) { return value * (100 + 4950.0 / 128); }

TEST_CASE("what was not sent goes with the next gradient, and only if this one was applied") {
  DenseCopy fixture;
  for (const auto kind : {CompressionSpec::Kind::kTopK, CompressionSpec::Kind::kInt8}) {
    const Encoding encoding = kind == CompressionSpec::Kind::kTopK ? ENCODING_TOP_K : ENCODING_INT8;
    const auto next_sum = [&](auto settle) {
      ParameterCopy copy(fixture.session, fixture.variables,
                         {.wire = ENCODING_FLOAT32, .compression = {kind, 0.1}});
      Give(copy);
      const ExchangeOrder order{.batch = BatchNumber(0)};
      Fill(copy, 0, 1.0f);
      REQUIRE(EncodeAll(copy, 0));
      const SentRequest first = Sent(copy, 1, order);
      CHECK(first.header.push(0).encoding() == encoding);
      CHECK(Sent(copy, 1, order).bytes == first.bytes);  // a repeated request is equal
      const double sent = Sum(Meaning(first, encoding));
      settle(copy, order);
      // The second gradient is zero, so it carries only the residual.
      Fill(copy, 0, 0.0f);
      REQUIRE(EncodeAll(copy, 0));
      ExchangeOrder second{.batch = BatchNumber(1)};
      double rest = 0;
      for (int step = 0; step < 40; ++step) {
        rest += Sum(Meaning(Sent(copy, 1, second), encoding));
        REQUIRE(copy.TakeReply(1, second, false, Answer({1}, PUSH_APPLIED)).ok());
        Fill(copy, 0, 0.0f);
        REQUIRE(EncodeAll(copy, 0));
      }
      return std::pair(sent, rest);
    };
    const auto applied = next_sum([](ParameterCopy& copy, const ExchangeOrder& order) {
      REQUIRE(copy.TakeReply(1, order, false, Answer({1}, PUSH_APPLIED)).ok());
    });
    CHECK(applied.first + applied.second == Approx(Filled(1)).epsilon(1e-5));
    // If another worker's gradient of this batch was applied, or none, this gradient is lost, with
    // its residual.
    for (const PushOutcome outcome : {PUSH_ALREADY_APPLIED, PUSH_GAP}) {
      const auto dropped = next_sum([&](ParameterCopy& copy, const ExchangeOrder& order) {
        REQUIRE(copy.TakeReply(1, order, false, Answer({1}, outcome)).ok());
      });
      CHECK(dropped.second == 0.0);
    }
    const auto unknown =
        next_sum([](ParameterCopy& copy, const ExchangeOrder&) { copy.ForgetResiduals(1); });
    CHECK(unknown.second == 0.0);
  }
}

TEST_CASE("a residual outlives a batch that was dropped, but not one of which nobody knows") {
  DenseCopy fixture;
  const auto rest_after = [&](PushOutcome outcome, bool repeated) {
    ParameterCopy copy(
        fixture.session, fixture.variables,
        {.wire = ENCODING_FLOAT32, .compression = {CompressionSpec::Kind::kTopK, 0.1}});
    Give(copy);
    ExchangeOrder order{.batch = BatchNumber(0)};
    Fill(copy, 0, 1.0f);
    REQUIRE(EncodeAll(copy, 0));
    const double sent = Sum(Meaning(Sent(copy, 1, order), ENCODING_TOP_K));
    REQUIRE(copy.TakeReply(1, order, false, Answer({1}, PUSH_APPLIED)).ok());
    Fill(copy, 1, 100.0f);
    REQUIRE(EncodeAll(copy, 1));
    order = {.batch = BatchNumber(1), .buffer = 1};
    REQUIRE(copy.TakeReply(1, order, repeated, Answer({1}, outcome)).ok());
    double rest = 0;
    for (int step = 0; step < 20; ++step) {
      Fill(copy, 0, 0.0f);
      REQUIRE(EncodeAll(copy, 0));
      order = {.batch = BatchNumber(2)};
      rest += Sum(Meaning(Sent(copy, 1, order), ENCODING_TOP_K));
      REQUIRE(copy.TakeReply(1, order, false, Answer({1}, PUSH_APPLIED)).ok());
    }
    return std::pair(rest, Filled(1) - sent);
  };
  const auto dropped = rest_after(PUSH_ALREADY_APPLIED, false);
  CHECK(dropped.first == Approx(dropped.second).epsilon(1e-5));
  const auto gap = rest_after(PUSH_GAP, true);
  CHECK(gap.first == Approx(gap.second).epsilon(1e-5));
  CHECK(rest_after(PUSH_ALREADY_APPLIED, true).first == 0.0);
}

TEST_CASE("values that a device copies are where it can copy them by itself, others are not") {
  REQUIRE(EnableSharedMemory());
  DenseCopy f;
  f.variables[0].set_shape(1, 100000);
  const ParameterCopy ordinary(f.session, f.variables);
  const ParameterCopy shared(f.session, f.variables, {}, ValuesIn::kShared);
  CHECK_FALSE(FindSharedSegment(ordinary.values()[0].data()).has_value());
  CHECK(FindSharedSegment(shared.values()[0].data()).has_value());
  CHECK(shared.values()[0].size() == 400000);
  CHECK(shared.values()[0][399999] == 0);
}

TEST_CASE("values and gradients begin where a plug-in for the processor reads them in place") {
  const DenseCopy fixture;
  const ValuesIn memory = GENERATE(ValuesIn::kOrdinary, ValuesIn::kShared);
  // Several copies, since one may be aligned by chance.
  std::vector<std::unique_ptr<ParameterCopy>> copies;
  for (int i = 0; i < 8; ++i) {
    copies.push_back(std::make_unique<ParameterCopy>(fixture.session, fixture.variables,
                                                     TransferOptions{}, memory));
    copies.back()->gradients().Prepare(0);
    for (const auto& values : copies.back()->values()) CHECK(IsArrayAligned(values.data()));
    for (const auto& gradient : copies.back()->gradients().arrays(0)) {
      CHECK(IsArrayAligned(gradient.data()));
    }
  }
}

}  // namespace
}  // namespace paracord
