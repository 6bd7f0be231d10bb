// A file, or a member of a zip archive, read once from the start, and decompressed on the way if
// packed by gzip, zlib or deflate. Owned by a reader on its stack; one thread. Holds a single
// chunk: a header that lies about a size costs nothing.
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
  // Opens a file. A gzip file is recognised by its first bytes; with `zlib` the caller knows that
  // any other file is in zlib's own format.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(Files& files, const std::string& path,
                                                          bool zlib = false);
  // The offsets in an archive between which a member lies. ExpectEnd checks its `crc`, as defined
  // by zip.
  struct Member {
    uint64_t begin = 0, end = 0;
    bool deflated = false;
    uint32_t crc = 0;
  };
  static absl::StatusOr<std::unique_ptr<ByteStream>> OpenMember(std::unique_ptr<ReadFile> file,
                                                                const std::string& name,
                                                                const Member& member);
  ~ByteStream();
  // Returns a second stream at the position of this one. All forks read the file of the stream
  // opened first, which must outlive the forks. Only for packed files. RESOURCE_EXHAUSTED: zlib has
  // no memory.
  absl::StatusOr<std::unique_ptr<ByteStream>> Fork() const;

  const std::string& path() const { return path_; }
  // The first kFileKindBytes of the file; empty for packed files and archive members.
  std::string_view beginning() const { return beginning_; }
  // The number of bytes read so far, counted after decompression.
  uint64_t position() const { return position_; }
  bool packed() const { return inflater_ != nullptr; }
  // The offset in the file of the next byte; valid only if the file is not packed.
  uint64_t file_position() const { return file_offset_ - (chunk_.size() - chunk_used_); }
  // An upper bound of the bytes to come; of a packed file, its rest at deflate's best ratio.
  uint64_t left_max() const;
  // Hands the file over to a caller that reads at any offset. The stream is not read afterwards.
  std::unique_ptr<ReadFile> TakeFile() { return std::move(file_); }

  // Fills all of `out`. DATA_LOSS names the path if the file ends too early, or if its compressed
  // data is damaged.
  absl::Status Read(std::span<char> out);
  // Fills a part of `out`, and returns the number of bytes read, 0 only at the end.
  absl::StatusOr<size_t> ReadSome(std::span<char> out);
  // Returns DATA_LOSS unless everything has been read, and the CRC of an archive member is right.
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
  std::unique_ptr<ReadFile> file_;  // null in a fork
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
