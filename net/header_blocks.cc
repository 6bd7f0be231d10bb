#include "net/header_blocks.h"

#include <algorithm>

namespace paracord {
namespace {

constexpr unsigned char kHeaders = Http2Frame::kHeaders;
constexpr unsigned char kSettings = 4;
constexpr unsigned char kPing = 6;
constexpr unsigned char kContinuation = 9;
constexpr unsigned char kEndHeaders = 4;  // a flag
constexpr unsigned char kAck = 1;         // a flag of PING and SETTINGS

}  // namespace

bool HeaderBlocks::Take(std::span<const char> bytes, Passing passing) {
  while (!bytes.empty()) {
    if (skip_ > 0) {
      const size_t skipped = static_cast<size_t>(std::min<uint64_t>(skip_, bytes.size()));
      skip_ -= skipped;
      bytes = bytes.subspan(skipped);
      passing(frame_, skipped, skip_ == 0);
      continue;
    }
    head_[have_++] = static_cast<unsigned char>(bytes.front());
    bytes = bytes.subspan(1);
    if (have_ < kFrameHeadBytes) continue;
    if (!BeginFrame()) return false;
    if (skip_ == 0) passing(frame_, 0, true);
  }
  return true;
}

bool HeaderBlocks::BeginFrame() {
  have_ = 0;
  skip_ = uint64_t{head_[0]} << 16 | uint64_t{head_[1]} << 8 | head_[2];
  const unsigned char kind = head_[3];
  frame_ = {kind, head_[4],
            uint32_t{head_[5] & 0x7fu} << 24 | uint32_t{head_[6]} << 16 | uint32_t{head_[7]} << 8 |
                head_[8]};
  if ((kind == kPing || kind == kSettings) && (head_[4] & kAck) == 0) ++asking_frames_;
  if (kind != kHeaders && kind != kContinuation) return true;
  if (kind == kHeaders) block_ = 0;
  block_ += kFrameHeadBytes + skip_;
  if (block_ > kBytesMax) return false;
  if ((head_[4] & kEndHeaders) != 0) block_ = 0;
  return true;
}

}  // namespace paracord
