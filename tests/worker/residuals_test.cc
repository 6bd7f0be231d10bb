// What an encoding dropped goes with the next push, once.
#include "worker/residuals.h"

#include <catch2/catch.hpp>
#include <vector>

namespace paracord {
namespace {

constexpr size_t kPartition = 1;

// Encodes a gradient of which all but the first element is dropped. Returns what is encoded.
std::vector<float> Encode(Residuals& residuals, const std::vector<float>& gradient) {
  residuals.Resize(kPartition, gradient.size());
  for (size_t i = 0; i < gradient.size(); ++i) {
    residuals.Add(kPartition, i, std::span(gradient).subspan(i, 1));
  }
  const std::span<float> pending = residuals.pending(kPartition);
  std::vector<float> sum(pending.begin(), pending.end());
  pending[0] = 0;
  return sum;
}

TEST_CASE("a push carries what the pushes before it dropped, once they were applied") {
  Residuals residuals(2);
  CHECK(Encode(residuals, {1, 2, 3}) == std::vector<float>{1, 2, 3});
  residuals.Applied(kPartition);
  CHECK(Encode(residuals, {10, 20, 30}) == std::vector<float>{10, 22, 33});
  residuals.Applied(kPartition);
  CHECK(Encode(residuals, {0, 0, 0}) == std::vector<float>{0, 22, 33});
}

TEST_CASE("a push that was not applied leaves the residual as it was") {
  Residuals residuals(2);
  Encode(residuals, {1, 2, 3});
  residuals.Applied(kPartition);
  Encode(residuals, {10, 20, 30});
  CHECK(Encode(residuals, {0, 0, 0}) == std::vector<float>{0, 2, 3});
}

TEST_CASE("a residual that is forgotten is zero, and those of other partitions stay") {
  Residuals residuals(2);
  Encode(residuals, {1, 2, 3});
  residuals.Applied(kPartition);
  residuals.Forget(0);
  CHECK(Encode(residuals, {0, 0, 0}) == std::vector<float>{0, 2, 3});
  residuals.Forget(kPartition);
  CHECK(Encode(residuals, {0, 0, 0}) == std::vector<float>{0, 0, 0});
}

}  // namespace
}  // namespace paracord
