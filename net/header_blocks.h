// Finds header blocks (a HEADERS frame and the CONTINUATION frames behind it) that do not end in
// the bytes of an HTTP/2 client (RFC 9113, section 4), which may come in chunks of any size. It
// reads only the nine bytes before each frame. It counts PING and SETTINGS frames, too, of which
// each makes gRPC 1.51 keep an answer. Pure; used by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace paracord {

class HeaderBlocks {
 public:
  // gRPC takes 8 KiB of metadata by default; this limit counts all frames of a block with their own
  // bytes.
  static constexpr uint64_t kBytesMax = 64 << 10;

  // Returns false if a block is longer than the limit: nothing may be passed on any more.
  bool Take(std::span<const char> bytes);
  // The PING and SETTINGS frames so far.
  uint64_t asking_frames() const { return asking_frames_; }

 private:
  static constexpr size_t kPrefaceBytes = 24;
  static constexpr size_t kFrameHeadBytes = 9;
  bool BeginFrame();

  uint64_t skip_ = kPrefaceBytes;  // bytes up to the next frame
  std::array<unsigned char, kFrameHeadBytes> head_{};
  size_t have_ = 0;     // of head_
  uint64_t block_ = 0;  // bytes of the block under way; 0: none is
  uint64_t asking_frames_ = 0;
};

}  // namespace paracord
