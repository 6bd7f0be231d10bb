// Tests how much of a job's data is looked at before a process starts.
#include "cli/data_look.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/user_job.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// The first records are read of a file that is a hole beyond them, larger than what is read whole.
class LargeCsv {
 public:
  // Writes `good` rows and then one with a word in a column of numbers.
  void Write(int good) {
    std::string rows = "a,left\n";
    for (int i = 0; i < good; ++i) rows += "1,0\n";
    std::filesystem::resize_file(directory_.Write("rows.csv", rows + "dear,0\n"),
                                 uint64_t{300} << 20);
  }
  // Makes the file begin like one that gzip has packed.
  void Pack() {
    std::fstream file(directory_ / "rows.csv", std::ios::in | std::ios::out | std::ios::binary);
    file << "\x1f\x8b";
  }
  absl::Status Look(const std::string& data = "") {
    const std::string path = directory_.Write("job.json", absl::StrCat(R"({"model":
        {"class_name": "Sequential", "config": {"name": "s", "layers": [
          {"class_name": "Dense", "config": {"name": "out", "units": 1}}]}},
        "data": {"train": {"format": "csv", "files": "rows.csv", "features": "a", )",
                                                                       data, R"("label": "left"}},
        "loss": "mse", "optimizer": "sgd"})"));
    const auto job = ReadUserJob(files_, path);
    REQUIRE(job.ok());
    std::vector<std::string> doubts;
    return CheckFirstRecords(files_, *job, doubts);
  }

 private:
  TestDirectory directory_;
  PosixFiles files_;
};

TEST_CASE("of a large CSV no more is read than its first records, whichever part trains") {
  LargeCsv csv;
  csv.Write(/*good=*/999);
  for (const char* part : {"", R"("part": {"from": 0.9, "to": 1}, )"}) {
    const absl::Status status = csv.Look(part);
    INFO(status.message());
    CHECK(absl::StrContains(status.message(), "data.train: "));
    CHECK(absl::StrContains(status.message(), "rows.csv row 999: "));
  }
  csv.Write(/*good=*/1000);
  CHECK(csv.Look().ok());
}

TEST_CASE("large data that cannot be opened without reading all of them are not looked at") {
  LargeCsv csv;
  csv.Write(/*good=*/3);
  CHECK_FALSE(csv.Look().ok());
  csv.Pack();
  CHECK(csv.Look().ok());
}

}  // namespace
}  // namespace paracord
