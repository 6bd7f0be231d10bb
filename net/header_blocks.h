// Follows the frames in the bytes that one end of an HTTP/2 connection sends (RFC 9113, section 4),
// given in chunks of any size, and finds header blocks (a HEADERS frame and its CONTINUATION
// frames) that are too long. Interprets only the nine-byte head of each frame. Also counts the PING
// and SETTINGS frames without ACK, because gRPC 1.51 buffers an answer to each, and reports the
// bytes of each frame's body. Does no I/O; used by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"

namespace paracord {

// The fields of a frame's head, except the length.
struct Http2Frame {
  static constexpr unsigned char kData = 0, kHeaders = 1, kResetStream = 3, kNone = 255;
  static constexpr unsigned char kEndStream = 1;  // a flag of DATA and HEADERS frames

  unsigned char kind = kNone;
  unsigned char flags = 0;
  uint32_t stream = 0;
};

class HeaderBlocks {
 public:
  // `preface` is the number of bytes before the first frame: kPrefaceBytes if the bytes are a
  // client's, 0 if they are a server's.
  static constexpr size_t kPrefaceBytes = 24;
  explicit HeaderBlocks(size_t preface = kPrefaceBytes) : skip_(preface) {}

  // Called for each part of a frame's body in a chunk, with its size, or with 0 for an empty body.
  // `ends`: the body is complete. The preface counts as the body of a frame of kind kNone.
  using Passing = absl::FunctionRef<void(const Http2Frame& frame, uint64_t bytes, bool ends)>;

  // The most bytes of a header block, its frames' heads included. gRPC accepts 8 KiB of metadata.
  static constexpr uint64_t kBytesMax = 64 << 10;

  // Reads a chunk. Returns false if a header block exceeds kBytesMax; the connection should be cut.
  bool Take(
      std::span<const char> bytes, Passing passing = [](const Http2Frame&, uint64_t, bool) {});
  // How many PING and SETTINGS frames without ACK have begun so far.
  uint64_t asking_frames() const { return asking_frames_; }

 private:
  static constexpr size_t kFrameHeadBytes = 9;
  bool BeginFrame();

  uint64_t skip_;  // bytes up to the head of the next frame
  std::array<unsigned char, kFrameHeadBytes> head_{};
  size_t have_ = 0;     // bytes filled in head_
  Http2Frame frame_;    // the last frame whose head has come
  uint64_t block_ = 0;  // bytes of the header block that has not ended; 0: there is none
  uint64_t asking_frames_ = 0;
};

// Limits how many events of one kind, such as frames of a connection, happen in a second. A second
// begins with the first event after the end of the second before.
class FrameRate {
 public:
  // For PING and SETTINGS frames without ACK. While a reply arrives, clients that measure the
  // network (grpc-go) send a ping as soon as the last is answered: thousands a second on the same
  // machine.
  static constexpr uint64_t kAsksMax = 20000;
  // For the resets of a connection; gRPC works even on a reset request. Our clients reset a request
  // when they give up waiting for the reply.
  static constexpr uint64_t kResetsMax = 200;

  explicit FrameRate(uint64_t a_second_max) : a_second_max_(a_second_max) {}

  // Counts `frames` more events at `now_ms`. Returns false if the second has too many.
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
