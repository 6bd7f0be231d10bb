#include "e2e/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/spawn.h"
#include "common/steady_ms.h"

namespace paracord::e2e {
int64_t NowMs() { return SteadyMs(); }

bool WaitUntil(int64_t wait_ms, const std::function<bool()>& done) {
  const int64_t until = NowMs() + wait_ms;
  while (!done()) {
    if (NowMs() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

Process::Process(const std::vector<std::string>& command, const Variables& environment,
                 const std::string& log) {
  unsetenv("TF_CONFIG");
  SpawnOptions spawn;
  spawn.command = command;
  spawn.environment = {"OMP_WAIT_POLICY=passive"};
  for (const auto& [name, value] : environment) {
    spawn.environment.push_back(name + "=" + value);
  }
  spawn.output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  REQUIRE(spawn.output >= 0);
  const absl::StatusOr<pid_t> pid = Spawn(spawn);
  close(spawn.output);
  REQUIRE(pid.ok());
  pid_ = *pid;
}

Process::~Process() {
  if (!exit_.has_value()) Kill();
}

bool Process::running() { return !Poll().has_value(); }

void Process::Signal(int signal) const {
  if (!exit_.has_value()) kill(pid_, signal);
}

std::optional<Exit> Process::Poll() {
  int status = 0;
  if (!exit_.has_value() && waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  return exit_;
}

std::optional<Exit> Process::Wait(int64_t wait_ms) {
  WaitUntil(wait_ms, [this] { return Poll().has_value(); });
  return exit_;
}

void Process::Kill() {
  Signal(SIGKILL);
  Wait(10000);
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

uint64_t StatusMiB(pid_t pid, const std::string& key) {
  const std::string text = ReadText("/proc/" + std::to_string(pid) + "/status");
  const size_t at = text.find(key + ":");
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + key.size() + 1, nullptr, 10) >> 10;
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  REQUIRE(out.flush().good());
}

std::vector<std::string> OpenToOthers(const std::string& folder) {
  std::vector<std::string> found;
  const auto look = [&](const std::filesystem::directory_entry& entry) {
    using std::filesystem::perms;
    const perms others = perms::group_all | perms::others_all;
    if ((entry.status().permissions() & others) != perms::none) found.push_back(entry.path());
  };
  look(std::filesystem::directory_entry(folder));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) look(entry);
  return found;
}

}  // namespace paracord::e2e
