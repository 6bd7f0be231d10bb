#include "data/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/file_kind.h"
#include "common/status_macros.h"
#include "data/kept_open.h"

namespace paracord {
namespace {

constexpr size_t kStreamChunkBytes = 256 << 10;
// zlib's values of windowBits: gzip with its checksum, zlib's own format, and bare deflate.
constexpr int kGzipOnly = 16 + MAX_WBITS, kZlibOnly = MAX_WBITS, kBareDeflate = -MAX_WBITS;

// The most bytes represented by a byte of deflate (zlib.net/zlib_tech.html: 1032:1).
constexpr uint64_t kDeflateMax = 1032;

}  // namespace

struct ByteStream::Inflater {
  explicit Inflater(int format) { ok = inflateInit2(&z, format) == Z_OK; }
  Inflater(const Inflater& other) : member_open(other.member_open) {
    ok = inflateCopy(&z, const_cast<z_stream*>(&other.z)) == Z_OK;
  }
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&z); }
  z_stream z{};
  bool ok = false;
  bool member_open = true;  // a file may concatenate gzip members
};

ByteStream::ByteStream(std::string path, std::unique_ptr<ReadFile> file, const Member& member)
    : path_(std::move(path)),
      file_(std::move(file)),
      source_(file_.get()),
      member_(member),
      file_offset_(member.begin) {}

ByteStream::ByteStream(const ByteStream& other, uint64_t file_offset)
    : path_(other.path_),
      source_(other.source_),
      member_(other.member_),
      file_offset_(file_offset),
      packing_(other.packing_),
      has_crc_(other.has_crc_),
      crc_(other.crc_),
      position_(other.position_) {}

ByteStream::~ByteStream() = default;

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::Open(Files& files, const std::string& path,
                                                             bool zlib) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, OpenKept(files, path));
  const Member whole{0, file->size(), false, 0};
  std::unique_ptr<ByteStream> stream(new ByteStream(path, std::move(file), whole));
  RETURN_IF_ERROR(stream->Refill());
  if (stream->chunk_.size() >= 2 && stream->chunk_[0] == '\x1f' && stream->chunk_[1] == '\x8b') {
    stream->inflater_ = std::make_unique<Inflater>(kGzipOnly);
  } else if (zlib) {
    stream->packing_ = "zlib";
    stream->inflater_ = std::make_unique<Inflater>(kZlibOnly);
  }
  if (stream->packed() && !stream->inflater_->ok) {
    return absl::ResourceExhaustedError("zlib: no memory");
  }
  if (!stream->packed()) stream->beginning_ = stream->chunk_.substr(0, kFileKindBytes);
  return stream;
}

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::OpenMember(std::unique_ptr<ReadFile> file,
                                                                   const std::string& name,
                                                                   const Member& member) {
  std::unique_ptr<ByteStream> stream(new ByteStream(name, std::move(file), member));
  stream->has_crc_ = true;
  stream->packing_ = "deflated";
  if (member.deflated) {
    stream->inflater_ = std::make_unique<Inflater>(kBareDeflate);
    if (!stream->inflater_->ok) return absl::ResourceExhaustedError("zlib: no memory");
  }
  return stream;
}

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::Fork() const {
  std::unique_ptr<ByteStream> fork(new ByteStream(*this, file_position()));
  fork->inflater_ = std::make_unique<Inflater>(*inflater_);
  if (!fork->inflater_->ok) return absl::ResourceExhaustedError("zlib: no memory");
  return fork;
}

uint64_t ByteStream::left_max() const {
  const uint64_t left = member_.end - std::min(member_.end, file_position());
  if (!packed()) return left;
  return left > UINT64_MAX / kDeflateMax ? UINT64_MAX : left * kDeflateMax;
}

absl::Status ByteStream::Damaged(const std::string& what) const {
  return absl::DataLossError(absl::StrCat(path_, ": ", what));
}

absl::Status ByteStream::Refill() {
  if (chunk_used_ < chunk_.size()) return absl::OkStatus();
  const uint64_t left = member_.end - std::min(member_.end, file_offset_);
  chunk_.resize(static_cast<size_t>(std::min<uint64_t>(left, kStreamChunkBytes)));
  chunk_used_ = 0;
  if (chunk_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(source_->ReadAt(file_offset_, std::span(chunk_)));
  file_offset_ += chunk_.size();
  return absl::OkStatus();
}

absl::StatusOr<size_t> ByteStream::InflateSome(std::span<char> out) {
  z_stream& z = inflater_->z;
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  const size_t want = std::min<size_t>(out.size(), 1 << 30);
  z.avail_out = static_cast<uInt>(want);
  while (z.avail_out == want) {
    RETURN_IF_ERROR(Refill());
    if (!inflater_->member_open && !has_crc_) {  // tapes fill up their last block
      while (chunk_used_ < chunk_.size() && chunk_[chunk_used_] == '\0') ++chunk_used_;
      if (chunk_used_ == chunk_.size() && file_offset_ < member_.end) continue;
    }
    if (chunk_used_ == chunk_.size()) {
      if (inflater_->member_open)
        return Damaged(absl::StrCat("the ", packing_, " data ends too early"));
      return 0;
    }
    if (!inflater_->member_open) {
      if (has_crc_) return Damaged("goes on after the deflated data");
      inflateReset(&z);
      inflater_->member_open = true;
    }
    const size_t available = chunk_.size() - chunk_used_;
    z.next_in = reinterpret_cast<Bytef*>(chunk_.data() + chunk_used_);
    z.avail_in = static_cast<uInt>(available);
    const int result = inflate(&z, Z_NO_FLUSH);
    chunk_used_ += available - z.avail_in;
    if (result == Z_STREAM_END) {
      inflater_->member_open = false;
    } else if (result != Z_OK) {
      return Damaged(absl::StrCat("the ", packing_, " data is damaged (",
                                  z.msg != nullptr ? z.msg : zError(result), ")"));
    }
  }
  return want - z.avail_out;
}

absl::StatusOr<size_t> ByteStream::TakeSome(std::span<char> out) {
  if (inflater_ != nullptr) return InflateSome(out);
  RETURN_IF_ERROR(Refill());
  const size_t n = std::min(out.size(), chunk_.size() - chunk_used_);
  std::copy_n(chunk_.data() + chunk_used_, n, out.data());
  chunk_used_ += n;
  return n;
}

absl::StatusOr<size_t> ByteStream::ReadSome(std::span<char> out) {
  ASSIGN_OR_RETURN(const size_t n, TakeSome(out));
  position_ += n;
  if (has_crc_) {
    crc_ = static_cast<uint32_t>(crc32_z(crc_, reinterpret_cast<const Bytef*>(out.data()), n));
  }
  return n;
}

absl::Status ByteStream::Read(std::span<char> out) {
  while (!out.empty()) {
    ASSIGN_OR_RETURN(const size_t n, ReadSome(out));
    if (n == 0) return Damaged(absl::StrCat("ends after ", position_, " bytes"));
    out = out.subspan(n);
  }
  return absl::OkStatus();
}

absl::Status ByteStream::ExpectEnd() {
  char extra = 0;
  ASSIGN_OR_RETURN(const size_t n, TakeSome(std::span(&extra, 1)));
  if (n == 0 && has_crc_ && crc_ != member_.crc) return Damaged("its CRC is wrong");
  if (n == 0) return absl::OkStatus();
  return Damaged(absl::StrCat("goes on after the ", position_, " bytes that its header announces"));
}

}  // namespace paracord
