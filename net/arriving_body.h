// The body of a message while it arrives on a stream. The body is received into pooled buffers,
// if small into an allocation of its own, or directly into the memory of a ReplySink. Owned by a
// connection, used by the connection's reading thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "common/rpc.h"

namespace paracord {

class ArrivingBody {
 public:
  ArrivingBody() = default;
  // A body of `bytes`, none of which has been received. A body that is not `wanted` is received and
  // dropped. If `sink` is not nullptr, the sink chooses where the bytes go (common/rpc.h).
  ArrivingBody(uint64_t bytes, bool wanted, std::shared_ptr<ReplySink> sink);
  ArrivingBody(ArrivingBody&& other) noexcept;
  ArrivingBody& operator=(ArrivingBody&& other) noexcept;
  ~ArrivingBody();

  uint64_t left() const { return left_; }  // the bytes of the body not yet received
  // Returns where the next bytes may be received. Empty if the body is complete, or if the next
  // bytes must be received elsewhere and passed to Take, because the sink has to see them first.
  std::span<char> Room();
  // Reports that `bytes` bytes were received into Room.
  void Filled(size_t bytes);
  // Takes the front of `bytes`, received elsewhere, and returns how many bytes it took.
  size_t Take(absl::string_view bytes);
  // Returns how many bytes beyond Room the same system call should receive elsewhere. They are for
  // Take if left() is still above 0, and otherwise of the next frame.
  uint64_t Behind();
  // Drops the bytes received so far, and from now on all bytes that arrive.
  void Forget();
  // Returns how many bytes were stored outside the sink's memory since the last call. The bytes in
  // a buffer count when the buffer is full or the body complete.
  uint64_t TakeKept();
  // Returns the body and leaves the object empty; called when left() is 0.
  absl::Cord TakeBytes();

 private:
  enum class Memory { kNone, kPooled, kOwn, kSink };
  void NeedChunk();
  void DropChunk();
  absl::Cord CordOfChunk();

  uint64_t left_ = 0;
  bool wanted_ = false;
  std::shared_ptr<ReplySink> sink_;  // chooses the destination of each part of the body
  absl::Cord bytes_;
  uint64_t kept_ = 0;
  Memory memory_ = Memory::kNone;  // the kind of memory of chunk_; kNone: there is no chunk
  char* chunk_ = nullptr;
  size_t chunk_size_ = 0;
  size_t chunk_bytes_ = 0;
};

}  // namespace paracord
