// The connections of a listener, each read by a thread of its own. Used by one thread.
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
  ~ServedConnections();  // aborts all connections and joins their threads
  ServedConnections(const ServedConnections&) = delete;
  ServedConnections& operator=(const ServedConnections&) = delete;

  // Starts a thread for `run`, which returns when its peer has gone, or soon after `abort` was
  // called. Returns false, without keeping anything, if there are 1024 connections, or
  // `of_task_max` connections of `task`, or if the system gives no thread. If `task` is empty,
  // `of_task_max` does not count. A connection counts until Reap has joined its thread.
  bool Add(std::function<void()> run, std::function<void()> abort, const std::string& task = "",
           int64_t of_task_max = 0, PeerCertificate certificate = {});
  void Reap();  // joins the threads of ended connections
  // Aborts the connections for whose certificates `ends` returns true.
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
