// Finds header blocks (a HEADERS frame and its CONTINUATION frames) without end in the bytes of an
// HTTP/2 client (RFC 9113, section 4), given in chunks of any size. Reads only the nine-byte head
// of each frame. Also counts the PING and SETTINGS frames without ACK, because gRPC 1.51 buffers an
// answer to each, and reports the bytes of every frame. Pure; used by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"

namespace paracord {

// The head of a frame, without the length.
struct Http2Frame {
  static constexpr unsigned char kData = 0, kHeaders = 1, kResetStream = 3, kNone = 255;
  static constexpr unsigned char kEndStream = 1;  // a flag of the first two

  unsigned char kind = kNone;
  unsigned char flags = 0;
  uint32_t stream = 0;
};

class HeaderBlocks {
 public:
  // `preface` is the bytes before the first frame: a client sends a preface, a server does not.
  static constexpr size_t kPrefaceBytes = 24;
  explicit HeaderBlocks(size_t preface = kPrefaceBytes) : skip_(preface) {}

  // Called with the bytes of a frame's body as they pass; `ends` with the last of them.
  using Passing = absl::FunctionRef<void(const Http2Frame& frame, uint64_t bytes, bool ends)>;

  // The limit of a header block, counting all bytes of its frames. By default gRPC takes 8 KiB of
  // metadata.
  static constexpr uint64_t kBytesMax = 64 << 10;

  // Returns false if a block is longer than the limit: nothing may be passed on any more.
  bool Take(
      std::span<const char> bytes, Passing passing = [](const Http2Frame&, uint64_t, bool) {});
  // The PING and SETTINGS frames so far that gRPC must answer.
  uint64_t asking_frames() const { return asking_frames_; }

 private:
  static constexpr size_t kFrameHeadBytes = 9;
  bool BeginFrame();

  uint64_t skip_;  // bytes up to the next frame
  std::array<unsigned char, kFrameHeadBytes> head_{};
  size_t have_ = 0;     // bytes filled in head_
  Http2Frame frame_;    // the frame under way
  uint64_t block_ = 0;  // bytes of the block under way; 0: none is
  uint64_t asking_frames_ = 0;
};

// Bounds the frames of a kind sent by a connection within a second, counted from the first frame.
class FrameRate {
 public:
  // For frames that gRPC must answer. Clients that measure the network by pings (grpc-go) send a
  // ping after each answer while a reply arrives: thousands a second on the same machine.
  static constexpr uint64_t kAsksMax = 20000;
  // For resets; gRPC works on a reset request all the same. Our clients reset a request when they
  // give up on the reply.
  static constexpr uint64_t kResetsMax = 200;

  explicit FrameRate(uint64_t a_second_max) : a_second_max_(a_second_max) {}

  // Counts frames that arrived by `now_ms`. Returns false above the limit.
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
