// A file of records, read at any offset. A plain file is read on demand and never held whole in
// memory. A compressed file (gzip or zlib) is decompressed into memory, up to a limit, or
// decompressed anew where it is read (packed_file.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/memory_budget.h"
#include "config/job.h"

namespace paracord {

constexpr uint64_t kUnpackedBytesMax = uint64_t{4} << 30;

// How to open a compressed file. Sizes are those of the decompressed bytes.
struct Unpacking {
  uint64_t bytes_max = kUnpackedBytesMax;  // the most bytes of a file held in memory
  // A file with more bytes than this is not held in memory, but read through a PackedFile. It may
  // then have any size, and is read fast only from front to back. UINT64_MAX: every file is held.
  uint64_t held_max = UINT64_MAX;
  bool zlib = false;  // whether the caller knows that the file has the zlib format
  // The bytes in memory are reserved here until the file is closed; null: no such limit.
  std::shared_ptr<MemoryShare> memory = {};
};

// Returns how to open the compressed files of a data source.
inline Unpacking UnpackingOf(const DataSpec& spec) {
  return {.held_max = spec.unpacked_bytes_max, .memory = spec.memory};
}

// Opens a file, and recognises gzip by the first bytes.
absl::StatusOr<std::unique_ptr<ReadFile>> OpenDataFile(Files& files, const std::string& path,
                                                       const Unpacking& unpacking = {});

// Returns the offset of the first character of a text: behind a byte-order mark of UTF-8, if there
// is one. A byte-order mark of UTF-16 is an error, and so are first bytes of another kind of file
// (common/file_kind.h).
absl::StatusOr<uint64_t> TextBegin(const ReadFile& file);

// Reads the bytes [begin, end) of a file, which must outlive the cursor. Used by one thread.
class FileCursor {
 public:
  // Loads `chunk` bytes at a time, or more if Peek asks for more.
  FileCursor(const ReadFile& file, uint64_t begin, uint64_t end, size_t chunk);

  // Returns the next `n` bytes or more; fewer only at `end`. Valid until the next call.
  absl::StatusOr<std::string_view> Peek(size_t n);
  // Moves on by `n` bytes, which the last Peek must have returned.
  void Skip(size_t n) { used_ += n; }
  // The offset of the next byte in the file.
  uint64_t position() const { return loaded_ - (buffer_.size() - used_); }
  // The CRC-32C of all loaded bytes: of the whole range once Peek has come to its end.
  uint32_t crc() const { return crc_; }

 private:
  const ReadFile& file_;
  const uint64_t end_;
  const size_t chunk_;
  // The offset in the file of the first byte behind `buffer_`.
  uint64_t loaded_;
  std::string buffer_;
  size_t used_ = 0;
  uint32_t crc_ = 0;
};

}  // namespace paracord
