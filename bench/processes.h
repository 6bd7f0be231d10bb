// Processes that a benchmark measures: real daemons, started as children that die with the
// benchmark, in a directory that is removed with it. Used on main's thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace paracord::bench {

// The path of a program of this build.
std::string Program(const std::string& name);

class Child {
 public:
  // `environment` ("NAME=value") is added to ours; the output goes to the file `log`.
  Child(std::vector<std::string> command, std::vector<std::string> environment,
        const std::string& log);
  ~Child();  // kills it
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  int Wait();  // its exit code, or -1 for a signal

 private:
  pid_t pid_ = 0;  // 0: it has been waited for
};

// Resident memory from /proc/PID/status, in MB of 10^6 bytes.
struct Memory {
  double all = 0;
  double own = 0;     // heap and stacks
  double file = 0;    // programs and libraries, which processes share
  double shared = 0;  // memory files: parameters and gradients that processes of this host may map
};
Memory MemoryOf(pid_t pid);

// A new directory below `below` ("": the temporary directory), removed with its contents.
class TempDir {
 public:
  explicit TempDir(const std::string& below = "");
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& contents) const;  // its path

 private:
  std::string path_;
};

}  // namespace paracord::bench
