// A file of records, read at any place. Plain files are read where they are asked for and never
// held whole; a packed file has no places, so it is unpacked into memory, up to a limit that the
// error names. The cursor is used by one thread; the file by many.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

constexpr uint64_t kUnpackedBytesMax = uint64_t{4} << 30;

// `zlib`: the file is of zlib's own format, as the caller knows; gzip is known by its start.
absl::StatusOr<std::unique_ptr<ReadFile>> OpenDataFile(Files& files, const std::string& path,
                                                       uint64_t unpacked_max = kUnpackedBytesMax,
                                                       bool zlib = false);

// Where the text begins: after the byte-order mark that some programs write. UTF-16 is an error,
// and so is what is packed by anything but gzip.
absl::StatusOr<uint64_t> TextBegin(const ReadFile& file);

// Walks over the bytes [begin, end) of a file with a bounded buffer. Borrows the file.
class FileCursor {
 public:
  // `chunk` bytes are read at a time, more where more is asked for.
  FileCursor(const ReadFile& file, uint64_t begin, uint64_t end, size_t chunk);

  // What lies ahead: at least `n` bytes, fewer only where the range ends. Valid until the next
  // call.
  absl::StatusOr<std::string_view> Peek(size_t n);
  // Of what was peeked.
  void Skip(size_t n) { used_ += n; }
  // Of the next byte in the file.
  uint64_t position() const { return loaded_ - (buffer_.size() - used_); }
  // The checksum of everything loaded so far; of the range, once its end was seen.
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
