// The body of one message while it arrives on a stream: in memory that is used again, or where a
// Landing wants it. Owned by the thread that reads.
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
  // Not `wanted`: it is only read. `landing` may be nullptr.
  ArrivingBody(uint64_t bytes, bool wanted, std::shared_ptr<Landing> landing);
  ArrivingBody(ArrivingBody&& other) noexcept;
  ArrivingBody& operator=(ArrivingBody&& other) noexcept;
  ~ArrivingBody();

  uint64_t left() const { return left_; }
  // Where the next bytes may be received; empty: they have to be given to Take.
  std::span<char> Room();
  // So many bytes of Room have come.
  void Filled(size_t bytes);
  // Takes bytes that lie elsewhere, at least one of them; returns how many.
  size_t Take(absl::string_view bytes);
  // The bytes behind Room that are best received elsewhere, in the same call, for Take.
  uint64_t Behind();
  // Nobody wants the rest of it.
  void Forget();
  // Bytes that came to stay in memory of ours since this was last asked.
  uint64_t TakeKept();
  // What has come.
  absl::Cord TakeBytes();

 private:
  enum class Memory { kNone, kPooled, kOwn, kLanding };
  void NeedChunk();
  void DropChunk();
  absl::Cord CordOfChunk();

  uint64_t left_ = 0;
  bool wanted_ = false;
  std::shared_ptr<Landing> landing_;  // that is asked for each place
  absl::Cord bytes_;
  uint64_t kept_ = 0;
  Memory memory_ = Memory::kNone;  // of the chunk that is being filled
  char* chunk_ = nullptr;
  size_t chunk_size_ = 0;
  size_t chunk_bytes_ = 0;
};

}  // namespace paracord
