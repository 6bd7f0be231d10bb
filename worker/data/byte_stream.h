// A file read once from its start, unpacked on the way if it is gzip. Owned by a reader on its
// stack; one thread. Holds one chunk, so that a header that lies about a size costs nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

class ByteStream {
 public:
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(Files& files, const std::string& path);
  ~ByteStream();

  const std::string& path() const { return path_; }
  // Unpacked bytes so far.
  uint64_t position() const { return position_; }

  // Fills all of `out`. DATA_LOSS naming the path if the file ends before, or its gzip is damaged.
  absl::Status Read(std::span<char> out);
  // The number of bytes that came, 0 at the end.
  absl::StatusOr<size_t> ReadSome(std::span<char> out);
  // DATA_LOSS unless everything has been read.
  absl::Status ExpectEnd();

 private:
  struct Inflater;
  ByteStream(std::string path, std::unique_ptr<ReadFile> file);
  absl::Status Refill();
  absl::StatusOr<size_t> TakeSome(std::span<char> out);
  absl::StatusOr<size_t> InflateSome(std::span<char> out);
  absl::Status Damaged(const std::string& what) const;

  const std::string path_;
  const std::unique_ptr<ReadFile> file_;
  uint64_t file_offset_ = 0;  // of what comes after the chunk
  uint64_t position_ = 0;
  std::string chunk_;
  size_t chunk_used_ = 0;
  std::unique_ptr<Inflater> inflater_;  // null: the file is not packed
};

}  // namespace paracord
