// Tests the first process, which restarts its daemon. Each case runs in a separate process.
#include "daemon/restarts.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <string>

#include "spdlog/spdlog.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// A first process with `daemon`, which gets the number of its life, from 1, and returns an exit
// code.
class FirstOf {
 public:
  FirstOf(const RestartOptions& options, const std::function<int(int life)>& daemon) {
    pid_ = fork();
    if (pid_ != 0) return;
    spdlog::set_level(spdlog::level::off);
    if (const auto code = RestartWhereItHelps(options)) _exit(*code);
    std::ofstream(lives_, std::ios::app) << "x";
    _exit(daemon(Lives()));
  }
  int Code() const {
    int status = 0;
    REQUIRE(waitpid(pid_, &status, 0) == pid_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int Lives() const {
    std::ifstream file(lives_);
    std::string text;
    file >> text;
    return static_cast<int>(text.size());
  }
  pid_t pid() const { return pid_; }

 private:
  const TestDirectory directory_;
  const std::string lives_ = directory_ / "lives";
  pid_t pid_ = 0;
};

const RestartOptions kThrice{.restarts_max = 3, .first_pause_ms = 1, .task = {}};

TEST_CASE("a daemon that a restart may help is started again, and one that none helps is not") {
  const FirstOf helped(kThrice, [](int life) {
    if (life == 1) kill(getpid(), SIGKILL);
    return life == 2 ? 202 : 0;
  });
  CHECK(helped.Code() == 0);
  CHECK(helped.Lives() == 3);
  const FirstOf wrong(kThrice, [](int) { return 2; });
  CHECK(wrong.Code() == 2);
  CHECK(wrong.Lives() == 1);
  const FirstOf drained(kThrice, [](int) { return 143; });
  CHECK(drained.Code() == 143);
  CHECK(drained.Lives() == 1);
}

TEST_CASE("a daemon that fails again and again ends its first process, too") {
  const FirstOf failing(kThrice, [](int) { return 202; });
  CHECK(failing.Code() == 202);
  CHECK(failing.Lives() == 4);
  RestartOptions sound = kThrice;
  sound.sound_ms = 0;  // each life counts as long
  const FirstOf late(sound, [](int life) { return life < 9 ? 202 : 0; });
  CHECK(late.Code() == 0);
  CHECK(late.Lives() == 9);
}

TEST_CASE("a signal to the first process reaches the daemon, which is not started again") {
  const FirstOf told(kThrice, [](int) {
    signal(SIGTERM, [](int) { _exit(203); });
    while (true) pause();
    return 0;
  });
  while (told.Lives() == 0) usleep(1000);
  usleep(50000);  // until the signal handler is installed
  kill(told.pid(), SIGTERM);
  CHECK(told.Code() == 203);
  CHECK(told.Lives() == 1);
}

}  // namespace
}  // namespace paracord
