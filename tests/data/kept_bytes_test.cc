// Tests which entries of a cache directory are evicted if there is no room for all.
#include "data/kept_bytes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/random.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

constexpr size_t kBodyBytes = 10000;
constexpr uint64_t kEntryBytes = kBodyBytes + 100;  // at most

// A cache directory with entries whose names depend on a number.
struct Entries {
  // Returns the view of one more process.
  KeepPlace Process() {
    KeepPlace place = PlaceIn(directory.path(), random);
    place.bytes_min = 0;
    return place;
  }
  KeptBytes Entry(const KeepPlace& place, int number) {
    std::optional<KeptBytes> kept = KeptBytes::Of(files, place, "module", absl::StrCat(number), {});
    REQUIRE(kept.has_value());
    return *std::move(kept);
  }
  void Save(const KeepPlace& place, int number, uint64_t bytes_max = UINT64_MAX) {
    Entry(place, number).Save(std::string(kBodyBytes, 'x'), bytes_max);
  }
  bool Has(int number) {
    return files.Open(Entry(KeepPlace{directory / "index", "", 0}, number).path()).ok();
  }
  // Returns the numbers below `end`, sorted by the names of their entries.
  std::vector<int> ByName(int end) {
    std::vector<int> numbers;
    for (int i = 0; i < end; ++i) numbers.push_back(i);
    std::ranges::sort(numbers, {}, [&](int number) {
      return Entry(KeepPlace{directory / "index", "", 0}, number).path();
    });
    return numbers;
  }

  TestDirectory directory;
  PosixFiles files;
  SystemRandom random;
};

TEST_CASE("entries that a process has loaded or saved go after those of others") {
  Entries entries;
  const std::vector<int> numbers = entries.ByName(7);
  const KeepPlace earlier = entries.Process();
  for (const int number : {1, 2, 3, 4, 5}) entries.Save(earlier, numbers[number]);
  // By name, the first entry would be evicted first, then the second.
  const KeepPlace now = entries.Process();
  entries.Save(now, numbers[0]);
  REQUIRE(entries.Entry(now, numbers[1]).Load().has_value());
  entries.Save(now, numbers[6], 4 * kEntryBytes);
  CHECK(entries.Has(numbers[0]));
  CHECK(entries.Has(numbers[1]));
  for (const int number : {2, 3, 4}) CHECK_FALSE(entries.Has(numbers[number]));
  CHECK(entries.Has(numbers[5]));
  CHECK(entries.Has(numbers[6]));
  // The process's own entries are evicted if they alone exceed the room. The entry just saved
  // stays.
  entries.Save(now, numbers[2], 2 * kEntryBytes);
  CHECK_FALSE(entries.Has(numbers[0]));
  CHECK_FALSE(entries.Has(numbers[1]));
  CHECK_FALSE(entries.Has(numbers[5]));
  CHECK(entries.Has(numbers[2]));
  CHECK(entries.Has(numbers[6]));
}

TEST_CASE("the unfinished files of other writers take room, and go first") {
  Entries entries;
  const KeepPlace place = entries.Process();
  for (int i = 0; i < 3; ++i) entries.Save(place, i);
  const std::string unfinished = entries.directory / "index/other-1.kept.dead.tmp";
  REQUIRE(Overwrite(entries.files, unfinished, std::string(2 * kBodyBytes, 'x')));
  entries.Save(place, 3, 6 * kEntryBytes);
  CHECK(entries.files.Open(unfinished).ok());
  entries.Save(place, 4, 6 * kEntryBytes);
  CHECK_FALSE(entries.files.Open(unfinished).ok());
  for (int i = 0; i < 5; ++i) CHECK(entries.Has(i));
}

}  // namespace
}  // namespace paracord
