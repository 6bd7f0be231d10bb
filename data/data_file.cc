#include "data/data_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/file_kind.h"
#include "common/human_bytes.h"
#include "common/status_macros.h"
#include "data/byte_stream.h"
#include "data/kept_open.h"
#include "data/packed_file.h"
#include "storage/crc32c.h"

namespace paracord {
namespace {

constexpr size_t kStepBytes = 1 << 20;

// Bytes reserved in a share, which they keep alive.
struct Reserved {
  explicit Reserved(std::shared_ptr<MemoryShare> of) : share(std::move(of)), bytes(*share) {}
  const std::shared_ptr<MemoryShare> share;
  MemoryReservation bytes;
};

class UnpackedFile : public ReadFile {
 public:
  UnpackedFile(std::string path, std::string bytes, std::unique_ptr<Reserved> reserved)
      : path_(std::move(path)), bytes_(std::move(bytes)), reserved_(std::move(reserved)) {}
  uint64_t size() const override { return bytes_.size(); }
  absl::Status ReadAt(uint64_t offset, std::span<char> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return absl::OutOfRangeError(absl::StrCat(path_, ": ends before byte ", offset + out.size()));
    }
    std::copy_n(bytes_.data() + offset, out.size(), out.data());
    return absl::OkStatus();
  }

 private:
  const std::string path_, bytes_;
  const std::unique_ptr<Reserved> reserved_;
};

absl::StatusOr<bool> IsGzip(const ReadFile& file) {
  if (file.size() < 2) return false;
  char magic[2];
  RETURN_IF_ERROR(file.ReadAt(0, magic));
  return magic[0] == '\x1f' && magic[1] == '\x8b';
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReadFile>> OpenDataFile(Files& files, const std::string& path,
                                                       const Unpacking& unpacking) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, OpenKept(files, path));
  ASSIGN_OR_RETURN(const bool is_gzip, IsGzip(*file));
  if (!is_gzip && !unpacking.zlib) return file;
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> stream,
                   ByteStream::Open(files, path, unpacking.zlib));
  const auto too_large = [&](uint64_t bytes, const std::string& which) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": is more than ", bytes,
                                                     " bytes when unpacked, which is done in ",
                                                     "memory", which, "; unpack it on disk"));
  };
  std::unique_ptr<Reserved> reserved;
  if (unpacking.memory != nullptr) reserved = std::make_unique<Reserved>(unpacking.memory);
  std::unique_ptr<ByteStream> start;
  if (unpacking.held_max < unpacking.bytes_max) {
    ASSIGN_OR_RETURN(start, ByteStream::Open(files, path, unpacking.zlib));
  }
  std::string bytes;
  size_t got = 1;
  while (got > 0) {
    const size_t size = bytes.size();
    if (start != nullptr && size > unpacking.held_max) return PackedFile::Open(std::move(start));
    if (size > unpacking.bytes_max) return too_large(unpacking.bytes_max, "");
    // Growing needs the old and the new buffer together.
    if (bytes.capacity() < size + kStepBytes) {
      const size_t more = std::max(size, kStepBytes);
      if (reserved != nullptr && !reserved->bytes.More(more)) {
        return too_large(size, absl::StrCat(", of which --memory-limit leaves ",
                                            HumanBytes(reserved->share->bytes_max()), " to data"));
      }
      bytes.reserve(size + more);
    }
    bytes.resize(size + kStepBytes);
    ASSIGN_OR_RETURN(got, stream->ReadSome(std::span(bytes).subspan(size)));
    bytes.resize(size + got);
  }
  bytes.shrink_to_fit();
  return std::make_unique<UnpackedFile>(path, std::move(bytes), std::move(reserved));
}

absl::StatusOr<uint64_t> TextBegin(const ReadFile& file) {
  std::string start(std::min<uint64_t>(file.size(), kFileKindBytes), '\0');
  RETURN_IF_ERROR(file.ReadAt(0, start));
  const std::string_view text = start;
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    return absl::InvalidArgumentError("is UTF-16; save it as UTF-8");
  }
  const std::string kind = text.empty() || IsHtmlPage(text) ? "" : FileKind(text);
  if (!kind.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("is no text: it is ", kind));
  }
  return text.starts_with("\xef\xbb\xbf") ? 3 : 0;
}

FileCursor::FileCursor(const ReadFile& file, uint64_t begin, uint64_t end, size_t chunk)
    : file_(file), end_(end), chunk_(chunk), loaded_(begin) {}

absl::StatusOr<std::string_view> FileCursor::Peek(size_t n) {
  const size_t ahead = buffer_.size() - used_;
  if (ahead < n && loaded_ < end_) {
    buffer_.erase(0, used_);
    used_ = 0;
    const uint64_t wanted = std::min<uint64_t>(std::max(n - ahead, chunk_), end_ - loaded_);
    buffer_.resize(ahead + static_cast<size_t>(wanted));
    const absl::Status read = file_.ReadAt(loaded_, std::span(buffer_).subspan(ahead));
    if (!read.ok()) {
      buffer_.resize(ahead);
      return read;
    }
    crc_ = Crc32c(std::span<const char>(buffer_).subspan(ahead), crc_);
    loaded_ += wanted;
  }
  return std::string_view(buffer_).substr(used_);
}

}  // namespace paracord
