#include "e2e/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace paracord::e2e {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const Variables& added) {
  std::vector<std::string> all = {"OMP_WAIT_POLICY=passive"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (!added.contains(name) && name != "TF_CONFIG") all.push_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

}  // namespace

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

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
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables = Environment(environment);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(variables);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  REQUIRE(out >= 0);
  pid_ = fork();
  if (pid_ == 0) {  // nothing but what is safe after fork
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(out);
  REQUIRE(pid_ > 0);
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

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "pce2e-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  if (getenv("PARACORD_E2E_KEEP") == nullptr) std::filesystem::remove_all(path_, ignored);
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  REQUIRE(out.flush().good());
}

}  // namespace paracord::e2e
