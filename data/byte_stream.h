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
  // `zlib`: the file is of zlib's own format, as the caller knows; gzip is known by its start.
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(Files& files, const std::string& path,
                                                          bool zlib = false);
  // What lies between two places of a file; `crc` (that of zip) is checked at the end.
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
  // How the file begins; nothing if it is packed or part of an archive.
  std::string_view beginning() const { return beginning_; }
  // Unpacked bytes so far.
  uint64_t position() const { return position_; }
  bool packed() const { return inflater_ != nullptr; }
  // Where the next byte is in the file; only if it is not packed.
  uint64_t file_position() const { return file_offset_ - (chunk_.size() - chunk_used_); }
  // Not many more bytes than this can come: the rest of the file, packed as well as can be.
  uint64_t left_max() const;
  // The file itself, for the one who goes on to read it at any place. Ends the stream.
  std::unique_ptr<ReadFile> TakeFile() { return std::move(file_); }

  // Fills all of `out`. DATA_LOSS naming the path if the file ends before, or its gzip is damaged.
  absl::Status Read(std::span<char> out);
  // The number of bytes that came, 0 at the end.
  absl::StatusOr<size_t> ReadSome(std::span<char> out);
  // DATA_LOSS unless everything has been read.
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
  const Member member_;   // of a file by itself, all of it
  uint64_t file_offset_;  // of what comes after the chunk
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
