// Packets of a SOCK_SEQPACKET socket that may bring a descriptor. Free functions, any thread.
#pragma once

#include <sys/types.h>

#include <span>
#include <string_view>

namespace paracord {

struct ReceivedPacket {
  ssize_t size = 0;    // as of recvmsg
  bool whole = false;  // it had room, and so had what was attached
  int fd = -1;         // the receiver's to close
};
ReceivedPacket ReceivePacket(int socket, std::span<char> room);

// As sendmsg, without waiting. `fd` is attached if there is one, and stays the caller's.
ssize_t SendPacket(int socket, std::string_view bytes, int fd);

}  // namespace paracord
