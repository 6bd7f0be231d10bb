// The bytes of a connected stream socket, plain or encrypted (net/tls_channel.h); readers and
// writers of frames see no difference. One thread may receive while another sends.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <span>

namespace paracord {

class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}
  virtual ~Channel();  // closes the socket
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // The socket, which may be polled and shut down. After Receive has failed with EAGAIN, the socket
  // becomes readable when there is more to receive. After Send has failed with EAGAIN, the socket
  // becomes writable when there is room.
  int fd() const { return fd_; }
  // Receives into `room` without waiting, and returns how many bytes have come. Returns 0 if the
  // peer has ended its sending direction, and -1 with errno if nothing can be received.
  virtual ssize_t Receive(std::span<iovec> room) = 0;
  // Sends some of `pieces` without waiting, and returns how many bytes were sent, or -1 with errno.
  // After EAGAIN the next call must begin with the bytes of the failed call.
  virtual ssize_t Send(std::span<iovec> pieces) = 0;
  // Ends our sending direction behind all bytes sent so far; the peer may still send. Returns false
  // with errno on failure; after EAGAIN the caller calls again.
  virtual bool EndSending() = 0;

 private:
  const int fd_;
};

// Takes ownership of `fd`.
std::unique_ptr<Channel> MakePlainChannel(int fd);

}  // namespace paracord
