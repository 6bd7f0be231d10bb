#include "net/packet_socket.h"

#include <sys/socket.h>

#include <array>
#include <cstring>

namespace paracord {

ReceivedPacket ReceivePacket(int socket, std::span<char> room) {
  iovec data{room.data(), room.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  // Room for one descriptor; the kernel closes any further.
  header.msg_controllen = CMSG_LEN(sizeof(int));
  ReceivedPacket packet{.size = recvmsg(socket, &header, MSG_CMSG_CLOEXEC)};
  if (packet.size < 0) return packet;
  packet.whole = packet.size > 0 && (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  const cmsghdr* const with = CMSG_FIRSTHDR(&header);
  if (with != nullptr && with->cmsg_level == SOL_SOCKET && with->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&packet.fd, CMSG_DATA(with), sizeof(packet.fd));
  }
  return packet;
}

ssize_t SendPacket(int socket, std::string_view bytes, int fd) {
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const with = CMSG_FIRSTHDR(&header);
    with->cmsg_level = SOL_SOCKET;
    with->cmsg_type = SCM_RIGHTS;
    with->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(with), &fd, sizeof(fd));
  }
  return sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace paracord
