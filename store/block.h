// A tensor in reference-counted chunks of at most 1 MiB, copy on write: whoever holds a reference
// sees bytes that never change, and the writer updates a chunk in place only when nobody does.
// A Block is owned by its partition, whose lock guards it; a ChunkRef may be kept and dropped by
// any thread. New references are made under that lock alone, so a chunk found unshared stays
// unshared.
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
// What one thread takes at a time: several of a chunk, so that a small tensor has several threads.
inline constexpr uint64_t kPartElements = kChunkElements / 4;

struct Chunk {
  explicit Chunk(uint64_t count)
      : size(count), data(static_cast<float*>(AllocateShared(count * sizeof(float)))) {}
  ~Chunk() { FreeShared(data, size * sizeof(float)); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  std::atomic<uint32_t> references{0};
  std::atomic<uint32_t> pulls{0};  // store/pinned_bytes.h
  const uint64_t size;             // elements
  float* const data;               // not initialised
};

// Counts itself, because the writer must know that a chunk is unshared *and* see everything that
// its readers did before they let go; shared_ptr's use_count() does not promise the second.
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
  // Only for a chunk that nobody else can see.
  std::span<float> mutable_values() const { return {chunk_->data, chunk_->size}; }
  std::atomic<uint32_t>& pulls() const { return chunk_->pulls; }
  bool operator==(const ChunkRef& other) const = default;  // the same chunk
  bool unshared() const { return chunk_->references.load(std::memory_order_acquire) == 1; }

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

  // Where the next version of chunk `i` is written: the chunk itself if nobody reads it, else a
  // fresh one that Replace puts in its place. Elements may be read from the old and written to this
  // one by one.
  ChunkRef Writable(size_t i) const {
    return chunks_[i].unshared() ? chunks_[i] : ChunkRef(chunks_[i].values().size());
  }
  void Replace(size_t i, ChunkRef chunk) { chunks_[i] = std::move(chunk); }

  // Before anybody else can see the block.
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
