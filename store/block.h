// A tensor in reference-counted, copy-on-write chunks of at most 1 MiB. The bytes of a chunk never
// change while a ChunkRef outside of the Block refers to it; the thread that updates the Block
// writes in place only into chunks without such a reference. A Block is owned by its partition and
// guarded by the partition's lock; any thread may hold and drop a ChunkRef. A chunk without a
// reference from outside gets one only under that lock, so it stays unshared while the updating
// thread holds the lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/shared_memory.h"

namespace paracord {

inline constexpr uint64_t kChunkElements = (uint64_t{1} << 20) / sizeof(float);
// How many elements of a chunk a thread takes at a time, so that several threads share the work on
// a small tensor.
inline constexpr uint64_t kPartElements = kChunkElements / 4;

struct Chunk {
  explicit Chunk(uint64_t count)
      : size(count), data(static_cast<float*>(AllocateShared(count * sizeof(float)))) {}
  ~Chunk() { FreeShared(data, size * sizeof(float)); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  std::atomic<uint32_t> references{0};
  // How many pulls reference the chunk, and whether the chunk is stale (store/pinned_bytes.h).
  std::atomic<uint32_t> pulls{0};
  const uint64_t size;  // elements
  float* const data;    // uninitialised
};

// A reference to a chunk. It is no std::shared_ptr, because a writer that finds a chunk unshared
// must also see everything that readers did before they released the chunk, and use_count() has no
// acquire ordering.
class ChunkRef {
 public:
  ChunkRef() = default;
  explicit ChunkRef(uint64_t size) : chunk_(new Chunk(size)) { chunk_->references = 1; }
  ChunkRef(const ChunkRef& other) : chunk_(other.chunk_) {
    if (chunk_ != nullptr) chunk_->references.fetch_add(1, std::memory_order_relaxed);
  }
  ChunkRef(ChunkRef&& other) noexcept : chunk_(std::exchange(other.chunk_, nullptr)) {}
  ChunkRef& operator=(ChunkRef other) noexcept {
    std::swap(chunk_, other.chunk_);
    return *this;
  }
  ~ChunkRef() {
    if (chunk_ == nullptr) return;
    if (chunk_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete chunk_;
  }

  std::span<const float> values() const { return {chunk_->data, chunk_->size}; }
  // May be used only while no other thread can read the chunk.
  std::span<float> mutable_values() const { return {chunk_->data, chunk_->size}; }
  std::atomic<uint32_t>& pulls() const { return chunk_->pulls; }
  bool operator==(const ChunkRef& other) const = default;  // whether both refer to the same chunk
  uint32_t references() const { return chunk_->references.load(std::memory_order_acquire); }
  bool unshared() const { return references() == 1; }

 private:
  Chunk* chunk_ = nullptr;
};

class Block {
 public:
  explicit Block(uint64_t elements) : elements_(elements) {
    for (uint64_t done = 0; done < elements; done += kChunkElements) {
      chunks_.emplace_back(std::min(kChunkElements, elements - done));
    }
  }

  uint64_t elements() const { return elements_; }
  uint64_t bytes() const { return elements_ * sizeof(float); }
  const std::vector<ChunkRef>& chunks() const { return chunks_; }

  // Returns the chunk into which the new values of chunk `i` are to be written: chunk `i` itself if
  // it is unshared, otherwise a fresh chunk. Replace then installs the returned chunk. Until then
  // the caller may read chunk `i`, element by element, even while it writes into the same chunk.
  ChunkRef Writable(size_t i) const {
    return chunks_[i].unshared() ? chunks_[i] : ChunkRef(chunks_[i].values().size());
  }
  void Replace(size_t i, ChunkRef chunk) { chunks_[i] = std::move(chunk); }

  // Fill and Assign may be used only before anybody else can see the block.
  void Fill(float value) {
    for (const ChunkRef& chunk : chunks_) std::ranges::fill(chunk.mutable_values(), value);
  }
  void Assign(std::span<const float> values) {
    for (const ChunkRef& chunk : chunks_) {
      const std::span<float> out = chunk.mutable_values();
      std::ranges::copy(values.first(out.size()), out.begin());
      values = values.subspan(out.size());
    }
  }

 private:
  uint64_t elements_;
  std::vector<ChunkRef> chunks_;
};

}  // namespace paracord
