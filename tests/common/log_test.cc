#include "common/log.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <sstream>
#include <string>
#include <utility>

#include "common/json_text.h"
#include "common/last_events.h"
#include "common/log_format.h"
#include "common/log_lines.h"
#include "common/steady_ms.h"
#include "google/protobuf/stubs/logging.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace paracord {
namespace {

TEST_CASE("protobuf's errors about bad messages are short log lines, at most one a second") {
  const std::shared_ptr<spdlog::logger> usual = spdlog::default_logger();
  SetUpLogging("info");
  std::ostringstream log;
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  const int64_t begin_ms = SteadyMs();
  for (int i = 0; i < 100; ++i) {
    GOOGLE_LOG(ERROR) << "Field " << std::string(100000, 'x') << "\nhas\nlines";
  }
  spdlog::set_default_logger(usual);
  CHECK(log.str().find("protobuf Field xxx") != std::string::npos);
  const int64_t lines = std::ranges::count(log.str(), '\n');
  CHECK(lines >= 1);
  CHECK(lines <= 1 + (SteadyMs() - begin_ms) / 1000);  // logging may have been slow
  CHECK(log.str().size() < 3000 * static_cast<size_t>(lines));
}

TEST_CASE("an event is named by the words of its line that do not vary") {
  CHECK(EventOf("joined: session 5, generation 2, 3 ps") == "joined_session");
  CHECK(EventOf("listens at unix:/tmp/x") == "listens_at");
  CHECK(EventOf("checkpoint step-4-g1-r1 in 12 ms") == "checkpoint");
  CHECK(EventOf("cannot write the snapshot: disk full") == "cannot_write_the_snapshot");
  CHECK(EventOf("exit code 0: done") == "exit_code");
  CHECK(EventOf("ps:1 is away") == "is_away");
  CHECK(EventOf("{}: the certificate of {} ends in {} days") == "the_certificate_of");
  CHECK(EventOf("{}") == "line");
  CHECK(EventOf("") == "line");
  CHECK(EventOf("a b c d e f g") == "a_b_c_d_e");
}

TEST_CASE("a line in JSON is one object, whatever the text has in it") {
  const std::string text = "he said \"no\"\nand \\ left \xff";
  const std::string line = JsonLine(1'700'000'000'123, "warning", "ps:0", "he_said", "", text);
  CHECK(line.find('\n') == std::string::npos);
  const nlohmann::json read = JsonOf(line);
  REQUIRE(read.is_object());
  CHECK(read.at("ts") == "2023-11-14T22:13:20.123Z");
  CHECK(read.at("level") == "warning");
  CHECK(read.at("task") == "ps:0");
  CHECK(read.at("event") == "he_said");
  CHECK(read.at("msg").get<std::string>().starts_with("he said \"no\"\nand \\ left"));
}

TEST_CASE("what one event repeats beyond its limit is counted, and others pass") {
  EventLimit limit;
  uint32_t passed = 0;
  for (int i = 0; i < 1000; ++i) passed += limit.Take("noise", 5000).pass ? 1 : 0;
  CHECK(passed == EventLimit::kPerSecond);
  CHECK(limit.Take("signal", 5000).pass);
  const EventLimit::Verdict later = limit.Take("noise", 6000);
  CHECK(later.pass);
  CHECK(later.left_out == 1000 - EventLimit::kPerSecond);
  CHECK(limit.Take("noise", 6001).left_out == 0);
}

// Runs `body` in a child process. Returns its stderr and its wait status.
std::pair<std::string, int> InChild(const std::function<void()>& body) {
  int fds[2];
  REQUIRE(::pipe(fds) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(fds[1], STDERR_FILENO);
    ::close(fds[0]);
    ::close(fds[1]);
    body();
    ::_exit(0);
  }
  ::close(fds[1]);
  std::string said;
  char room[4096];
  for (ssize_t got = 0; (got = ::read(fds[0], room, sizeof room)) > 0;) {
    said.append(room, static_cast<size_t>(got));
  }
  ::close(fds[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return {said, status};
}

TEST_CASE("logs are text or JSON, and a flood of one line is cut short") {
  const bool json = GENERATE(false, true);
  const auto [said, status] = InChild([&] {
    SetUpLogging("info", json ? "json" : "text");
    const Logger log("ps:0");
    for (int i = 0; i < 500; ++i) log.Warn("noise number {}", i);
    for (int i = 0; i < 500; ++i) log.Info("program: line {}", i);
    log.Info("{} comes to the end", "somebody");
  });
  CHECK(status == 0);
  CHECK((said.find("\"event\":\"comes_to_the_end\"") != std::string::npos) == json);
  CHECK((said.find("\"event\":\"noise_number\"") != std::string::npos) == json);
  CHECK((said.find(" warning ps:0 noise number 0\n") != std::string::npos) == !json);
  CHECK(said.find("noise number 499") == std::string::npos);
  CHECK(said.find("program: line 499") != std::string::npos);
  CHECK(said.find("the end") != std::string::npos);
}

TEST_CASE("who a line is about, where that is and why are fields of a line in JSON") {
  const auto [said, status] = InChild([] {
    SetUpLogging("info", "json");
    const std::string peer = "worker:1";
    Logger("ps:0").Warn("{peer} at {address} is gone", "peer"_a = peer,
                        "address"_a = "10.0.0.9:4411", "reason"_a = "it \"hangs\"\x1e\n");
    Logger("ps:0").Warn("nobody is gone", "peer"_a = std::string());
  });
  CHECK(status == 0);
  const nlohmann::json first = JsonOf(said.substr(0, said.find('\n')));
  REQUIRE(first.is_object());
  CHECK(first.at("task") == "ps:0");
  CHECK(first.at("event") == "at");
  CHECK(first.at("peer") == "worker:1");
  CHECK(first.at("address") == "10.0.0.9:4411");
  CHECK(first.at("reason") == "it \"hangs\" \n");  // a raw quote would end the field
  CHECK(first.at("msg") == "worker:1 at 10.0.0.9:4411 is gone");
  CHECK_FALSE(JsonOf(said.substr(said.find('\n') + 1)).contains("peer"));
}

TEST_CASE("what a peer says begins no line of the log, and moves no cursor") {
  const auto [said, status] = InChild([] {
    SetUpLogging("info", "text");
    Logger("ps:0").Info("leaving with {}: {}", 7,
                        "x\n2026-01-01T00:00:00.000 info ps:0 \x1b[Aforged");
  });
  CHECK(status == 0);
  CHECK(said.find("\n2026-01-01") == std::string::npos);
  CHECK(said.find("leaving with 7: x\n  2026-01-01T00:00:00.000 info ps:0 \\x1b[Aforged\n") !=
        std::string::npos);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a fatal signal shows the stack and the last thousand events, and ends the process") {
  const auto [said, status] = InChild([] {
    ::rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    SetUpLogging("info");
    DumpLastEventsOnFatalSignals();
    for (size_t i = 0; i < kLastEventsMax + 10; ++i) RememberEvent("event " + std::to_string(i));
    RememberEvent(std::string(5000, 'x'));
    Logger("ps:0").Info("the last word");
    ::raise(SIGSEGV);
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
  CHECK(said.find("==== fatal signal SEGV; the stack") != std::string::npos);
  CHECK(said.find("common_test") != std::string::npos);  // a stack frame
  CHECK(said.find("\nevent 11\n") == std::string::npos);
  CHECK(said.find("\nevent 12\n") != std::string::npos);
  CHECK(said.find("\nevent 1009\n") != std::string::npos);
  CHECK(said.find(std::string(kLastEventBytesMax, 'x') + "\n") != std::string::npos);
  CHECK(said.find("the last word\n==== end\n") != std::string::npos);
}
#endif

}  // namespace
}  // namespace paracord
