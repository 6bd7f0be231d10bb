#include "common/parallel.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace paracord {
namespace {

TEST_CASE("a parallel loop runs every index once, also when many are started at once") {
  SetParallelThreads(3);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&wrong] {
      for (size_t count = 0; count < 200; ++count) {
        std::vector<std::atomic<int>> runs(count);
        ParallelFor(count, [&](size_t i) { ++runs[i]; });
        for (const std::atomic<int>& n : runs) wrong += n == 1 ? 0 : 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace paracord
