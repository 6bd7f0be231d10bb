// The bytes of a file, or of a member of a zip archive, read once from the start. Data packed by
// gzip, zlib or deflate are decompressed while they are read. Used by one thread. Keeps only a
// chunk of bytes in memory: a header that lies about a size costs no memory.
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
  // Opens a file. A gzip file is recognised by its first bytes. `zlib` says that any other file is
  // known to be in zlib's own format.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(Files& files, const std::string& path,
                                                          bool zlib = false);
  // The offsets in an archive between which a member lies. ExpectEnd checks `crc`.
  struct Member {
    uint64_t begin = 0, end = 0;
    bool deflated = false;
    uint32_t crc = 0;
  };
  static absl::StatusOr<std::unique_ptr<ByteStream>> OpenMember(std::unique_ptr<ReadFile> file,
                                                                const std::string& name,
                                                                const Member& member);
  ~ByteStream();
  // Returns a second stream, at the position of this stream. Only for packed files. Forks, and
  // forks of forks, read the file of the stream that was opened first; this stream must outlive
  // them. Returns RESOURCE_EXHAUSTED if zlib has no memory.
  absl::StatusOr<std::unique_ptr<ByteStream>> Fork() const;

  const std::string& path() const { return path_; }
  // The first kFileKindBytes of the file; empty for a packed file and for a member of an archive.
  std::string_view beginning() const { return beginning_; }
  // The number of decompressed bytes that have been read so far.
  uint64_t position() const { return position_; }
  bool packed() const { return inflater_ != nullptr; }
  // The offset of the next byte in the file; valid only if the file is not packed.
  uint64_t file_position() const { return file_offset_ - (chunk_.size() - chunk_used_); }
  // An upper bound of the bytes to come; for a packed file by the best ratio of deflate.
  uint64_t left_max() const;
  // Hands the file over to the caller. The stream must not be read afterwards.
  std::unique_ptr<ReadFile> TakeFile() { return std::move(file_); }

  // Fills all of `out`. DATA_LOSS names the path if the data end too early or are damaged.
  absl::Status Read(std::span<char> out);
  // Fills the beginning of `out`, and returns the number of bytes; 0 only at the end.
  absl::StatusOr<size_t> ReadSome(std::span<char> out);
  // Returns DATA_LOSS if bytes are left, or if the CRC of an archive member is wrong.
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
  // If the stream is a whole file, the member reaches from the file's first byte to its last.
  const Member member_;
  // The offset in the file of the first byte behind `chunk_`.
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
