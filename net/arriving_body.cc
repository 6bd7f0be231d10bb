#include "net/arriving_body.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "net/receive_buffers.h"

namespace paracord {
namespace {

constexpr size_t kSmallBytes = kReceiveBufferBytes / 2;  // smaller bodies are allocated, not pooled
constexpr size_t kBehindBytes = 4 << 10;

}  // namespace

ArrivingBody::ArrivingBody(uint64_t bytes, bool wanted, std::shared_ptr<ReplySink> sink)
    : left_(bytes), wanted_(wanted), sink_(std::move(sink)) {}

ArrivingBody::ArrivingBody(ArrivingBody&& other) noexcept { *this = std::move(other); }

ArrivingBody& ArrivingBody::operator=(ArrivingBody&& other) noexcept {
  std::swap(left_, other.left_);
  std::swap(wanted_, other.wanted_);
  sink_.swap(other.sink_);
  std::swap(bytes_, other.bytes_);
  std::swap(kept_, other.kept_);
  std::swap(memory_, other.memory_);
  std::swap(chunk_, other.chunk_);
  std::swap(chunk_size_, other.chunk_size_);
  std::swap(chunk_bytes_, other.chunk_bytes_);
  return *this;
}

ArrivingBody::~ArrivingBody() { DropChunk(); }

void ArrivingBody::NeedChunk() {
  const bool small = left_ < kSmallBytes;
  chunk_size_ = std::min<uint64_t>(left_, kReceiveBufferBytes);
  chunk_ = small ? new char[chunk_size_] : TakeReceiveBuffer();
  memory_ = small ? Memory::kOwn : Memory::kPooled;
}

void ArrivingBody::DropChunk() {
  if (memory_ == Memory::kPooled) GiveReceiveBuffer(chunk_);
  if (memory_ == Memory::kOwn) delete[] chunk_;
  memory_ = Memory::kNone;
  chunk_bytes_ = 0;
}

std::span<char> ArrivingBody::Room() {
  if (memory_ == Memory::kNone) {
    if (sink_ != nullptr || left_ == 0) return {};
    NeedChunk();
  }
  return {chunk_ + chunk_bytes_, chunk_size_ - chunk_bytes_};
}

uint64_t ArrivingBody::Behind() {
  const bool last = memory_ != Memory::kNone && chunk_size_ - chunk_bytes_ == left_;
  return sink_ != nullptr || last ? kBehindBytes : 0;
}

size_t ArrivingBody::Take(absl::string_view bytes) {
  const std::span<char> room = Room();
  if (!room.empty()) {
    const size_t size = std::min(bytes.size(), room.size());
    std::memcpy(room.data(), bytes.data(), size);
    Filled(size);
    return size;
  }
  bytes = bytes.substr(0, left_);
  const ReplySink::Place next = sink_->Look({bytes.data(), bytes.size()});
  bytes_.Append(bytes.substr(0, next.looked));
  left_ -= next.looked;
  kept_ += next.looked;
  if (!next.wanted) {
    sink_ = nullptr;
  } else if (next.bytes > 0 && left_ > 0) {
    memory_ = Memory::kSink;
    chunk_ = next.at;
    chunk_size_ = std::min(next.bytes, left_);
  }
  return next.looked;
}

void ArrivingBody::Filled(size_t bytes) {
  chunk_bytes_ += bytes;
  left_ -= bytes;
  if (chunk_bytes_ < chunk_size_) return;
  if (!wanted_) return DropChunk();
  if (memory_ != Memory::kSink) kept_ += chunk_bytes_;
  bytes_.Append(CordOfChunk());
  memory_ = Memory::kNone;
  chunk_bytes_ = 0;
}

absl::Cord ArrivingBody::CordOfChunk() {
  if (memory_ == Memory::kPooled) return CordOfReceiveBuffer(chunk_, chunk_bytes_);
  const absl::string_view filled(chunk_, chunk_bytes_);
  if (memory_ == Memory::kSink) {
    return absl::MakeCordFromExternal(filled, [sink = sink_](absl::string_view) {});
  }
  return absl::MakeCordFromExternal(filled, [](absl::string_view held) { delete[] held.data(); });
}

void ArrivingBody::Forget() {
  wanted_ = false;
  sink_ = nullptr;
  bytes_.Clear();
  DropChunk();
}

uint64_t ArrivingBody::TakeKept() { return std::exchange(kept_, 0); }

absl::Cord ArrivingBody::TakeBytes() { return std::exchange(bytes_, absl::Cord()); }

}  // namespace paracord
