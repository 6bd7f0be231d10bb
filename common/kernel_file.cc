#include "common/kernel_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace paracord {

std::string ReadKernelFile(const std::string& path) {
  constexpr size_t kStep = 16 << 10, kBytesMax = 4 << 20;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  std::string text;
  ssize_t got = 1;
  while (got > 0 && text.size() < kBytesMax) {
    const size_t before = text.size();
    text.resize(before + kStep);
    do {
      got = read(fd, text.data() + before, kStep);
    } while (got < 0 && errno == EINTR);
    text.resize(before + static_cast<size_t>(got > 0 ? got : 0));
  }
  close(fd);
  return got < 0 ? "" : text;
}

}  // namespace paracord
