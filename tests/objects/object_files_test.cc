// Tests files over a store that fails before or after it carries out a request.
#include "objects/object_files.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fakes.h"
#include "tests/objects/memory_store.h"

namespace paracord {
namespace {

constexpr int kTries = 30;

TEST_CASE("whatever request fails or loses its answer, files are as they were written") {
  SeededRandom random(GENERATE(range(1, 21)));
  MemoryStore store;
  store.fault = [&] { return static_cast<MemoryStore::Fault>(random.Next() % 3); };
  ObjectFiles files(
      store, [](int tries, const absl::Status&) { return tries < kTries; }, /*part_bytes=*/10);
  const std::string dir = "s3://b/dir";
  REQUIRE(files.MakeDirectories(dir).ok());
  REQUIRE(files.CreateExclusive(dir + "/claim", "mine").ok());
  CHECK(absl::IsAlreadyExists(files.CreateExclusive(dir + "/claim", "yours")));
  REQUIRE(files.WriteAtomic(dir + "/text", "text").ok());
  for (const size_t size : {0, 9, 10, 11, 95}) {
    std::string bytes(size, '?');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>('a' + i % 26);
    const std::string path = absl::StrCat(dir, "/parts-", size);
    const auto file = *files.Create(path);
    for (size_t at = 0; at < size; at += 7) {
      REQUIRE(file->Append(std::string_view(bytes).substr(at, 7)).ok());
    }
    REQUIRE(file->Sync() == absl::OkStatus());
    CHECK(*files.ReadWhole(path) == bytes);
  }
  CHECK(*files.List(dir) == std::vector<std::string>{"claim", "parts-0", "parts-10", "parts-11",
                                                     "parts-9", "parts-95", "text"});
  REQUIRE(files.RemoveTree(dir).ok());
  CHECK(store.objects.empty());
}

TEST_CASE("a file that is not synced never appears, and leaves no upload behind") {
  MemoryStore store;
  ObjectFiles files(
      store, [](int, const absl::Status&) { return false; }, /*part_bytes=*/10);
  {
    const auto file = *files.Create("s3://b/torn");
    REQUIRE(file->Append(std::string(35, 'x')).ok());
    CHECK(store.uploads.size() == 1);
  }
  CHECK(store.uploads.empty());
  CHECK(store.objects.empty());
}

TEST_CASE("a store that stays away is an error that keeps its message") {
  MemoryStore store;
  store.fault = [] { return MemoryStore::Fault::kBefore; };
  int waited = 0;
  ObjectFiles files(store, [&](int tries, const absl::Status& why) {
    CHECK(std::string(why.message()) == "s3://b/a: away");
    waited = tries;
    return tries < 4;
  });
  const absl::Status written = files.WriteAtomic("s3://b/a", "text");
  CHECK(absl::IsUnavailable(written));
  CHECK(std::string(written.message()) == "s3://b/a: away");
  CHECK(waited == 4);
}

TEST_CASE("another's claim is not taken for ours because an answer was lost") {
  MemoryStore store;
  ObjectFiles files(store, [](int tries, const absl::Status&) { return tries < kTries; });
  REQUIRE(files.CreateExclusive("s3://b/claim", "theirs").ok());
  int asked = 0;
  store.fault = [&] {
    return ++asked == 1 ? MemoryStore::Fault::kBefore : MemoryStore::Fault::kNone;
  };
  CHECK(absl::IsAlreadyExists(files.CreateExclusive("s3://b/claim", "ours")));
}

TEST_CASE("a store that ignores conditions is found out by the first claim") {
  MemoryStore store;
  store.conditions = false;
  ObjectFiles files(store, [](int, const absl::Status&) { return false; });
  const absl::Status claimed = files.CreateExclusive("s3://b/claim", "ours");
  CHECK(absl::IsUnimplemented(claimed));
  CHECK(std::string(claimed.message()).find("ignores `If-None-Match: *`") != std::string::npos);
}

}  // namespace
}  // namespace paracord
