// Reads the variables of delta checkpoints.
#include "storage/chain.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "tests/stored_chain.h"
#include "tests/watched_files.h"

namespace paracord {
namespace {

using Ids = std::vector<uint64_t>;
using Values = std::vector<float>;

TEST_CASE("what the links of a chain say is folded in their order") {
  StoredChain chain(2);
  const std::string full = chain.Add({{1, 1}, {2, 2}, {3, 3}, {uint64_t{1} << 63, 4}}, {}, 4);
  const std::string second = chain.Add({{2, 20}, {5, 50}}, {1, 7}, 4);
  // Id 3 is removed and comes back, id 1 was removed by the previous link, and id 9 is new.
  const std::string third = chain.Add({{3, 30}, {1, 10}, {9, 90}}, {3, 5}, 5);
  PosixFiles files;
  const auto read = [&](const std::string& name, VariableIds& ids) {
    const auto values = ReadVariables(files, chain.Path(name), chain.ManifestOf(name), &ids);
    INFO(values.status());
    REQUIRE(values.ok());
    return (*values)[0];
  };
  VariableIds ids;
  CHECK(read(full, ids) == Values{1, 1, 2, 2, 3, 3, 4, 4});
  CHECK(ids[0] == Ids{1, 2, 3, uint64_t{1} << 63});
  CHECK(read(second, ids) == Values{20, 20, 3, 3, 50, 50, 4, 4});
  CHECK(ids[0] == Ids{2, 3, 5, uint64_t{1} << 63});
  CHECK(read(third, ids) == Values{10, 10, 20, 20, 30, 30, 90, 90, 4, 4});
  CHECK(ids[0] == Ids{1, 2, 3, 9, uint64_t{1} << 63});
}

TEST_CASE("a chain with other rows at the end than its last link counts is refused") {
  StoredChain chain(2);
  chain.Add({{1, 1}, {2, 2}}, {}, 2);
  const std::string second = chain.Add({{3, 3}}, {}, 4);
  PosixFiles files;
  const absl::Status read =
      ReadVariables(files, chain.Path(second), chain.ManifestOf(second)).status();
  CHECK(absl::IsDataLoss(read));
  CHECK(
      absl::StrContains(read.message(), second + ": partition user/embeddings/part_0: it has 3 "));
}

absl::Status ReadStatus(const StoredChain& chain, const std::string& name) {
  PosixFiles files;
  return ReadVariables(files, chain.Path(name), *ReadManifest(files, chain.Path(name))).status();
}

TEST_CASE("a link with a changed row that stands twice is refused") {
  StoredChain chain(2);
  chain.Add({{1, 1}, {2, 2}}, {}, 2);
  const absl::Status read = ReadStatus(chain, chain.Add({{2, 3}, {2, 4}}, {2}, 2));
  CHECK(absl::IsDataLoss(read));
  CHECK(absl::StrContains(read.message(), "the changed row of id 2 stands twice"));
}

TEST_CASE("a link has the ids that were removed, and a full checkpoint has none") {
  StoredChain chain(2);
  const bool link = GENERATE(true, false);
  if (link) chain.Add({{1, 1}, {2, 2}}, {}, 2);
  chain.MistakeRemoved();
  const absl::Status read = ReadStatus(chain, chain.Add({{2, 3}}, {}, link ? 2 : 1));
  CHECK(absl::IsDataLoss(read));
  CHECK(absl::StrContains(read.message(), "tensor user/embeddings/part_0/.slot/removed"));
}

}  // namespace
}  // namespace paracord
