#include "e2e/ports.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"

namespace paracord::e2e {
namespace {

constexpr int kLowestPort = 10000, kPortBlocks = 2000;

bool PortIsFree(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<uint16_t>(port));
  const bool free = bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0;
  close(fd);
  return free;
}

// Locks the file of a port block until this process ends. Returns false if another process has the
// lock.
bool LockBlock(int block) {
  const std::string file = absl::StrCat("/tmp/paracord-test-ports-", block);
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return false;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
  close(fd);
  return false;
}

int TakeBlock() {
  for (int i = 0; i < kPortBlocks; ++i) {
    const int block = (getpid() + i) % kPortBlocks;
    const int first = kLowestPort + block * kPortsOfTest;
    if (!LockBlock(block)) continue;
    int free = 0;
    while (free < kPortsOfTest && PortIsFree(first + free)) ++free;
    if (free == kPortsOfTest) return first;
  }
  FAIL("no " << kPortsOfTest << " neighbouring ports are free from " << kLowestPort);
  return 0;
}

}  // namespace

int FirstPort() {
  static const int port = TakeBlock();
  return port;
}

}  // namespace paracord::e2e
