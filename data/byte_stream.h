// A file, or a member of a zip archive, read once from its start, unpacked on the way if it is
// gzip, zlib or deflated. Owned by a reader on its stack; one thread. Holds one chunk, so that a
// header that lies about a size costs nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

class ByteStream {
 public:
  // With `zlib` the file is in zlib's own format, which the caller knows; a gzip file is recognised
  // by its first bytes.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(Files& files, const std::string& path,
                                                          bool zlib = false);
  // A member lies between two offsets of an archive. Its `crc`, as zip defines it, is checked once
  // its end is reached.
  struct Member {
    uint64_t begin = 0, end = 0;
    bool deflated = false;
    uint32_t crc = 0;
  };
  static absl::StatusOr<std::unique_ptr<ByteStream>> OpenMember(std::unique_ptr<ReadFile> file,
                                                                const std::string& name,
                                                                const Member& member);
  ~ByteStream();

  const std::string& path() const { return path_; }
  // The first bytes of the file; empty if it is packed or a member of an archive.
  std::string_view beginning() const { return beginning_; }
  // The number of unpacked bytes that were read so far.
  uint64_t position() const { return position_; }
  bool packed() const { return inflater_ != nullptr; }
  // The file's offset of the next byte; valid only if the file is not packed.
  uint64_t file_position() const { return file_offset_ - (chunk_.size() - chunk_used_); }
  // An upper bound of the bytes to come: the rest of the file, if it was packed at deflate's best
  // ratio.
  uint64_t left_max() const;
  // Hands over the file to a caller that goes on to read it at any offset. The stream ends.
  std::unique_ptr<ReadFile> TakeFile() { return std::move(file_); }

  // Fills all of `out`. Returns DATA_LOSS naming the path if the file ends before that, or if its
  // gzip data is damaged.
  absl::Status Read(std::span<char> out);
  // Returns the number of bytes that were read, which is 0 only at the end.
  absl::StatusOr<size_t> ReadSome(std::span<char> out);
  // Returns DATA_LOSS unless everything has been read.
  absl::Status ExpectEnd();

 private:
  struct Inflater;
  ByteStream(std::string path, std::unique_ptr<ReadFile> file, const Member& member);
  absl::Status Refill();
  absl::StatusOr<size_t> TakeSome(std::span<char> out);
  absl::StatusOr<size_t> InflateSome(std::span<char> out);
  absl::Status Damaged(const std::string& what) const;

  const std::string path_;
  std::unique_ptr<ReadFile> file_;
  // A file that is no archive is one member from its first byte to its last.
  const Member member_;
  // The file's offset after the chunk.
  uint64_t file_offset_;
  const char* packing_ = "gzip";
  bool has_crc_ = false;
  uint32_t crc_ = 0;
  uint64_t position_ = 0;
  std::string beginning_;
  std::string chunk_;
  size_t chunk_used_ = 0;
  std::unique_ptr<Inflater> inflater_;  // null: the file is not packed
};

}  // namespace paracord
