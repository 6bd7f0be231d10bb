#include "cli/trace_file.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "nlohmann/json.hpp"
#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE("the spans of all processes become one trace, without a killed one's unfinished line") {
  TestDirectory directory;
  PosixFiles files;
  const std::string parts = directory / "trace";
  REQUIRE(files.MakeDirectories(parts).ok());
  const auto event = [](const std::string& name) { return "{\"name\":\"" + name + "\"},\n"; };
  REQUIRE(Overwrite(files, parts + "/ps-0-1", event("a") + event("b")));
  REQUIRE(Overwrite(files, parts + "/ps-0-2", event("c") + "{\"name\":\"tor"));
  REQUIRE(Overwrite(files, parts + "/worker-0-1", "{\"na"));
  REQUIRE(MergeTraces(files, parts, directory / "t.json").ok());
  const auto events = JsonOf(*files.ReadWhole(directory / "t.json")).at("traceEvents");
  REQUIRE(events.size() == 4);
  CHECK(events[2].at("name") == "c");
  CHECK_FALSE(MergeTraces(files, parts, directory / "none/t.json").ok());
}

TEST_CASE("a trace replaces a trace, and nothing else, and waits for no pipe") {
  TestDirectory directory;
  PosixFiles files;
  REQUIRE(files.MakeDirectories(directory / "parts").ok());
  const std::string trace = directory / "t.json";
  CHECK(CheckTraceFile(files, trace).ok());
  REQUIRE(MergeTraces(files, directory / "parts", trace).ok());
  CHECK(CheckTraceFile(files, trace).ok());
  for (const char* text : {"", "{}", "{\"model\": \"my model\", \"batch\": 64}"}) {
    const std::string job = directory.Write("job.json", text);
    CHECK(CheckTraceFile(files, job).message() ==
          "--trace: " + job + " is there and is no trace: it is left as it is");
  }
  REQUIRE(mkfifo((directory / "pipe").c_str(), 0600) == 0);
  CHECK_FALSE(CheckTraceFile(files, directory / "pipe").ok());
  CHECK_FALSE(files.Create(directory / "pipe").ok());
  CHECK_FALSE(files.OpenToAppend(directory / "pipe").ok());
}

}  // namespace
}  // namespace paracord
