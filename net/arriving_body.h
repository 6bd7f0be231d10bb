// Receives the body of a message from a stream. The body is received in parts: each into a pooled
// buffer, or, when fewer bytes are left than half a buffer, into an allocation of that size, or
// into memory of a ReplySink. Owned by a connection, used by the connection's reading thread.
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
  // A body of `bytes`, none of which has been received. If `wanted` is false, the body is received
  // and dropped. If `sink` is not nullptr, the sink chooses where the bytes go (common/rpc.h).
  ArrivingBody(uint64_t bytes, bool wanted, std::shared_ptr<ReplySink> sink);
  ArrivingBody(ArrivingBody&& other) noexcept;
  ArrivingBody& operator=(ArrivingBody&& other) noexcept;
  ~ArrivingBody();

  uint64_t left() const { return left_; }  // the bytes of the body not yet received
  // Returns the memory that takes the next bytes. Returns an empty span if the body is complete, or
  // if the sink has to see the next bytes first: then the caller receives them into a buffer of its
  // own and calls Take.
  std::span<char> Room();
  // Reports that `bytes` bytes were received into Room.
  void Filled(size_t bytes);
  // Takes bytes of the body from the front of `bytes`, which the caller has received into a buffer
  // of its own, and returns how many bytes were taken.
  size_t Take(absl::string_view bytes);
  // When the caller receives into Room(), the same system call should also receive up to this many
  // bytes into a buffer of the caller's. After Filled, those bytes are for Take if left() is above
  // 0; otherwise they belong to the next frame.
  uint64_t Behind();
  // Drops the bytes received so far, and from now on all bytes that arrive.
  void Forget();
  // Returns how many bytes of the body were stored outside the sink's memory since the last call.
  // The bytes in a buffer count once the buffer is full or the body complete.
  uint64_t TakeKept();
  // Returns the body and leaves this object empty. Called when left() is 0.
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
  Memory memory_ = Memory::kNone;  // what chunk_ points to; kNone: nothing
  char* chunk_ = nullptr;
  size_t chunk_size_ = 0;
  size_t chunk_bytes_ = 0;
};

}  // namespace paracord
