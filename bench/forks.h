// For benchmarks of several processes: forked children that answer through pipes, and ps processes
// with which all children exchange. Calls start threads, and a process must have none when it
// forks, so only children call a ps. Failures end the process, except in ReadFrom.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc.h"
#include "processes.h"
#include "ps_client.h"
#include "temp_dir.h"

namespace paracord::bench {

void WriteTo(int pipe, const void* data, size_t bytes);
// Reads exactly `bytes` bytes. Returns false after an error, or if the pipe ends before.
bool ReadFrom(int pipe, void* data, size_t bytes);

// A forked process that runs `child` and exits. `child` writes to `out`, and the parent reads that
// at from(). The parent writes to to(), and `child` reads that at `go`.
class Fork {
 public:
  explicit Fork(const std::function<void(int out, int go)>& child);
  ~Fork();  // closes the pipes, then waits for the end of the child
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;
  int from() const { return from_; }
  int to() const { return to_; }

 private:
  pid_t pid_;
  int from_;
  int to_;
};

// Several ps processes, each with the partitions of `job`.
class ForkedPs {
 public:
  // `link` is how the children exchange with the ps: by "shared" memory, a "unix" socket or "tcp".
  ForkedPs(const PsJob& job, const std::string& link, uint32_t count, int threads_of_each);

  size_t size() const { return places_.size(); }
  // Both are called in a child. Dial returns a link to ps `i`, which uses `network` for shared
  // memory only. FenceOf returns the fence (run, generation, boot id) for calls to ps `i`.
  std::unique_ptr<Link> Dial(Network& network, size_t i) const;
  Fence FenceOf(size_t i) const;
  double CpuSeconds() const;  // sum over all ps

 private:
  struct Place {
    std::string address;
    std::string boot_id;
  };

  TempDir directory_;
  std::string link_;
  std::vector<std::unique_ptr<Child>> daemons_;
  std::vector<Place> places_;
  Fence fence_;  // the fence for the last ps; the others differ in the boot id
};

}  // namespace paracord::bench
