// The connections of one listener, each read by a thread of its own. Used by one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <thread>

namespace paracord {

class ServedConnections {
 public:
  ServedConnections() = default;
  ~ServedConnections();  // ends all
  ServedConnections(const ServedConnections&) = delete;
  ServedConnections& operator=(const ServedConnections&) = delete;

  // Runs `run`, which ends when its peer has gone, or soon after `abort`. False if there are too
  // many in all, or `of_task_max` of `task` already, or if the system gives no thread: nothing was
  // kept then, and the peer goes another way. Peers with an empty `task` are not told apart, and
  // only their number in all is bounded.
  bool Add(std::function<void()> run, std::function<void()> abort, const std::string& task = "",
           int64_t of_task_max = 0);
  void Reap();  // joins those that have ended

 private:
  struct Served {
    std::string task;
    std::function<void()> abort;
    std::atomic<bool> over{false};
    std::thread thread;
  };
  std::list<Served> served_;
};

}  // namespace paracord
