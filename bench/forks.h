// Benchmarks of several processes: forked children that answer through pipes, and the ps that they
// all exchange with. Whoever forks has no threads, so the ps are called by children alone. Any
// failure ends the process.
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

namespace paracord::bench {

void WriteTo(int pipe, const void* data, size_t bytes);
// False: the other end of the pipe was closed.
bool ReadFrom(int pipe, void* data, size_t bytes);

// A forked process, which runs `child` and ends. It writes to `out`, which the parent reads by
// `from`, and reads from `go`, to which the parent writes by `to`.
class Fork {
 public:
  explicit Fork(const std::function<void(int out, int go)>& child);
  ~Fork();  // waits for the process
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;
  int from() const { return from_; }
  int to() const { return to_; }

 private:
  pid_t pid_;
  int from_;
  int to_;
};

// Several ps on this machine, each of which has the partitions of `job`.
class ForkedPs {
 public:
  // `link`: "shared", "unix" or "tcp".
  ForkedPs(const PsJob& job, const std::string& link, uint32_t count, int threads_of_each);

  size_t size() const { return places_.size(); }
  // In a child: a link to ps `i`, and the fence of the calls to it.
  std::unique_ptr<Link> Dial(Network& network, size_t i) const;
  Fence FenceOf(size_t i) const;
  double CpuSeconds() const;  // of all ps so far

 private:
  struct Place {
    std::string address;
    std::string boot_id;
  };

  TempDir directory_;
  std::string link_;
  std::vector<std::unique_ptr<Child>> daemons_;
  std::vector<Place> places_;
  Fence fence_;  // of the last one
};

}  // namespace paracord::bench
