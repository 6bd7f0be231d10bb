// Packets of a SOCK_SEQPACKET socket, perhaps with a descriptor. Free functions, any thread.
#pragma once

#include <sys/types.h>

#include <span>
#include <string_view>

namespace paracord {

struct ReceivedPacket {
  ssize_t size = 0;    // the result of recvmsg
  bool whole = false;  // nothing of the packet or its descriptor was cut off
  int fd = -1;         // the caller closes it
};
ReceivedPacket ReceivePacket(int socket, std::span<char> room);

// Sends like sendmsg, without waiting. A descriptor `fd` is attached unless -1; the caller still
// owns `fd`.
ssize_t SendPacket(int socket, std::string_view bytes, int fd);

}  // namespace paracord
