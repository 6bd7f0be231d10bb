#include "data/data_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/file_kind.h"
#include "common/status_macros.h"
#include "data/byte_stream.h"
#include "data/kept_open.h"
#include "storage/crc32c.h"

namespace paracord {
namespace {

constexpr size_t kStepBytes = 1 << 20;

class UnpackedFile : public ReadFile {
 public:
  UnpackedFile(std::string path, std::string bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}
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
};

absl::StatusOr<bool> IsGzip(const ReadFile& file) {
  if (file.size() < 2) return false;
  char magic[2];
  RETURN_IF_ERROR(file.ReadAt(0, magic));
  return magic[0] == '\x1f' && magic[1] == '\x8b';
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReadFile>> OpenDataFile(Files& files, const std::string& path,
                                                       uint64_t unpacked_max, bool zlib) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, OpenKept(files, path));
  ASSIGN_OR_RETURN(const bool is_gzip, IsGzip(*file));
  if (!is_gzip && !zlib) return file;
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> stream, ByteStream::Open(files, path, zlib));
  std::string bytes;
  size_t got = 1;
  while (got > 0) {
    const size_t size = bytes.size();
    if (size > unpacked_max) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": is more than ", unpacked_max,
                       " bytes when unpacked, which is done in memory; unpack it on disk"));
    }
    bytes.resize(size + kStepBytes);
    ASSIGN_OR_RETURN(got, stream->ReadSome(std::span(bytes).subspan(size)));
    bytes.resize(size + got);
  }
  bytes.shrink_to_fit();
  return std::make_unique<UnpackedFile>(path, std::move(bytes));
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
