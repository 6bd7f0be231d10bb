// Tests the health that a daemon reports to a supervisor on the same host.
#include "monitor/local_health.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/thread_loop.h"

namespace paracord {
namespace {

class Daemon {
 public:
  explicit Daemon(const std::string& address) {
    MonitorSource source;
    source.task = "ps:1";
    source.health = [this] { return HealthState{ready, "serves the job"}; };
    monitor = ServeLocalHealth(address, loop, std::move(source));
    thread = std::thread([this] { loop.Run(); });
  }
  ~Daemon() {
    loop.Stop();
    thread.join();
  }

  std::atomic<bool> ready = true;
  ThreadLoop loop;
  std::unique_ptr<Monitor> monitor;
  std::thread thread;
};

// A port. Other tests may use the number, too, at other addresses.
std::string Port() { return absl::StrCat(":", 20000 + getpid() % 20000); }

TEST_CASE("a daemon tells its health by its address, without any certificate") {
  const std::string at = GENERATE(std::string("127.0.0.1"), std::string("0.0.0.0"));
  Daemon ps(at + Port());
  REQUIRE(ps.monitor != nullptr);
  auto health = AskLocalHealth("127.0.0.1" + Port(), 5000);
  REQUIRE(health.has_value());
  REQUIRE(health->ok());
  CHECK((*health)->text == "ps:1 serves the job");
  CHECK((*health)->ready);
  ps.ready = false;
  health = AskLocalHealth("127.0.0.1" + Port(), 5000);
  REQUIRE(health.has_value());
  CHECK_FALSE((*health)->ready);
  CHECK(ServeLocalHealth(at + Port(), ps.loop, {}) == nullptr);  // another daemon has the name
}

TEST_CASE("a daemon whose loop stands still is told from one that is not there") {
  std::atomic<bool> hangs{true};  // the loop's thread reads it
  Daemon ps("127.0.0.1" + Port());
  REQUIRE(ps.monitor != nullptr);
  ps.loop.Post([&] {
    while (hangs) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  const auto health = AskLocalHealth("127.0.0.1" + Port(), 100);
  hangs = false;
  REQUIRE(health.has_value());
  CHECK(absl::IsDeadlineExceeded(health->status()));
  CHECK_FALSE(AskLocalHealth("127.0.0.2" + Port(), 100).has_value());
  CHECK_FALSE(AskLocalHealth("unix:/nowhere", 100).has_value());
}

}  // namespace
}  // namespace paracord
