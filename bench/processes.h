// Real daemons as children of a benchmark, which are killed when it ends. Main thread only.
// Failures end the benchmark.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace paracord::bench {

// Returns the path of a program beside this benchmark's.
std::string Program(const std::string& name);

class Child {
 public:
  // `environment` has variables ("NAME=value") beside those of the benchmark. Output is appended to
  // the file `log`.
  Child(std::vector<std::string> command, std::vector<std::string> environment,
        const std::string& log);
  ~Child();  // kills the process unless Wait has returned
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  int Wait();  // returns the exit code, or -1 after a signal

 private:
  pid_t pid_ = 0;  // 0 once reaped
};

// Resident memory from /proc/PID/status, in MB of 10^6 bytes.
struct Memory {
  double all = 0;
  double own = 0;     // heap and stacks
  double file = 0;    // programs and libraries, shared by processes
  double shared = 0;  // memory files: parameters and gradients that processes map
};
Memory MemoryOf(pid_t pid);

}  // namespace paracord::bench
