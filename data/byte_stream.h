// A file, or a member of a zip archive, read once from the start, and unpacked on the way if gzip,
// zlib or deflate. Owned by a reader on its stack; one thread. Holds a single chunk: a header that
// lies about a size costs nothing.
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
  // With `zlib` the caller knows that the file is in zlib's own format; gzip files are recognised
  // by their first bytes.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(Files& files, const std::string& path,
                                                          bool zlib = false);
  // A member lies between two offsets of an archive. Its `crc`, as defined by zip, is checked at
  // its end.
  struct Member {
    uint64_t begin = 0, end = 0;
    bool deflated = false;
    uint32_t crc = 0;
  };
  static absl::StatusOr<std::unique_ptr<ByteStream>> OpenMember(std::unique_ptr<ReadFile> file,
                                                                const std::string& name,
                                                                const Member& member);
  ~ByteStream();
  // Returns a stream at the place of this one, which goes on by itself. It reads from the file of
  // the stream that was opened first, which must live longer. Only for packed files.
  // RESOURCE_EXHAUSTED: zlib has no memory.
  absl::StatusOr<std::unique_ptr<ByteStream>> Fork() const;

  const std::string& path() const { return path_; }
  // The first bytes of the file; empty for packed files and archive members.
  std::string_view beginning() const { return beginning_; }
  // The number of unpacked bytes read so far.
  uint64_t position() const { return position_; }
  bool packed() const { return inflater_ != nullptr; }
  // The file's offset of the next byte; valid only if the file is not packed.
  uint64_t file_position() const { return file_offset_ - (chunk_.size() - chunk_used_); }
  // An upper bound of the bytes to come: for packed files, the file's rest at deflate's best ratio.
  uint64_t left_max() const;
  // Hands the file over to a caller that reads at any offset. Ends the stream.
  std::unique_ptr<ReadFile> TakeFile() { return std::move(file_); }

  // Fills all of `out`. DATA_LOSS names the path if the file ends too early, or its gzip data is
  // damaged.
  absl::Status Read(std::span<char> out);
  // Returns the number of bytes read, 0 only at the end.
  absl::StatusOr<size_t> ReadSome(std::span<char> out);
  // Returns DATA_LOSS unless everything has been read.
  absl::Status ExpectEnd();

 private:
  struct Inflater;
  ByteStream(std::string path, std::unique_ptr<ReadFile> file, const Member& member);
  ByteStream(const ByteStream& other, uint64_t file_offset);  // a fork, without an inflater
  absl::Status Refill();
  absl::StatusOr<size_t> TakeSome(std::span<char> out);
  absl::StatusOr<size_t> InflateSome(std::span<char> out);
  absl::Status Damaged(const std::string& what) const;

  const std::string path_;
  std::unique_ptr<ReadFile> file_;  // null: a fork
  const ReadFile* const source_;
  // A plain file is a single member from its first byte to its last.
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
