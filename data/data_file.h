// A file of records, read at any offset. A plain file is read on demand and never held whole in
// memory. A compressed file (gzip or zlib) is decompressed into memory, up to a limit that the
// error names, or decompressed as it is read (packed_file.h). A FileCursor is used by one thread, a
// file by many.
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

// How a compressed file is opened. Sizes are those of the decompressed bytes.
struct Unpacking {
  uint64_t bytes_max = kUnpackedBytesMax;  // of a file that is held in memory
  // A larger file than this is not held in memory but read through a PackedFile: it may have any
  // size, and is read fast only from front to back. UINT64_MAX: all files are held.
  uint64_t held_max = UINT64_MAX;
  bool zlib = false;  // the caller knows that the file has the zlib format
  // The bytes in memory are reserved here until the file is closed; null: no further limit.
  std::shared_ptr<MemoryShare> memory = {};
};

// Returns how the compressed files of a data source are opened.
inline Unpacking UnpackingOf(const DataSpec& spec) {
  return {.held_max = spec.unpacked_bytes_max, .memory = spec.memory};
}

// Opens a file, and recognises gzip by the first bytes.
absl::StatusOr<std::unique_ptr<ReadFile>> OpenDataFile(Files& files, const std::string& path,
                                                       const Unpacking& unpacking = {});

// Returns the offset of the first character of a text, after a byte-order mark if there is one.
// UTF-16 is an error, and so is a file whose first bytes are those of another kind of file, such as
// an image (common/file_kind.h).
absl::StatusOr<uint64_t> TextBegin(const ReadFile& file);

// Walks over the bytes [begin, end) of a file with a bounded buffer. Borrows the file.
class FileCursor {
 public:
  // Reads `chunk` bytes at a time, or more if Peek asks for more.
  FileCursor(const ReadFile& file, uint64_t begin, uint64_t end, size_t chunk);

  // Returns the bytes ahead: at least `n`, or fewer at the end of the range. Valid until the next
  // call.
  absl::StatusOr<std::string_view> Peek(size_t n);
  // Moves on by `n` bytes, returned by the last Peek.
  void Skip(size_t n) { used_ += n; }
  // The file's offset of the next byte.
  uint64_t position() const { return loaded_ - (buffer_.size() - used_); }
  // The CRC-32C of everything loaded so far; of the whole range once Peek saw the end.
  uint32_t crc() const { return crc_; }

 private:
  const ReadFile& file_;
  const uint64_t end_;
  const size_t chunk_;
  uint64_t loaded_;  // the file's offset after the buffer
  std::string buffer_;
  size_t used_ = 0;
  uint32_t crc_ = 0;
};

}  // namespace paracord
