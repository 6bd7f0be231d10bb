// A file of records, read at any offset. A plain file is read on demand and never held whole. A
// packed file has no offsets: it is unpacked into memory, up to a limit named in the error, or
// unpacked anew as it is read. The cursor is used by one thread; the file by many.
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

struct Unpacking {
  uint64_t bytes_max = kUnpackedBytesMax;
  // A file of more unpacked bytes is not held in memory (packed_file.h): it may have any size, and
  // is read fast only from front to back.
  uint64_t held_max = UINT64_MAX;
  bool zlib = false;  // the caller knows the zlib format
  // Unpacked bytes are reserved here until the file is closed; null: no further limit.
  std::shared_ptr<MemoryShare> memory = {};
};

// How the packed files of these data are opened.
inline Unpacking UnpackingOf(const DataSpec& spec) {
  return {.held_max = spec.unpacked_bytes_max, .memory = spec.memory};
}

// Recognises gzip by the first bytes.
absl::StatusOr<std::unique_ptr<ReadFile>> OpenDataFile(Files& files, const std::string& path,
                                                       const Unpacking& unpacking = {});

// Returns the offset of the first character, behind a byte-order mark if present. UTF-16 is an
// error, and so is any packing except gzip.
absl::StatusOr<uint64_t> TextBegin(const ReadFile& file);

// Walks over the bytes [begin, end) of a file with a bounded buffer. Borrows the file.
class FileCursor {
 public:
  // `chunk` bytes are read at a time, more where more is asked for.
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
