// Receives and sends packets of a SOCK_SEQPACKET socket, each with at most one descriptor. The
// functions may be called from any thread.
#pragma once

#include <sys/types.h>

#include <span>
#include <string_view>

namespace paracord {

struct ReceivedPacket {
  ssize_t size = 0;    // the result of recvmsg
  bool whole = false;  // not empty, and nothing of the packet or its descriptors was cut off
  int fd = -1;         // the descriptor, which the caller closes; -1: the packet has none
};
ReceivedPacket ReceivePacket(int socket, std::span<char> room);

// Sends without waiting, and returns the result of sendmsg. Attaches the descriptor `fd` unless
// `fd` is -1; the caller still owns `fd`.
ssize_t SendPacket(int socket, std::string_view bytes, int fd);

}  // namespace paracord
