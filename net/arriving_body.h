// The body of a message while it arrives on a stream. Its bytes are received into pooled buffers,
// or directly into the memory of a ReplySink. Owned and used by the connection's reading thread.
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
  // A body that is not `wanted` is read and dropped. `sink` may be nullptr.
  ArrivingBody(uint64_t bytes, bool wanted, std::shared_ptr<ReplySink> sink);
  ArrivingBody(ArrivingBody&& other) noexcept;
  ArrivingBody& operator=(ArrivingBody&& other) noexcept;
  ~ArrivingBody();

  uint64_t left() const { return left_; }
  // Returns where the next bytes may be received; empty if they must be received elsewhere and
  // passed to Take.
  std::span<char> Room();
  // Reports that `bytes` were received into Room.
  void Filled(size_t bytes);
  // Takes at least one of `bytes`, received elsewhere, and returns how many it took.
  size_t Take(absl::string_view bytes);
  // Returns how many bytes beyond Room should be received elsewhere, in the same system call, and
  // passed to Take.
  uint64_t Behind();
  // Drops the rest of the body as it arrives, because nobody wants the message.
  void Forget();
  // Returns the bytes copied into this body's own memory since the last call.
  uint64_t TakeKept();
  // Returns the bytes received so far.
  absl::Cord TakeBytes();

 private:
  enum class Memory { kNone, kPooled, kOwn, kSink };
  void NeedChunk();
  void DropChunk();
  absl::Cord CordOfChunk();

  uint64_t left_ = 0;
  bool wanted_ = false;
  std::shared_ptr<ReplySink> sink_;  // is asked for each place
  absl::Cord bytes_;
  uint64_t kept_ = 0;
  Memory memory_ = Memory::kNone;  // who owns the chunk being filled
  char* chunk_ = nullptr;
  size_t chunk_size_ = 0;
  size_t chunk_bytes_ = 0;
};

}  // namespace paracord
