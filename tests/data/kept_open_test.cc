// Tests more data files than a process may have open.
#include "data/kept_open.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "data/data_source.h"
#include "tests/data/source_testing.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// Limits the open files of this process during its lifetime.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t few) {
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit limit{few, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_CASE("more files can be read than may be open, in any order") {
  const TestDirectory directory;
  const FewDescriptors few(64);
  PosixFiles files;
  std::vector<std::unique_ptr<ReadFile>> open;
  for (int i = 0; i < 200; ++i) {
    const std::string name = absl::StrCat("part-", i);
    directory.Write(name, absl::StrCat("of file ", i + 100));
    auto file = OpenKept(files, directory / name);
    REQUIRE(file.ok());
    open.push_back(*std::move(file));
  }
  for (int step : {1, 7}) {
    for (int i = 0; i < 200; ++i) {
      const int at = i * step % 200;
      std::string text(11, '?');
      REQUIRE(open[static_cast<size_t>(at)]->ReadAt(0, text) == absl::OkStatus());
      CHECK(text == absl::StrCat("of file ", at + 100));
    }
  }
}

TEST_CASE("a file that is opened again and is another one by then is refused by name") {
  const TestDirectory directory;
  const FewDescriptors few(64);
  PosixFiles files;
  directory.Write("first", "as it was");
  const auto first = OpenKept(files, directory / "first");
  REQUIRE(first.ok());
  std::vector<std::unique_ptr<ReadFile>> others;  // enough to have the first one closed
  for (int i = 0; i < 64; ++i) {
    directory.Write("other", "another");
    auto other = OpenKept(files, directory / "other");
    REQUIRE(other.ok());
    others.push_back(*std::move(other));
  }
  directory.Write("second", "is not it");
  std::filesystem::rename(directory / "second", directory / "first");
  char byte = 0;
  const absl::Status read = (*first)->ReadAt(0, std::span(&byte, 1));
  CHECK(absl::IsDataLoss(read));
  CHECK(std::string(read.message()).find("first: has changed") != std::string::npos);
}

TEST_CASE("a data set of more shards than descriptors is read whole") {
  const TestDirectory directory;
  const FewDescriptors few(64);
  PosixFiles files;
  for (int i = 0; i < 150; ++i) {
    directory.Write(absl::StrCat("t-", i, ".csv"), absl::StrCat("a,y\n", i, ",", 2 * i, "\n"));
  }
  const nlohmann::json options = {
      {"files", directory / "t-*.csv"}, {"features", {"a"}}, {"label", "y"}};
  const OpenedSource source = OpenDataSource(files, {"csv", JsonOf(TextOf(options))});
  const Batch batch = ReadAllRecords(source);
  REQUIRE(batch.examples == 150);
  for (size_t i = 0; i < 150; ++i) {
    CHECK(batch.targets[0].values[i] == 2 * batch.inputs[0].values[i]);
  }
}

}  // namespace
}  // namespace paracord
