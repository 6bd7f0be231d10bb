#include "net/packet_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "net/packet_socket.h"

namespace paracord {
namespace {

// Whether the last send failed only because the socket has no room now.
bool IsFull() { return errno == EAGAIN || errno == EINTR || errno == ENOBUFS; }

}  // namespace

PacketQueue::PacketQueue(int socket)
    : socket_(socket), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

PacketQueue::~PacketQueue() {
  if (wake_ >= 0) close(wake_);
}

bool PacketQueue::Send(std::string bytes, int fd) {
  if (waiting_.empty()) {
    if (SendPacket(socket_, bytes, fd) >= 0) return true;
    if (!IsFull()) return false;
    since_ = std::chrono::steady_clock::now();
    const uint64_t one = 1;
    // The eventfd is readable already.
    if (wake_ >= 0 && write(wake_, &one, sizeof one) < 0) errno = 0;
  }
  bytes_ += bytes.size();
  waiting_.push_back({std::move(bytes), fd});
  return true;
}

bool PacketQueue::Flush() {
  while (!waiting_.empty()) {
    const Packet& first = waiting_.front();
    if (SendPacket(socket_, first.bytes, first.fd) < 0) return IsFull();
    bytes_ -= first.bytes.size();
    waiting_.pop_front();
    since_ = std::chrono::steady_clock::now();
  }
  return true;
}

int64_t PacketQueue::stuck_ms() const {
  if (waiting_.empty()) return 0;
  const auto waited = std::chrono::steady_clock::now() - since_;
  return std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
}

void PacketQueue::Woken() const {
  uint64_t times = 0;
  if (wake_ >= 0 && read(wake_, &times, sizeof times) < 0) errno = 0;  // no wake-up was pending
}

}  // namespace paracord
