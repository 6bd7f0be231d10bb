// Packets on their way into the socket of a shared connection (net/shared_connection.h). No caller
// waits for room in the socket: packets that find no room are kept, and the connection's reading
// thread, which polls wake_fd() beside the socket, sends them later. Guarded by the connection's
// lock, except wake_fd() and Woken().
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

namespace paracord {

class PacketQueue {
 public:
  explicit PacketQueue(int socket);
  ~PacketQueue();
  PacketQueue(const PacketQueue&) = delete;
  PacketQueue& operator=(const PacketQueue&) = delete;

  // Sends a packet, or keeps it if earlier packets are kept or the socket has no room. If `fd` is
  // not -1, the packet carries the descriptor `fd`; the caller keeps `fd` open until the packet has
  // been sent. Returns false if the peer is gone.
  bool Send(std::string bytes, int fd = -1);
  // Sends kept packets as far as the socket has room. Returns false if the peer is gone.
  bool Flush();

  bool empty() const { return waiting_.empty(); }
  uint64_t bytes() const { return bytes_; }
  // How long the first of the kept packets has been the first; 0 if no packet is kept.
  int64_t stuck_ms() const;

  // A descriptor, readable from when a packet is kept in an empty queue until Woken is called.
  int wake_fd() const { return wake_; }
  void Woken() const;

 private:
  struct Packet {
    std::string bytes;
    int fd = -1;
  };

  const int socket_;
  const int wake_;  // -1: no descriptor was free; the reading thread then flushes at its ticks
  std::deque<Packet> waiting_;
  uint64_t bytes_ = 0;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace paracord
