// The buffers of a worker's gradients, and their encoding for pushes.
#include "worker/gradient_buffers.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/floats.h"
#include "tests/worker/copied_session.h"

namespace paracord {
namespace {

// A vector of three elements: the first is on one ps, the others on another.
struct CutVector : CopiedSession {
  CutVector() {
    VariableSpec& vector = variables.emplace_back();
    vector.add_shape(3);
    vector.set_trainable(true);
    Add(0, 0, 1, 0);
    Add(0, 1, 3, 1);
  }
};

// Its gradients in two buffers.
struct Buffers : CutVector {
  explicit Buffers(const TransferOptions& transfer = {})
      : layout(session, variables), gradients(layout, variables, transfer, 2) {}
  Buffers(const Buffers&) = delete;
  void Fill(uint32_t buffer, const std::vector<float>& values) {
    gradients.Prepare(buffer);
    std::ranges::copy(values, gradients.arrays(buffer)[0].begin());
  }
  // Returns the pieces of a push to the second partition.
  std::vector<PieceView> Push(uint32_t buffer, bool staged = false) const {
    PartitionPush push;
    std::vector<PieceView> pieces;
    gradients.Push(*layout.Find(1, 1), buffer, staged, push, pieces);
    for (const PieceView& piece : pieces) CHECK(push.bytes() == piece.data.size());
    return pieces;
  }

  const PartitionLayout layout;
  GradientBuffers gradients;
};

TEST_CASE("each buffer pushes a partition's elements of its own gradient") {
  Buffers test;
  test.Fill(0, {1, 2, 3});
  test.Fill(1, {4, 5, 6});
  CHECK(test.Push(0).at(0).data == CordOf({2, 3}));
  CHECK(test.Push(1).at(0).data == CordOf({5, 6}));
  CHECK(test.Push(0, /*staged=*/true).empty());
}

TEST_CASE("a gradient is finite in its array and may overflow in its encoding") {
  Buffers test({.wire = ENCODING_F16, .compression = {}});
  test.Fill(0, {1, 2, 60000});
  CHECK(test.gradients.Finite(0, 0));
  CHECK(test.gradients.Encode(0, 0));
  CHECK(test.Push(0).at(0).data.size() == 4);
  test.Fill(0, {1, 2, 70000});
  CHECK(test.gradients.Finite(0, 0));
  CHECK_FALSE(test.gradients.Encode(0, 0));
  test.Fill(0, {1, std::numeric_limits<float>::infinity(), 3});
  CHECK_FALSE(test.gradients.Finite(0, 0));
}

TEST_CASE("gradients that were given up stay what they are until new ones are to be computed") {
  Buffers test;
  CHECK(test.gradients.arrays(0).empty());  // the loop must not allocate
  test.Fill(0, {1, 2, 3});
  const float* const first = test.gradients.arrays(0)[0].data();
  test.gradients.Prepare(0);
  CHECK(test.gradients.arrays(0)[0].data() == first);
  const std::vector<PieceView> pushed = test.Push(0);
  test.gradients.GiveUp(0);
  CHECK(test.gradients.arrays(0)[0].data() == first);
  test.gradients.Prepare(0);
  const float* const second = test.gradients.arrays(0)[0].data();
  CHECK(second != first);
  CHECK(second[1] == 0);
  CHECK(pushed.at(0).data == CordOf({2, 3}));  // the push holds its memory
  test.gradients.Prepare(0);
  CHECK(test.gradients.arrays(0)[0].data() == second);
}

TEST_CASE("a compressed push carries what the pushes before it dropped") {
  Buffers test({.wire = ENCODING_FLOAT32,
                .compression = {.kind = CompressionSpec::Kind::kTopK, .ratio = 0.5}});
  // Returns the one element that is sent of two, and its value.
  const auto encode = [&](const std::vector<float>& gradient) {
    test.Fill(0, gradient);
    REQUIRE(test.gradients.Encode(0, 0));
    const std::string bytes(test.Push(0).at(0).data);
    REQUIRE(bytes.size() == 8);
    uint32_t index = 0;
    float value = 0;
    std::memcpy(&index, bytes.data(), 4);
    std::memcpy(&value, bytes.data() + 4, 4);
    return std::pair(index, value);
  };
  CHECK(encode({0, 5, 8}) == std::pair(1u, 8.f));
  test.gradients.residuals().Applied(1);
  CHECK(encode({0, 1, 2}) == std::pair(0u, 6.f));
}

}  // namespace
}  // namespace paracord
