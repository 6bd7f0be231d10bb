#include "data/gzip_file.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr size_t kInflateBytes = 256 << 10;
// zlib's windowBits of the gzip format, and its usual level and memory.
constexpr int kGzipBits = 16 + MAX_WBITS, kLevel = 6, kMemory = 8;

}  // namespace

struct GzipFile::Deflater {
  Deflater() : chunk(kInflateBytes, '\0') {
    ok = deflateInit2(&z, kLevel, Z_DEFLATED, kGzipBits, kMemory, Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~Deflater() {
    if (ok) deflateEnd(&z);
  }
  z_stream z{};
  bool ok = false;
  std::string chunk;
};

GzipFile::GzipFile(std::unique_ptr<WriteFile> file)
    : file_(std::move(file)), deflater_(std::make_unique<Deflater>()) {
  if (!deflater_->ok) failed_ = absl::ResourceExhaustedError("zlib: no memory");
}
GzipFile::~GzipFile() = default;

absl::Status GzipFile::Append(std::string_view bytes) {
  RETURN_IF_ERROR(failed_);
  while (!bytes.empty() && failed_.ok()) {
    const size_t some = std::min(bytes.size(), size_t{1} << 30);
    failed_ = Deflate(bytes.substr(0, some), false);
    bytes.remove_prefix(some);
  }
  return failed_;
}

absl::Status GzipFile::Sync() {
  RETURN_IF_ERROR(failed_);
  failed_ = Deflate({}, true);
  if (failed_.ok()) failed_ = file_->Sync();
  RETURN_IF_ERROR(failed_);
  failed_ = absl::FailedPreconditionError("the gzip stream has ended");
  return absl::OkStatus();
}

absl::Status GzipFile::Deflate(std::string_view bytes, bool end) {
  z_stream& z = deflater_->z;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  do {
    z.next_out = reinterpret_cast<Bytef*>(deflater_->chunk.data());
    z.avail_out = static_cast<uInt>(kInflateBytes);
    deflate(&z, end ? Z_FINISH : Z_NO_FLUSH);
    const size_t made = kInflateBytes - z.avail_out;
    if (made > 0) RETURN_IF_ERROR(file_->Append({deflater_->chunk.data(), made}));
  } while (z.avail_out == 0);
  return absl::OkStatus();
}

}  // namespace paracord
