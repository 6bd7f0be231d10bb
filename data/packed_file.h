// A compressed file that is read at any offset and never held whole in memory, for readers that go
// through it mostly in order. A read decompresses from where an earlier read ended, or from the
// nearest of a few states: copies of the decompressor that were made while the file was opened.
// Holds some 10 MiB, however large the file is. Thread-safe; reads wait for each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/mutex.h"
#include "data/byte_stream.h"

namespace paracord {

// How much a PackedFile keeps in memory. `every` is a multiple of `block`.
struct PackedFileSizes {
  size_t block = 256 << 10;            // bytes that are decompressed at once
  uint64_t every = uint64_t{4} << 20;  // bytes between two states, doubled for a large file
  size_t states_max = 64;              // a state takes some 50 KiB
  size_t blocks_max = 12;              // decompressed blocks in memory, the most recently used ones
  size_t readers_max = 4;              // decompressors that stand where an earlier read ended
};

class PackedFile : public ReadFile {
 public:
  // Decompresses the whole file once, to learn its size and to copy states. `start` is at the
  // beginning of the file. Errors are those of `start`.
  static absl::StatusOr<std::unique_ptr<ReadFile>> Open(std::unique_ptr<ByteStream> start,
                                                        const PackedFileSizes& sizes = {});

  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t offset, std::span<char> out) const override;

 private:
  explicit PackedFile(const PackedFileSizes& sizes) : sizes_(sizes), every_(sizes.every) {}
  struct Block {
    uint64_t number = 0;
    std::string bytes;
    uint64_t used = 0;  // uses_ at the last use
  };
  struct Reader {
    std::unique_ptr<ByteStream> stream;
    uint64_t used = 0;  // uses_ at the last use
  };

  absl::Status NoteStates(std::unique_ptr<ByteStream> start);
  // Returns the reader nearest before `offset`. Makes one from the nearest state if that is nearer.
  absl::StatusOr<ByteStream*> ReaderFor(uint64_t offset) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<const Block*> BlockOf(uint64_t number) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const PackedFileSizes sizes_;
  // Constant after opening.
  std::string path_;
  uint64_t size_ = 0;
  uint64_t every_;
  std::vector<std::unique_ptr<ByteStream>> states_;  // at multiples of every_

  mutable Mutex mu_;
  mutable uint64_t uses_ ABSL_GUARDED_BY(mu_) = 0;  // counts uses of blocks and readers
  mutable std::vector<Reader> readers_ ABSL_GUARDED_BY(mu_);
  mutable std::vector<Block> blocks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
