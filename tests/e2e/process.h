// A program that a test runs in a new session with its output in a file. The kernel kills the
// program when the test dies. Main thread only: the program dies with the thread that forked it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace paracord::e2e {

using Variables = std::map<std::string, std::string>;

// An exit code, or the negated number of the signal that killed the process.
using Exit = int;

class Process {
 public:
  // `environment` extends the test's environment. Output is appended to `log`.
  Process(const std::vector<std::string>& command, const Variables& environment,
          const std::string& log);
  ~Process();  // kills the process
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  bool running();
  void Signal(int signal) const;
  // Reaps the process if it has ended. Later calls return the same result.
  std::optional<Exit> Poll();
  std::optional<Exit> Wait(int64_t wait_ms);
  void Kill();  // sends SIGKILL and waits

 private:
  pid_t pid_ = 0;
  std::optional<Exit> exit_;
};

int64_t NowMs();
// Calls `done` every few milliseconds until it returns true or `wait_ms` has passed. Returns
// whether `done` returned true.
bool WaitUntil(int64_t wait_ms, const std::function<bool()>& done);

std::string ReadText(const std::string& path);  // "" if unreadable
// Returns the MiB that /proc says of a process under `key`, such as VmHWM; 0 if the process is
// gone.
uint64_t StatusMiB(pid_t pid, const std::string& key);
void WriteText(const std::string& path, const std::string& text);
// Returns the paths in `folder`, including the folder, that other users may read or write.
std::vector<std::string> OpenToOthers(const std::string& folder);

}  // namespace paracord::e2e
