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

  // Sends a packet, perhaps with a descriptor. The caller keeps the descriptor open until Flush has
  // sent the packet. Returns false if the peer is gone.
  bool Send(std::string bytes, int fd = -1);
  // Sends kept packets as far as there is room. Returns false if the peer is gone.
  bool Flush();

  bool empty() const { return waiting_.empty(); }
  uint64_t bytes() const { return bytes_; }
  // How long the first packet has waited for room.
  int64_t stuck_ms() const;

  // Readable when a packet begins to wait, until Woken.
  int wake_fd() const { return wake_; }
  void Woken() const;

 private:
  struct Packet {
    std::string bytes;
    int fd = -1;
  };

  const int socket_;
  const int wake_;  // -1 without a free descriptor: the reading thread polls by its tick
  std::deque<Packet> waiting_;
  uint64_t bytes_ = 0;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace paracord
