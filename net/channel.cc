#include "net/channel.h"

#include <sys/socket.h>
#include <unistd.h>

namespace paracord {
namespace {

class PlainChannel : public Channel {
 public:
  using Channel::Channel;

  ssize_t Receive(std::span<iovec> room) override {
    msghdr message{};
    message.msg_iov = room.data();
    message.msg_iovlen = room.size();
    return recvmsg(fd(), &message, MSG_DONTWAIT);
  }
  ssize_t Send(std::span<iovec> pieces) override {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    return sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  bool EndSending() override { return shutdown(fd(), SHUT_WR) == 0; }
};

}  // namespace

Channel::~Channel() { close(fd_); }

std::unique_ptr<Channel> MakePlainChannel(int fd) { return std::make_unique<PlainChannel>(fd); }

}  // namespace paracord
