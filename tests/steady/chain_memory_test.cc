// Memory of a chain of checkpoints while its variables are read.
#include <catch2/catch.hpp>

#include "steady/counted_malloc.h"
#include "tests/stored_chain.h"

namespace paracord {
namespace {

constexpr uint64_t kRows = 20000, kDim = 16;
constexpr uint64_t kLinkBytes = kRows * (kDim + 3) * sizeof(float);

TEST_CASE("a chain is read with the memory of its table and of one link") {
  StoredChain chain(kDim);
  StoredChain::Rows rows;
  for (uint64_t id = 0; id < kRows; ++id) rows.emplace(id * 7919, 1.0f);
  const std::string full = chain.Add(rows, {}, kRows);
  std::string last;
  for (int link = 0; link < 5; ++link) last = chain.Add(rows, {}, kRows);
  PosixFiles files;
  const auto peak = [&](const std::string& name) {
    const Manifest manifest = chain.ManifestOf(name);
    VariableIds ids;
    StartCounting(1 << 14);
    const auto values = ReadVariables(files, chain.Path(name), manifest, &ids);
    const LargeAllocations counted = StopCounting();
    REQUIRE(values.ok());
    CHECK(ids[0].size() == kRows);
    return counted.peak;
  };
  const int64_t alone = peak(full);
  CHECK(alone > static_cast<int64_t>(kLinkBytes));
  CHECK(peak(last) < alone + static_cast<int64_t>(kLinkBytes));
}

}  // namespace
}  // namespace paracord
