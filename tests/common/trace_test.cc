#include "common/trace.h"

#include <catch2/catch.hpp>
#include <thread>

#include "common/json_text.h"
#include "nlohmann/json.hpp"
#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE("spans of all threads come into the trace with name, time and thread, once it is on") {
  TestDirectory directory;
  PosixFiles files;
  { TraceSpan before("before"); }
  REQUIRE(StartTrace(files, directory / "t", "worker:\"0\"").ok());
  {
    TraceSpan outer("outer");
    TraceSpan inner("inner");
  }
  std::thread([] { TraceSpan other("other"); }).join();
  TraceEnd("own track", TraceBegin(), 1001);
  FlushTrace();
  const std::string text = *files.ReadWhole(directory / "t");
  REQUIRE(text.ends_with(",\n"));
  const auto events = JsonOf("[" + text.substr(0, text.size() - 2) + "]");
  REQUIRE(events.size() == 5);
  CHECK(events[0].at("args").at("name") == "worker:\"0\"");
  CHECK(events[1].at("name") == "inner");
  CHECK(events[2].at("name") == "outer");
  CHECK(events[2].at("ts") <= events[1].at("ts"));
  CHECK(events[2].at("tid") == events[1].at("tid"));
  CHECK(events[3].at("tid") != events[1].at("tid"));
  CHECK(events[4].at("tid") == 1001);
  for (size_t i = 1; i < events.size(); ++i) CHECK(events[i].at("dur") >= 0);
}

TEST_CASE("a trace that cannot be written is an error that names the file, and stays off") {
  PosixFiles files;
  const absl::Status status = StartTrace(files, "/none/such/t", "ps:0");
  CHECK(std::string(status.message()).find("/none/such/t") != std::string::npos);
}

}  // namespace
}  // namespace paracord
