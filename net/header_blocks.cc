#include "net/header_blocks.h"

#include <algorithm>

namespace paracord {
namespace {

constexpr unsigned char kHeaders = 1;
constexpr unsigned char kSettings = 4;
constexpr unsigned char kPing = 6;
constexpr unsigned char kContinuation = 9;
constexpr unsigned char kEndHeaders = 4;  // a flag
constexpr unsigned char kAck = 1;         // the same, of PING and SETTINGS

}  // namespace

bool HeaderBlocks::Take(std::span<const char> bytes) {
  while (!bytes.empty()) {
    if (skip_ > 0) {
      const size_t skipped = static_cast<size_t>(std::min<uint64_t>(skip_, bytes.size()));
      skip_ -= skipped;
      bytes = bytes.subspan(skipped);
      continue;
    }
    head_[have_++] = static_cast<unsigned char>(bytes.front());
    bytes = bytes.subspan(1);
    if (have_ == kFrameHeadBytes && !BeginFrame()) return false;
  }
  return true;
}

bool HeaderBlocks::BeginFrame() {
  have_ = 0;
  skip_ = uint64_t{head_[0]} << 16 | uint64_t{head_[1]} << 8 | head_[2];
  const unsigned char kind = head_[3];
  if ((kind == kPing || kind == kSettings) && (head_[4] & kAck) == 0) ++asking_frames_;
  if (kind != kHeaders && kind != kContinuation) return true;
  if (kind == kHeaders) block_ = 0;
  block_ += kFrameHeadBytes + skip_;
  if (block_ > kBytesMax) return false;
  if ((head_[4] & kEndHeaders) != 0) block_ = 0;
  return true;
}

}  // namespace paracord
