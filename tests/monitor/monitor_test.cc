// A daemon is live while its loop runs, ready when it says so, and measured on request.
#include "monitor/monitor.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/thread_loop.h"
#include "monitor/http_client.h"

namespace paracord {
namespace {

// A loop on a separate thread, run as in a daemon's main.
class RunningLoop {
 public:
  RunningLoop() : thread_([this] { loop_.Run(); }) {}
  ~RunningLoop() {
    loop_.Stop();
    thread_.join();
  }
  EventLoop& loop() { return loop_; }

 private:
  ThreadLoop loop_;
  std::thread thread_;
};

TEST_CASE("a daemon shows its health, its metrics and, where it has them, a status and a page") {
  std::atomic<bool> ready{false};  // the loop's thread reads it
  RunningLoop running;
  MonitorSource source{.role = "ps", .task = "ps:3", .version = "1"};
  source.health = [&] { return HealthState{ready, "holds nothing yet"}; };
  source.measure = [](MetricSet& metrics) { metrics.Gauge("paracord_own", "Own.", 7); };
  const bool page = GENERATE(false, true);
  if (page) source.page = "<html>";
  if (page) source.status = [] { return std::string("{}"); };
  const auto monitor = Monitor::Start("127.0.0.1:0", running.loop(), source);
  REQUIRE(monitor.ok());
  const std::string at = (*monitor)->address();
  CHECK(CodeOf(Get(at, "/livez")) == 200);
  const std::string no = Get(at, "/readyz");
  CHECK(CodeOf(no) == 503);
  CHECK(no.ends_with("ps:3 holds nothing yet\n"));
  CHECK(Get(at, "/metrics").find("paracord_ready{role=\"ps\",task=\"ps:3\"} 0") !=
        std::string::npos);
  ready = true;
  CHECK(CodeOf(Get(at, "/readyz")) == 200);
  CHECK(Get(at, "/metrics").find("paracord_own{role=\"ps\",task=\"ps:3\"} 7") != std::string::npos);
  CHECK(CodeOf(Get(at, "/status.json")) == (page ? 200 : 404));
  CHECK((Get(at, "/").find("<html>") != std::string::npos) == page);
  CHECK(CodeOf(Get(at, "/etc/passwd")) == 404);
}

TEST_CASE("a daemon that has a certificate says when it expires") {
  RunningLoop running;
  MonitorSource source{.role = "ps", .task = "ps:3", .version = "1"};
  source.health = [] { return HealthState{true, ""}; };
  const bool has_one = GENERATE(false, true);
  if (has_one) source.certificate_expires_s = [] { return int64_t{1800000000}; };
  const auto monitor = Monitor::Start("127.0.0.1:0", running.loop(), source);
  REQUIRE(monitor.ok());
  const std::string text = Get((*monitor)->address(), "/metrics");
  const std::string line =
      "paracord_certificate_expiry_timestamp_seconds{role=\"ps\",task=\"ps:3\"} 1800000000\n";
  CHECK((text.find(line) != std::string::npos) == has_one);
}

TEST_CASE("a daemon whose loop hangs is not live, though it still listens") {
  std::atomic<bool> hangs{true};  // the loop's thread reads it
  RunningLoop running;
  MonitorSource source{.role = "ps", .task = "ps:3", .version = "1"};
  source.health = [] { return HealthState{true, ""}; };
  const auto monitor = Monitor::Start("127.0.0.1:0", running.loop(), source, {.answer_ms = 1000});
  REQUIRE(monitor.ok());
  running.loop().Post([&] {
    while (hangs) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  CHECK(CodeOf(Get((*monitor)->address(), "/livez")) == 503);
  hangs = false;
  CHECK(CodeOf(Get((*monitor)->address(), "/livez")) == 200);
}

TEST_CASE("however many ask, a status is made once for all who wait, and a few times a second") {
  std::atomic<int> made{0};       // counted by the loop's thread
  std::atomic<bool> hangs{true};  // read by it
  RunningLoop running;
  MonitorSource source{.role = "coordinator", .task = "coordinator", .version = "1"};
  source.health = [] { return HealthState{true, ""}; };
  source.status = [&] { return std::to_string(++made); };
  const auto monitor = Monitor::Start("127.0.0.1:0", running.loop(), source);
  REQUIRE(monitor.ok());
  const std::string at = (*monitor)->address();
  running.loop().Post([&] {
    while (hangs) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  std::vector<std::unique_ptr<RawHttpClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<RawHttpClient>(at));
    clients.back()->Send("GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  hangs = false;
  for (const auto& client : clients) CHECK(client->Read().ends_with("\r\n\r\n1"));
  const int64_t begun_ms = SteadyMs();
  for (int i = 0; i < 20; ++i) CHECK(CodeOf(Get(at, "/status.json")) == 200);
  CHECK(made <= 2 + (SteadyMs() - begun_ms) / 200);
  const int before = made;
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  CHECK(Get(at, "/status.json").ends_with("\r\n\r\n" + std::to_string(before + 1)));
}

TEST_CASE("without an address nothing is shown") {
  RunningLoop running;
  const auto monitor = Monitor::Start("", running.loop(), {});
  REQUIRE(monitor.ok());
  CHECK(*monitor == nullptr);
}

}  // namespace
}  // namespace paracord
