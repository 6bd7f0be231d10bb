// Finds header blocks (a HEADERS frame and the CONTINUATION frames behind it) that do not end in
// the bytes of an HTTP/2 client (RFC 9113, section 4), which may come in chunks of any size. It
// reads only the nine bytes before each frame. It counts PING and SETTINGS frames, too, of which
// each makes gRPC 1.51 keep an answer, unless it is an answer itself (ACK), and says what passes of
// each frame. Pure; used by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"

namespace paracord {

// The head of a frame, without its length.
struct Http2Frame {
  static constexpr unsigned char kData = 0, kHeaders = 1, kResetStream = 3, kNone = 255;
  static constexpr unsigned char kEndStream = 1;  // a flag of the first two

  unsigned char kind = kNone;
  unsigned char flags = 0;
  uint32_t stream = 0;
};

class HeaderBlocks {
 public:
  // `preface` is what comes before the first frame: of a client, but not of a server.
  static constexpr size_t kPrefaceBytes = 24;
  explicit HeaderBlocks(size_t preface = kPrefaceBytes) : skip_(preface) {}

  // Hears of bytes that pass of the body of a frame; `ends` with the last ones.
  using Passing = absl::FunctionRef<void(const Http2Frame& frame, uint64_t bytes, bool ends)>;

  // gRPC takes 8 KiB of metadata by default; this limit counts all frames of a block with their own
  // bytes.
  static constexpr uint64_t kBytesMax = 64 << 10;

  // Returns false if a block is longer than the limit: nothing may be passed on any more.
  bool Take(
      std::span<const char> bytes, Passing passing = [](const Http2Frame&, uint64_t, bool) {});
  // The PING and SETTINGS frames so far that want an answer.
  uint64_t asking_frames() const { return asking_frames_; }

 private:
  static constexpr size_t kFrameHeadBytes = 9;
  bool BeginFrame();

  uint64_t skip_;  // bytes up to the next frame
  std::array<unsigned char, kFrameHeadBytes> head_{};
  size_t have_ = 0;     // of head_
  Http2Frame frame_;    // under way
  uint64_t block_ = 0;  // bytes of the block under way; 0: none is
  uint64_t asking_frames_ = 0;
};

// Bounds how many frames of a kind a connection sends in a second, which begins with the first.
class FrameRate {
 public:
  // This bounds those that want an answer. Clients that measure the network by pings (grpc-go) send
  // one whenever the one before is answered, as long as a reply arrives: thousands a second within
  // a machine.
  static constexpr uint64_t kAsksMax = 20000;
  // This bounds those that reset a request, each of which gRPC works on all the same. A client of
  // ours resets one that it gives up.
  static constexpr uint64_t kResetsMax = 200;

  explicit FrameRate(uint64_t a_second_max) : a_second_max_(a_second_max) {}

  // Counts frames that have come by now. Returns false if they are too many.
  bool Allow(uint64_t frames, int64_t now_ms) {
    if (now_ms - since_ms_ >= 1000) {
      since_ms_ = now_ms;
      frames_ = 0;
    }
    frames_ += frames;
    return frames_ <= a_second_max_;
  }

 private:
  uint64_t a_second_max_;
  int64_t since_ms_ = 0;
  uint64_t frames_ = 0;
};

}  // namespace paracord
