// Values and gradients in every encoding, compared with float32.
#include "exchange/encoding.h"

#include <cmath>
#include <functional>
#include <limits>

#include "common/finite.h"
#include "exchange/compression.h"
#include "store/dense_partition.h"
#include "store/gradient.h"
#include "store/store.h"
#include "tests/parts.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

Floats Noise(size_t size, uint64_t seed) {
  SeededRandom random(seed);
  Floats values(size);
  for (float& value : values) value = static_cast<float>(random.Between(-4000, 4000)) / 4096.0f;
  return values;
}

// An encoded gradient, and the float32 values that it stands for.
struct Sent {
  std::string bytes;
  Floats means;
};

Sent Encoded(Encoding encoding, const Floats& gradient, double ratio = 0.1) {
  Sent sent;
  sent.means = gradient;
  if (IsDense(encoding)) {
    std::vector<uint64_t> aligned(gradient.size() * ElementBytes(encoding) / 8 + 1);
    char* const to = reinterpret_cast<char*>(aligned.data());
    EncodeDense(encoding, gradient, to);
    sent.bytes.assign(to, gradient.size() * ElementBytes(encoding));
    DecodeDense(encoding, absl::Cord(sent.bytes), sent.means);
    return sent;
  }
  Floats rest = gradient;
  std::vector<char> out(encoding == ENCODING_INT8 ? Int8Bytes(gradient.size())
                                                  : 8 * TopKCount(gradient.size(), ratio));
  REQUIRE(
      (encoding == ENCODING_INT8 ? EncodeInt8(rest, out, 0, rest.size()) : EncodeTopK(rest, out)));
  sent.bytes.assign(out.begin(), out.end());
  for (size_t i = 0; i < rest.size(); ++i) sent.means[i] -= rest[i];
  return sent;
}

constexpr Encoding kEncodings[] = {ENCODING_FLOAT32, ENCODING_BF16, ENCODING_F16, ENCODING_INT8,
                                   ENCODING_TOP_K};

TEST_CASE("a gradient in any encoding and any pieces is applied as what it stands for") {
  constexpr size_t kElements = 600001;  // three chunks, of which the last is short
  const Floats gradient = Noise(kElements, 11);
  for (const char* name : {"sgd", "adagrad", "adam"}) {
    for (const Encoding encoding : kEncodings) {
      CAPTURE(name, encoding);
      const Optimizer optimizer = ParseOptimizer({name, nlohmann::json::object()}).value();
      const Sent sent = Encoded(encoding, gradient);
      const auto values_after = [&](const Gradient& pushed, bool held) {
        PartitionContents contents{.value = Block(kElements), .slots = {}, .ledger = {}};
        contents.value.Assign(Noise(kElements, 5));
        FillSlots(optimizer, contents);
        DensePartition partition({0, "v", {kElements}, true, kElements * 4}, optimizer,
                                 std::move(contents));
        for (uint32_t step = 0; step < 2; ++step) {
          ChunkRefs reader;  // chunks with a reader are copied on write
          if (held) partition.Pull(reader);
          const Floats seen =
              held ? Floats(reader[0].values().begin(), reader[0].values().end()) : Floats();
          partition.Push({0, step, 10}, false, pushed);
          if (held) CHECK(std::ranges::equal(seen, reader[0].values()));
        }
        Floats after;
        const DensePartition::Image image = partition.TakeImage();
        const auto add = [&](const ChunkRefs& chunks) {
          for (const ChunkRef& chunk : chunks) {
            after.insert(after.end(), chunk.values().begin(), chunk.values().end());
          }
        };
        add(image.value);
        for (const ChunkRefs& slot : image.slots) add(slot);
        CHECK(image.updates == 2);
        return after;
      };
      absl::Cord pieces;
      for (size_t at = 0; at < sent.bytes.size(); at += 99991) {
        pieces.Append(absl::Cord(sent.bytes.substr(at, 99991)));
      }
      const auto read = Gradient::Read(encoding, kElements, pieces);
      REQUIRE(read.ok());
      CHECK(read->Finite());
      const Floats expected = values_after(Gradient(CordOf(sent.means)), false);
      CHECK(values_after(*read, false) == expected);
      CHECK(values_after(*read, true) == expected);
    }
  }
}

TEST_CASE("what a worker writes over a gradient that was looked through is never NaN in a value") {
  const Floats gradient = Noise(5000, 3);
  for (const char* name : {"sgd", "adam", "ftrl"}) {
    for (const Encoding encoding : {ENCODING_FLOAT32, ENCODING_BF16, ENCODING_F16, ENCODING_INT8}) {
      CAPTURE(name, encoding);
      const Optimizer optimizer = ParseOptimizer({name, nlohmann::json::object()}).value();
      std::string bytes = Encoded(encoding, gradient).bytes;
      const auto read =
          Gradient::Read(encoding, gradient.size(), absl::MakeCordFromExternal(bytes, [](auto) {}));
      REQUIRE(read.ok());
      CHECK(read->Finite());
      for (char& byte : bytes) byte = '\xff';
      CHECK_FALSE(read->Finite());
      PartitionContents contents{.value = Block(gradient.size()), .slots = {}, .ledger = {}};
      contents.value.Fill(1);
      FillSlots(optimizer, contents);
      DensePartition partition({0, "v", {gradient.size()}, true, gradient.size() * 4}, optimizer,
                               std::move(contents));
      partition.Push({0, 0, 10}, false, *read);
      const DensePartition::Image image = partition.TakeImage();
      CHECK(image.healthy);
      CHECK(AllFinite(image.value[0].values()));
      for (const ChunkRefs& slot : image.slots) CHECK(AllFinite(slot[0].values()));
    }
  }
}

TEST_CASE("values travel back in the encoding that is asked for") {
  TestModel model;
  model.variables[0] = TestVariable("dense/kernel", {5, 200000});
  TestPs ps(model);
  ps.Ready();
  const Floats exact = Noise(ps.model.Elements(0), 4);
  DecodedRequest push = ps.PushOf(0, 0, 1.0f);
  push.pieces[0].data = CordOf(exact);
  REQUIRE(ps.Exchange(push).ok());
  for (const Encoding encoding : {ENCODING_BF16, ENCODING_F16}) {
    DecodedRequest pull;
    *pull.header.mutable_fence() = ps.MakeFence();
    PartitionPull& wanted = *pull.header.add_pull();
    wanted.set_encoding(encoding);
    const absl::Cord whole = Joined(EncodeExchange(pull.header, {}));
    auto call = std::make_shared<FakeCall>();
    ps.ps->Handle(method::kExchange, whole, call);
    REQUIRE(call->reply.ok());
    const DecodedReply reply = DecodeExchangeReply(*call->reply).value();
    CHECK(reply.header.partitions(0).bytes() == exact.size() * 2);
    Floats values(exact.size());
    for (const PieceView& piece : reply.pieces) {
      DecodeDense(encoding, piece.data,
                  std::span(values).subspan(piece.offset / 2, piece.data.size() / 2));
    }
    Floats expected(exact.size());
    for (size_t i = 0; i < exact.size(); ++i) expected[i] = -exact[i];
    CHECK(values == Encoded(encoding, expected).means);
  }
}

struct Hostile {
  const char* what;
  Encoding encoding;
  // Damages a sound gradient; `bytes` is the claimed size.
  std::function<void(std::string&, uint64_t& bytes)> damage;
};

template <class T>
void Put(std::string& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

// A gradient of 9 elements is one scale and 9 bytes as int8; 3 indices and 3 values as top_k.
std::vector<Hostile> HostileGradients() {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto claim = [](uint64_t size) {
    return [size](std::string& b, uint64_t& bytes) {
      b.resize(std::min<uint64_t>(size, 100));
      bytes = size;
    };
  };
  return {
      {"bf16 of float32's size", ENCODING_BF16, claim(36)},
      {"bf16 short", ENCODING_BF16, claim(16)},
      {"bf16 odd", ENCODING_BF16, claim(17)},
      {"bf16 infinity", ENCODING_BF16, [](auto& b, auto&) { Put<uint16_t>(b, 16, 0x7f80); }},
      {"bf16 NaN", ENCODING_BF16, [](auto& b, auto&) { Put<uint16_t>(b, 0, 0xffc1); }},
      {"f16 long", ENCODING_F16, claim(20)},
      {"f16 infinity", ENCODING_F16, [](auto& b, auto&) { Put<uint16_t>(b, 8, 0xfc00); }},
      {"f16 NaN", ENCODING_F16, [](auto& b, auto&) { Put<uint16_t>(b, 8, 0x7c01); }},
      {"int8 without scales", ENCODING_INT8, claim(9)},
      {"int8 with two scales", ENCODING_INT8, claim(17)},
      {"int8 enormous", ENCODING_INT8, claim(~uint64_t{0})},
      {"int8 infinite scale", ENCODING_INT8, [](auto& b, auto&) { Put(b, 0, kInf); }},
      {"int8 NaN scale", ENCODING_INT8, [](auto& b, auto&) { Put(b, 0, std::nanf("")); }},
      {"int8 scale that overflows", ENCODING_INT8, [](auto& b, auto&) { Put(b, 0, -3e38f); }},
      {"top_k of a part of an entry", ENCODING_TOP_K, claim(20)},
      {"top_k of more than there are", ENCODING_TOP_K, claim(80)},
      {"top_k enormous", ENCODING_TOP_K, claim(~uint64_t{0} - 7)},
      {"top_k index behind the end", ENCODING_TOP_K,
       [](auto& b, auto&) { Put<uint32_t>(b, 8, 9); }},
      {"top_k greatest index", ENCODING_TOP_K, [](auto& b, auto&) { Put(b, 8, ~uint32_t{0}); }},
      {"top_k index twice", ENCODING_TOP_K,
       [](auto& b, auto&) { std::memcpy(b.data() + 4, b.data(), 4); }},
      {"top_k not in order", ENCODING_TOP_K,
       [](auto& b, auto&) {
         Put<uint32_t>(b, 0, 5);
         Put<uint32_t>(b, 4, 4);
       }},
      {"top_k infinity", ENCODING_TOP_K, [](auto& b, auto&) { Put(b, 20, -kInf); }},
      {"top_k NaN", ENCODING_TOP_K, [](auto& b, auto&) { Put(b, 12, std::nanf("")); }},
      {"an unknown encoding", static_cast<Encoding>(5), [](auto&, auto&) {}},
      {"a negative encoding", static_cast<Encoding>(-1), [](auto&, auto&) {}},
  };
}

TEST_CASE("a hostile gradient in any encoding is refused whole") {
  TestPs ps;
  ps.Ready();
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  const auto values = ps.PullAll().values;
  const auto push_of = [&](const Hostile& hostile, bool damaged) {
    DecodedRequest request = ps.PushOf(0, 1, 1.0f);
    const bool known = hostile.encoding >= 0 && hostile.encoding <= 4;
    std::string bytes =
        Encoded(known ? hostile.encoding : ENCODING_FLOAT32, Noise(9, 2), 0.3).bytes;
    uint64_t claimed = bytes.size();
    if (damaged) hostile.damage(bytes, claimed);
    request.pieces[0].data = absl::Cord(bytes);
    request.header.mutable_push(0)->set_bytes(claimed);
    request.header.mutable_push(0)->set_encoding(hostile.encoding);
    return request;
  };
  for (const Hostile& hostile : HostileGradients()) {
    CAPTURE(hostile.what);
    PsDescription before = ps.Describe();
    const absl::Status status = ps.Exchange(push_of(hostile, true)).status();
    CAPTURE(status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    PsDescription after = ps.Describe();
    after.clear_refused();
    before.clear_refused();
    CHECK(after.SerializeAsString() == before.SerializeAsString());
    CHECK(ps.PullAll().values == values);
  }
  for (const Encoding encoding : {ENCODING_INT8, ENCODING_TOP_K, static_cast<Encoding>(77)}) {
    DecodedRequest pull;
    *pull.header.mutable_fence() = ps.MakeFence();
    pull.header.add_pull()->set_encoding(encoding);
    CHECK(absl::IsInvalidArgument(ps.Exchange(pull).status()));
  }
  CHECK(ps.Exchange(push_of({"", ENCODING_TOP_K, {}}, false)).ok());
}

}  // namespace
}  // namespace paracord
