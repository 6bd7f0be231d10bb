// The allocation of the device's memory.
#include "tensor/cuda/memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <vector>

#include "tests/cuda_host/host_runtime.h"

namespace paracord::cuda {
namespace {

TEST_CASE("places never overlap, and what was given back is used again") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Places places;
    std::map<size_t, size_t> used;
    size_t most = 0, now = 0;
    for (int step = 0; step < 400; ++step) {
      if (!used.empty() && random() % 2 == 0) {
        const auto it = std::next(used.begin(), static_cast<long>(random() % used.size()));
        CHECK(places.Give(it->first));
        CHECK_FALSE(places.Give(it->first));
        now -= it->second;
        used.erase(it);
        continue;
      }
      const size_t bytes = 256 * (1 + random() % 8);
      const size_t at = places.Take(bytes);
      for (const auto& [begin, size] : used) CHECK((at + bytes <= begin || begin + size <= at));
      used[at] = bytes;
      now += bytes;
      most = std::max(most, now);
    }
    CHECK(places.end() >= most);
    CHECK(places.end() < 2 * most);
  }
}

TEST_CASE("after a plan the same again needs no more of the device") {
  HostOptions options;
  options.memory_bytes_max = 100000;
  std::string wrong;
  options.at_end = [&](int64_t, const std::string& what) { wrong = what; };
  {
    const std::unique_ptr<Runtime> runtime = MakeHostRuntime(std::move(options));
    const auto free = [&] { return runtime->GetMemoryInfo()->free; };
    DeviceMemory memory(*runtime);
    const auto run = [&](bool more) {
      std::vector<void*> taken;
      for (const size_t bytes : {1000u, 40u, 7000u}) taken.push_back(memory.Take(bytes).value());
      CHECK(memory.Give(taken[0]).ok());
      taken[0] = memory.Take(900).value();
      if (more) taken.push_back(memory.Take(5000).value());
      for (void* each : taken) CHECK(memory.Give(each).ok());
    };
    memory.BeginPlan();
    run(false);
    CHECK(free() == 100000);
    const size_t planned = memory.planned();
    CHECK(memory.EndPlan(0).ok());
    CHECK(free() == 100000 - planned);
    run(false);
    CHECK(free() == 100000 - planned);
    // Memory that was not planned is still available, and is given back.
    run(true);
    CHECK(free() == 100000 - planned);
    CHECK_FALSE(memory.Give(&wrong).ok());
  }
  CHECK(wrong.empty());
}

TEST_CASE("a plan that the device cannot hold takes nothing") {
  HostOptions options;
  options.memory_bytes_max = 5000;
  const std::unique_ptr<Runtime> runtime = MakeHostRuntime(std::move(options));
  DeviceMemory memory(*runtime);
  memory.BeginPlan();
  CHECK(memory.Give(memory.Take(6000).value()).ok());
  CHECK(absl::IsResourceExhausted(memory.EndPlan(0)));
  void* const small = memory.Take(1000).value();
  CHECK(memory.Give(small).ok());
  CHECK(runtime->GetMemoryInfo()->free == 5000);
}

}  // namespace
}  // namespace paracord::cuda
