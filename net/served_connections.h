// The connections of one listener, each read by a thread of its own. Used by one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <thread>

#include "security/credentials.h"

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
           int64_t of_task_max = 0, PeerCertificate certificate = {});
  void Reap();  // joins those that have ended
  // Ends the connections that `ends` returns true for, by the certificates they were added with.
  void EndIf(const std::function<bool(const PeerCertificate& certificate)>& ends);

 private:
  struct Served {
    std::string task;
    std::function<void()> abort;
    PeerCertificate certificate;
    std::atomic<bool> over{false};
    std::thread thread;
  };
  std::list<Served> served_;
};

}  // namespace paracord
