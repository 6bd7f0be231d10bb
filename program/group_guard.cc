#include "program/group_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/spawn.h"

namespace paracord {
namespace {

constexpr char kScript[] = R"(read -r _ <&3; kill -s KILL -- "-$1" 2>/dev/null; rm -rf -- "$2")";

}  // namespace

void GroupGuard::Watch(pid_t group, const std::string& folder, int output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  SpawnOptions options;
  options.command = {"/bin/sh", "-c", kScript, "paracord-guard", absl::StrCat(group), folder};
  options.directory = "/";
  options.output = output;
  options.descriptors = {ends[0]};
  options.death_signal = 0;
  const absl::StatusOr<pid_t> pid = Spawn(options);
  close(ends[0]);
  if (!pid.ok()) {
    close(ends[1]);
    return;
  }
  pid_ = *pid;
  end_ = ends[1];
}

GroupGuard::~GroupGuard() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  close(end_);
}

}  // namespace paracord
