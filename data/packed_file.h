// A compressed file that can be read at any offset but is never held whole in memory, for readers
// that read it mostly from front to back. A read goes on where an earlier read ended, or begins at
// a state: a copy of the decompressor at some offset, made when the file was opened. Takes about 10
// MiB, however large the file is. Thread-safe; one read runs at a time.
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
  size_t block = 256 << 10;            // how many bytes are decompressed at once
  uint64_t every = uint64_t{4} << 20;  // bytes between two states; more for a large file
  size_t states_max = 64;              // a state takes some 50 KiB
  size_t blocks_max = 12;              // the most recently used blocks stay in memory
  size_t readers_max = 4;              // decompressors that stay where a read ended
};

class PackedFile : public ReadFile {
 public:
  // Decompresses the whole file once, to learn its size and to make the states. `start` must be at
  // the beginning of the file. Returns the errors of `start`.
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
  // Returns the reader nearest before `offset`; a new one at a state, if a state is nearer.
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
