// The host's pinned memory.
#include "worker/ops/cuda/staging.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/cuda_host/host_runtime.h"

namespace paracord::cuda {
namespace {

struct Table {
  explicit Table(bool pinned = true) {
    HostOptions options;
    options.pinned = pinned;
    options.at_end = [this](int64_t calls, const std::string&) { all = calls; };
    runtime = MakeHostRuntime(std::move(options));
  }
  int64_t all = 0;
  std::unique_ptr<Runtime> runtime;
};

TEST_CASE("steps that want the same find it at the same addresses, without new memory") {
  int64_t calls[2] = {};
  for (const int steps : {3, 30}) {
    Table table;
    {
      Staging staging(*table.runtime);
      std::vector<std::vector<void*>> taken;
      for (int step = 0; step < steps; ++step) {
        taken.emplace_back();
        for (size_t bytes : {700000, 800000, 3, 5000000})
          taken.back().push_back(staging.Take(bytes));
        staging.Reset();
      }
      CHECK(taken[1] == taken[2]);
      CHECK(taken.back() == taken[2]);
    }
    table.runtime.reset();
    calls[steps == 3 ? 0 : 1] = table.all;
  }
  CHECK(calls[0] == calls[1]);
}

TEST_CASE("there is an end to what is staged, and without pinned memory nothing is") {
  Table table;
  Staging staging(*table.runtime);
  CHECK(staging.Take(size_t{1} << 40) == nullptr);
  CHECK(staging.Take(100) != nullptr);
  Table without(false);
  Staging none(*without.runtime);
  CHECK(none.Take(100) == nullptr);
  float number = 0;
  none.Pin(&number, sizeof(number));
  CHECK_FALSE(none.IsPinned(&number, sizeof(number)));
}

TEST_CASE("what was pinned is known as far as it reaches, and by whom") {
  Table table;
  std::vector<char> memory(100);
  Staging one(*table.runtime);
  one.Pin(memory.data() + 10, 50);
  CHECK(one.IsPinned(memory.data() + 10, 50));
  CHECK(one.IsPinned(memory.data() + 59, 1));
  CHECK_FALSE(one.IsPinned(memory.data() + 59, 2));
  CHECK_FALSE(one.IsPinned(memory.data() + 9, 1));
  {
    Staging other(*table.runtime);  // the same memory, pinned already
    other.Pin(memory.data() + 10, 50);
    CHECK(other.IsPinned(memory.data() + 10, 50));
  }
  CHECK(one.IsPinned(memory.data() + 10, 50));
}

}  // namespace
}  // namespace paracord::cuda
