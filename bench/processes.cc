#include "processes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/spawn.h"
#include "measure.h"

namespace paracord::bench {
std::string Program(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

Child::Child(std::vector<std::string> command, std::vector<std::string> environment,
             const std::string& log) {
  SpawnOptions spawn;
  spawn.command = std::move(command);
  spawn.environment = std::move(environment);
  spawn.output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const absl::StatusOr<pid_t> pid = Spawn(spawn);
  close(spawn.output);
  if (!pid.ok()) Fail(std::string(pid.status().message()));
  pid_ = *pid;
}

Child::~Child() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

int Child::Wait() {
  int status = 0;
  if (pid_ == 0 || waitpid(pid_, &status, 0) != pid_) return -1;
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Memory MemoryOf(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  Memory memory;
  for (std::string line; std::getline(status, line);) {
    const auto take = [&line](const char* key, double& to) {
      if (line.starts_with(key)) to = std::stod(line.substr(std::strlen(key))) * 1024 / 1e6;
    };
    take("VmRSS:", memory.all);
    take("RssAnon:", memory.own);
    take("RssFile:", memory.file);
    take("RssShmem:", memory.shared);
  }
  return memory;
}

}  // namespace paracord::bench
