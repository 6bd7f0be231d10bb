// Daemons and other programs as children of a benchmark. A child is killed at the latest when the
// benchmark's main thread ends. Called on that thread only. Failures end the benchmark.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace paracord::bench {

// Returns the path of the program `name` in the folder of this benchmark's program.
std::string Program(const std::string& name);

class Child {
 public:
  // `environment` has variables ("NAME=value") beside those of the benchmark, or in place of them.
  // The child's output is appended to the file `log`.
  Child(std::vector<std::string> command, std::vector<std::string> environment,
        const std::string& log);
  ~Child();  // kills the process unless Wait has returned
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  int Wait();  // waits for the end; returns the exit code, or -1 after a signal

 private:
  pid_t pid_ = 0;  // 0 after Wait
};

// Resident memory of a process, from /proc/PID/status, in MB of 10^6 bytes.
struct Memory {
  double all = 0;
  double own = 0;     // memory of no file, such as heap and stacks
  double file = 0;    // mapped files, such as programs and libraries
  double shared = 0;  // shared memory, such as gradients on their way to a ps
};
Memory MemoryOf(pid_t pid);

}  // namespace paracord::bench
