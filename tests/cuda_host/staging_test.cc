// Tests page-locked host memory.
#include "tensor/cuda/staging.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tensor/cuda/page_locks.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/cuda_host/page_floats.h"

namespace paracord::cuda {
namespace {

struct StagingTable {
  explicit StagingTable(bool page_locked = true) {
    HostOptions options;
    options.page_locks = page_locked;
    options.at_end = [this](int64_t calls, const std::string&) { all = calls; };
    runtime = MakeHostRuntime(std::move(options));
  }
  int64_t all = 0;
  std::unique_ptr<Runtime> runtime;
};

TEST_CASE("steps that want the same find it at the same addresses, without new memory") {
  int64_t calls[2] = {};
  for (const int steps : {3, 30}) {
    StagingTable table;
    {
      Staging staging(*table.runtime);
      std::vector<std::vector<void*>> taken;
      for (int step = 0; step < steps; ++step) {
        taken.emplace_back();
        for (const size_t bytes : {size_t{700000}, size_t{800000}, size_t{3}, size_t{5000000}}) {
          taken.back().push_back(staging.Take(bytes));
        }
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

TEST_CASE("there is an end to what is staged, and without page-locked memory nothing is") {
  StagingTable table;
  Staging staging(*table.runtime);
  CHECK(staging.Take(size_t{1} << 40) == nullptr);
  CHECK(staging.Take(100) != nullptr);
  StagingTable without(false);
  Staging none(*without.runtime);
  CHECK(none.Take(100) == nullptr);
  float number = 0;
  none.PageLock(&number, sizeof(number));
  CHECK_FALSE(none.IsPageLocked(&number, sizeof(number)));
}

TEST_CASE("what was page-locked is known as far as it reaches, and by whom") {
  StagingTable table;
  PageFloats memory(2000);
  const float* const at = memory.data();
  Staging one(*table.runtime);
  one.PageLock(at, 5000);
  CHECK(one.IsPageLocked(at, 5000));
  CHECK(one.IsPageLocked(at + 1249, 4));
  CHECK_FALSE(one.IsPageLocked(at + 1249, 8));
  CHECK_FALSE(one.IsPageLocked(at - 1, 4));
  {
    Staging other(*table.runtime);  // memory that is page-locked already
    other.PageLock(at, 5000);
    CHECK(other.IsPageLocked(at, 5000));
  }
  CHECK(one.IsPageLocked(at, 5000));
}

TEST_CASE(
    "memory of several runtimes is page-locked by the first, until the last is done with it") {
  PageLocks locks;
  int locked = 0;
  bool fails = false;
  const auto lock = [&]() -> absl::Status {
    if (fails) return absl::InternalError("no");
    ++locked;
    return absl::OkStatus();
  };
  const auto unlock = [&] {
    --locked;
    return absl::OkStatus();
  };
  const int memory[2] = {};
  for (int round = 0; round < 2; ++round) {
    fails = true;
    CHECK_FALSE(locks.Lock(memory, 4, lock).ok());
    fails = false;
    for (int runtime = 0; runtime < 3; ++runtime) {
      CHECK(locks.Lock(memory, 4, lock).ok());
      CHECK(locked == 1);
    }
    CHECK(locks.Lock(memory + 1, 4, lock).ok());
    CHECK(locked == 2);
    CHECK(locks.Unlock(memory + 1, unlock).ok());
    for (int runtime = 0; runtime < 3; ++runtime) {
      CHECK(locked == 1);
      CHECK(locks.Unlock(memory, unlock).ok());
    }
    CHECK(locked == 0);
  }
}

TEST_CASE("memory that shares a page with other is not page-locked") {
  std::string wrong = "not at its end";
  {
    HostOptions options;
    options.at_end = [&](int64_t, const std::string& what) { wrong = what; };
    const std::unique_ptr<Runtime> runtime = MakeHostRuntime(std::move(options));
    PageFloats memory(2000);
    Staging staging(*runtime);
    staging.PageLock(memory.data() + 10, 50);
    CHECK_FALSE(staging.IsPageLocked(memory.data() + 10, 50));
    staging.PageLock(memory.data(), 8000);
    CHECK(staging.IsPageLocked(memory.data(), 8000));
    const std::vector<float> small(9);
    const float* const inside = small.data() + 1;  // the first float may be at the begin of a page
    staging.PageLock(inside, 32);
    CHECK_FALSE(staging.IsPageLocked(inside, 32));
  }
  CHECK(wrong.empty());
}

}  // namespace
}  // namespace paracord::cuda
