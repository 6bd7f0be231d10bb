#include "data/zip_file.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/bytes.h"
#include "common/file_kind.h"
#include "common/status_macros.h"
#include "data/data_options.h"
#include "data/kept_open.h"

namespace paracord {
namespace {

constexpr uint32_t kEndMagic = 0x06054b50, kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr uint32_t kDirectoryMagic = 0x02014b50, kLocalMagic = 0x04034b50;
constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr size_t kDirectoryBytes = 46, kLocalBytes = 30;
constexpr size_t kCommentBytesMax = 0xffff;
constexpr uint64_t kDirectoryBytesMax = 64 << 20;
constexpr uint16_t kZip64Extra = 1;
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint32_t kIn64 = 0xffffffff;  // the number is in the zip64 record

absl::Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<std::string> ReadPiece(const ReadFile& file, uint64_t offset, uint64_t size,
                                      const std::string& path) {
  if (offset > file.size() || size > file.size() - offset) {
    return Damaged(path, absl::StrCat("the zip archive points beyond its end: to ", size,
                                      " bytes from ", offset, " on, and has ", file.size()));
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  RETURN_IF_ERROR(file.ReadAt(offset, std::span(bytes)));
  return bytes;
}

struct Directory {
  uint64_t offset = 0, bytes = 0, members = 0;
};

// The end record is the last thing in the file, except for a comment of unknown length.
absl::StatusOr<Directory> FindDirectory(const ReadFile& file, const std::string& path) {
  const uint64_t tail = std::min<uint64_t>(file.size(), kEndBytes + kCommentBytesMax);
  ASSIGN_OR_RETURN(const std::string bytes, ReadPiece(file, file.size() - tail, tail, path));
  for (size_t back = kEndBytes; back <= bytes.size(); ++back) {
    const size_t at = bytes.size() - back;
    if (LoadRaw<uint32_t>(bytes, at) != kEndMagic) continue;
    Directory directory{LoadRaw<uint32_t>(bytes, at + 16), LoadRaw<uint32_t>(bytes, at + 12),
                        LoadRaw<uint16_t>(bytes, at + 10)};
    const uint64_t end = file.size() - back;
    if (end < kLocator64Bytes) return directory;
    ASSIGN_OR_RETURN(const std::string locator,
                     ReadPiece(file, end - kLocator64Bytes, kLocator64Bytes, path));
    if (LoadRaw<uint32_t>(locator, 0) != kLocator64Magic) return directory;
    ASSIGN_OR_RETURN(const std::string end64,
                     ReadPiece(file, LoadRaw<uint64_t>(locator, 8), kEnd64Bytes, path));
    if (LoadRaw<uint32_t>(end64, 0) != kEnd64Magic) return Damaged(path, "is not a zip archive");
    return Directory{LoadRaw<uint64_t>(end64, 48), LoadRaw<uint64_t>(end64, 40),
                     LoadRaw<uint64_t>(end64, 32)};
  }
  std::string beginning(static_cast<size_t>(std::min<uint64_t>(file.size(), kFileKindBytes)), '\0');
  RETURN_IF_ERROR(file.ReadAt(0, beginning));
  const bool zip = beginning.starts_with("PK\x03\x04");
  return Damaged(path, zip ? "is a zip archive that is cut off"
                           : "is not a zip archive" + FileKindHint(beginning));
}

// Sizes beyond 32 bits are in the extra field of type 1, in this order.
absl::Status ReadExtra(std::string_view extra, bool unpacked_in_64, const std::string& path,
                       ZipMember& member) {
  while (extra.size() >= 4) {
    const auto type = LoadRaw<uint16_t>(extra, 0);
    const size_t size = LoadRaw<uint16_t>(extra, 2);
    extra.remove_prefix(4);
    if (size > extra.size()) break;
    std::string_view numbers = extra.substr(0, size);
    extra.remove_prefix(size);
    if (type != kZip64Extra) continue;
    if (unpacked_in_64 && numbers.size() >= 8) numbers.remove_prefix(8);
    for (uint64_t* number : {&member.packed_bytes, &member.header_offset}) {
      if (*number != kIn64) continue;
      if (numbers.size() < 8) return Damaged(path, "the zip directory is damaged");
      *number = LoadRaw<uint64_t>(numbers, 0);
      numbers.remove_prefix(8);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(const ReadFile& file,
                                                        const std::string& path) {
  ASSIGN_OR_RETURN(const Directory directory, FindDirectory(file, path));
  if (directory.bytes > kDirectoryBytesMax) {
    return Damaged(path, absl::StrCat("has a zip directory of ", directory.bytes, " bytes"));
  }
  ASSIGN_OR_RETURN(const std::string bytes,
                   ReadPiece(file, directory.offset, directory.bytes, path));
  std::vector<ZipMember> members;
  absl::flat_hash_map<std::string, size_t> places;  // of members, by name
  std::string_view rest = bytes;
  for (uint64_t i = 0; i < directory.members; ++i) {
    const std::string wrong = absl::StrCat("entry ", i, " of the zip directory is damaged");
    if (rest.size() < kDirectoryBytes || LoadRaw<uint32_t>(rest, 0) != kDirectoryMagic) {
      return Damaged(path, wrong);
    }
    ZipMember member;
    member.flags = LoadRaw<uint16_t>(rest, 8);
    member.method = LoadRaw<uint16_t>(rest, 10);
    member.crc = LoadRaw<uint32_t>(rest, 16);
    member.packed_bytes = LoadRaw<uint32_t>(rest, 20);
    member.header_offset = LoadRaw<uint32_t>(rest, 42);
    const bool unpacked_in_64 = LoadRaw<uint32_t>(rest, 24) == kIn64;
    const size_t name = LoadRaw<uint16_t>(rest, 28), extra = LoadRaw<uint16_t>(rest, 30);
    const size_t comment = LoadRaw<uint16_t>(rest, 32);
    if (rest.size() - kDirectoryBytes < name + extra + comment) return Damaged(path, wrong);
    member.name = std::string(rest.substr(kDirectoryBytes, name));
    RETURN_IF_ERROR(
        ReadExtra(rest.substr(kDirectoryBytes + name, extra), unpacked_in_64, path, member));
    rest.remove_prefix(kDirectoryBytes + name + extra + comment);
    // Of several members of one name the last counts, as for Python: an archive that was added to.
    const auto [place, fresh] = places.emplace(member.name, members.size());
    if (!fresh) {
      members[place->second] = std::move(member);
      continue;
    }
    members.push_back(std::move(member));
  }
  return members;
}

absl::StatusOr<std::unique_ptr<ByteStream>> OpenZipMember(Files& files, const std::string& path,
                                                          const ZipMember& member) {
  const std::string name = absl::StrCat(path, "[", Quoted(member.name), "]");
  if (member.method != 0 && member.method != 8) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": packed by method ", member.method, "; supported: 0 and 8"));
  }
  if ((member.flags & kEncryptedFlag) != 0) {
    return absl::InvalidArgumentError(name + ": is encrypted");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, OpenKept(files, path));
  ASSIGN_OR_RETURN(const std::string local,
                   ReadPiece(*file, member.header_offset, kLocalBytes, name));
  if (LoadRaw<uint32_t>(local, 0) != kLocalMagic) return Damaged(name, "has no zip header");
  ByteStream::Member place;
  place.begin = member.header_offset + kLocalBytes + LoadRaw<uint16_t>(local, 26) +
                LoadRaw<uint16_t>(local, 28);
  if (place.begin > file->size() || member.packed_bytes > file->size() - place.begin) {
    return Damaged(
        name, absl::StrCat("the file ends inside it: it has ", member.packed_bytes, " bytes from ",
                           place.begin, " on, and the file has ", file->size()));
  }
  place.end = place.begin + member.packed_bytes;
  place.deflated = member.method == 8;
  place.crc = member.crc;
  return ByteStream::OpenMember(std::move(file), name, place);
}

}  // namespace paracord
