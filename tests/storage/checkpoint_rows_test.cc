// Reads the rows of tables that are left in a checkpoint's files.
#include "storage/checkpoint_rows.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/match.h"
#include "tests/rows_in_files.h"
#include "tests/sanitized.h"
#include "tests/stored_chain.h"

namespace paracord {
namespace {

constexpr uint64_t kLeftDim = 4;

TEST_CASE("rows that are left in the files of a chain are those that are read whole") {
  StoredChain chain(kLeftDim);
  StoredChain::Rows many;
  for (uint64_t id = 0; id < 2000; ++id) many.emplace(Mix64(id), static_cast<float>(id));
  PosixFiles files;
  CheckRowsInFiles(files, chain.Path(chain.Add(many, {}, 2000)));
  chain.BeginFull();
  const std::string full = chain.Add({{1, 1}, {2, 2}, {3, 3}, {uint64_t{1} << 63, 4}}, {}, 4);
  const std::string second = chain.Add({{2, 20}, {5, 50}}, {1, 7}, 4);
  // Id 3 is removed and comes back, id 1 was removed by the previous link, and id 9 is new.
  const std::string third = chain.Add({{3, 30}, {1, 10}, {9, 90}}, {3, 5}, 5);
  const std::string emptied = chain.Add({}, {1, 2, 3, 9}, 1);
  for (const std::string& name : {full, second, third, emptied}) {
    CheckRowsInFiles(files, chain.Path(name));
  }
}

TEST_CASE("rows can be read after the checkpoint has been removed") {
  StoredChain chain(kLeftDim);
  chain.Add({{1, 1}, {2, 2}}, {}, 2);
  const std::string second = chain.Add({{2, 20}}, {}, 2);
  PosixFiles files;
  const auto rows = LeaveRows(files, chain.Path(second), chain.ManifestOf(second));
  REQUIRE(rows.ok());
  std::filesystem::remove_all(chain.checkpoints());
  std::vector<float> read(3 * kLeftDim);
  std::vector<char> there;
  REQUIRE(rows->Read(0, std::vector<uint64_t>{2, 3, 1}, read, there).ok());
  CHECK(there == std::vector<char>{1, 0, 1});
  CHECK(read[0] == 20);
  CHECK(read.back() == 1);
}

TEST_CASE("rows are left in the files only if the values take more than they may") {
  StoredChain chain(kLeftDim);
  const std::string full = chain.Add({{1, 1}, {2, 2}, {3, 3}}, {}, 3);
  const std::string second = chain.Add({{4, 4}}, {}, 4);
  PosixFiles files;
  const auto left = [&](const std::string& name, uint64_t bytes_max) {
    const auto tables = TablesToLeave(files, chain.Path(name), chain.ManifestOf(name), bytes_max);
    REQUIRE(tables.ok());
    return (*tables)[0];
  };
  constexpr uint64_t kEach = sizeof(uint64_t) + kLeftDim * sizeof(float);
  CHECK_FALSE(left(full, UINT64_MAX));
  CHECK_FALSE(left(full, 3 * kEach));
  CHECK(left(full, 3 * kEach - 1));
  CHECK_FALSE(left(second, 4 * kEach));
  CHECK(left(second, 4 * kEach - 1));
  StoredChain narrow(2);  // a row takes no more than its place in the file
  const std::string name = narrow.Add({{1, 1}}, {}, 1);
  CHECK_FALSE(TablesToLeave(files, narrow.Path(name), narrow.ManifestOf(name), 0)->at(0));
}

TEST_CASE("a flipped bit of any link is refused with the file's name, and so is a file cut off") {
  StoredChain chain(kLeftDim);
  const std::string full = chain.Add({{1, 1}, {2, 2}, {3, 3}}, {}, 3);
  const std::string second = chain.Add({{2, 20}, {5, 50}}, {1}, 3);
  PosixFiles files;
  const Manifest manifest = chain.ManifestOf(second);
  for (const std::string& name : {full, second}) {
    const std::string path = chain.PartOf(name), sound = *files.ReadWhole(path);
    const auto refused = [&](const std::string& bytes) {
      REQUIRE(Overwrite(files, path, bytes));
      const absl::Status status = LeaveRows(files, chain.Path(second), manifest).status();
      return !status.ok() && absl::StrContains(status.message(), path);
    };
    for (size_t at = 0; at < sound.size(); at += UnderSanitizers(5, 1)) {
      std::string bytes = sound;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
      INFO(name << " byte " << at);
      REQUIRE(refused(bytes));
    }
    CHECK(refused(sound.substr(0, sound.size() - 1)));
    REQUIRE(Overwrite(files, path, sound));
  }
  CHECK(LeaveRows(files, chain.Path(second), manifest).ok());
}

TEST_CASE("a chain whose rows contradict it is refused where rows are left in its files") {
  StoredChain chain(kLeftDim);
  chain.Add({{1, 1}, {2, 2}}, {}, 2);
  PosixFiles files;
  const auto refused = [&](const std::string& name) {
    return std::string(
        LeaveRows(files, chain.Path(name), chain.ManifestOf(name)).status().message());
  };
  CHECK(absl::StrContains(refused(chain.Add({{3, 3}}, {}, 4)), "it has 3 rows after the changes"));
  chain.BeginFull();
  chain.Add({{1, 1}, {2, 2}}, {}, 2);
  CHECK(absl::StrContains(refused(chain.Add({{2, 3}, {2, 4}}, {2}, 2)),
                          "the changed row of id 2 stands twice"));
}

TEST_CASE("of each record only the first elements take memory") {
  std::vector<float> words(2 * 7);
  const PlacedIn<float> place(words.data(), 7 * 10, /*run_elements=*/10, /*stride_elements=*/2,
                              /*kept_elements=*/2);
  std::vector<float> records(70);
  for (size_t i = 0; i < records.size(); ++i) records[i] = static_cast<float>(i);
  for (size_t first = 0; first < records.size(); first += 9) {
    place.Put(first, std::span(records).subspan(first, std::min<size_t>(9, 70 - first)));
  }
  CHECK(words == std::vector<float>{0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61});
}

}  // namespace
}  // namespace paracord
