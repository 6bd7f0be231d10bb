#include "data/tf_record.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/bytes.h"
#include "common/file_kind.h"
#include "common/status_macros.h"
#include "storage/tf_record_writer.h"

namespace paracord {
namespace {

constexpr size_t kHeadBytes = 12, kTailBytes = 4;
constexpr uint64_t kDataBytesMax = uint64_t{1} << 30;

absl::Status Damaged(const std::string& what) { return absl::DataLossError(what); }

bool IsLength(std::string_view head) {
  return LoadRaw<uint32_t>(head, 8) == MaskedCrc(head.substr(0, 8));
}

// Whether a file begins like a zlib stream (RFC 1950): deflate with any window, a correct check of
// the two bytes, no dictionary. A plain file may begin with these bytes as well, but then its first
// length has a correct checksum; a file too short for the checksum can only be zlib, whose empty
// stream has 8 bytes.
bool IsZlib(std::string_view head) {
  if (head.size() < 2) return false;
  const auto first = static_cast<unsigned char>(head[0]);
  const auto second = static_cast<unsigned char>(head[1]);
  return (first & 0x0f) == 8 && first >> 4 <= 7 && (first * 256 + second) % 31 == 0 &&
         (second & 0x20) == 0 && (head.size() < kHeadBytes || !IsLength(head));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReadFile>> OpenRecordFile(Files& files, const std::string& path,
                                                         Unpacking unpacking) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, OpenDataFile(files, path, unpacking));
  std::string head(std::min<uint64_t>(file->size(), kHeadBytes), '\0');
  RETURN_IF_ERROR(file->ReadAt(0, head));
  if (!IsZlib(head)) return file;
  unpacking.zlib = true;
  return OpenDataFile(files, path, unpacking);
}

absl::StatusOr<bool> TfRecordCutter::Next(FileCursor& cursor, std::string_view& data) const {
  ASSIGN_OR_RETURN(std::string_view text, cursor.Peek(kHeadBytes));
  if (text.empty()) return false;
  if (text.size() < kHeadBytes) return Damaged("the file ends inside the record's length");
  const auto length = LoadRaw<uint64_t>(text);
  if (!IsLength(text)) {
    ASSIGN_OR_RETURN(text, cursor.Peek(kFileKindBytes));
    const bool first = cursor.position() == 0;
    return Damaged("the checksum of the record's length is wrong" +
                   (first ? FileKindHint(text) : ""));
  }
  if (length > kDataBytesMax) {
    return Damaged(
        absl::StrCat("the record is ", length, " bytes long, more than ", kDataBytesMax));
  }
  const size_t whole = kHeadBytes + static_cast<size_t>(length) + kTailBytes;
  ASSIGN_OR_RETURN(text, cursor.Peek(whole));
  if (text.size() < whole) {
    return Damaged(absl::StrCat("the file ends inside the record, after ", text.size(), " of the ",
                                whole, " bytes that its length announces"));
  }
  data = text.substr(kHeadBytes, static_cast<size_t>(length));
  cursor.Skip(whole);
  if (LoadRaw<uint32_t>(text, whole - kTailBytes) != MaskedCrc(data)) {
    return Damaged("the checksum of the record's data is wrong");
  }
  return true;
}

absl::StatusOr<bool> TfRecordCutter::Skip(FileCursor& cursor) const {
  std::string_view data;
  const uint64_t before = cursor.position();
  const absl::StatusOr<bool> more = Next(cursor, data);
  return !more.ok() && forgives_ && cursor.position() > before ? true : more;
}

}  // namespace paracord
