// Stands between gRPC's clients and gRPC: passes bytes on in both directions, and cuts a connection
// whose header block does not end (net/header_blocks.h), which gRPC 1.51 would keep without a
// bound. If a client does not read its answers, nothing more is taken from it, since gRPC would
// keep the answers. One thread serves all connections.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "net/header_blocks.h"

namespace paracord {

class FrameRelay {
 public:
  FrameRelay();
  // Passes on the bytes in flight for a moment, and then ends all connections.
  ~FrameRelay();
  FrameRelay(const FrameRelay&) = delete;
  FrameRelay& operator=(const FrameRelay&) = delete;

  // Takes a connected socket that does not block, and returns the caller's socket, which is
  // connected to it through the relay. Returns -1 if there are no descriptors; the connection has
  // ended then.
  int Add(int client);

 private:
  // One direction of a connection.
  struct Way {
    std::string pending;  // read and not written yet; then nothing more is read
    int64_t pending_since_ms = 0;
    bool ended = false;  // its source has
  };
  struct Connection {
    int client = -1;
    int server = -1;
    HeaderBlocks blocks;
    Way up;    // from the client
    Way down;  // to it
  };

  void Run();
  void TakeNew();
  bool Pump(Connection& connection);
  bool PumpUp(Connection& connection);
  bool Move(int from, int to, Way& way, HeaderBlocks* blocks);
  void SetInterest(Connection& connection) const;
  void End(Connection& connection);

  const int epoll_fd_;
  const int wake_fd_;
  std::atomic<bool> stop_{false};
  Mutex mu_;
  std::vector<std::unique_ptr<Connection>> new_ ABSL_GUARDED_BY(mu_);
  // Used by the relay's thread only.
  std::map<Connection*, std::unique_ptr<Connection>> connections_;
  std::vector<char> scratch_;
  std::thread thread_;
};

}  // namespace paracord
