#include "data/kept_bytes.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/bytes.h"
#include "common/files.h"
#include "common/log.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "storage/crc32c.h"

namespace paracord {
namespace {

constexpr std::string_view kMagic = "PCRDKEPT";
constexpr uint32_t kVersion = 1;
constexpr size_t kKeptHeadBytes = 8 + 4 + 8, kKeptTailBytes = 4;
constexpr uint64_t kKeptBytesMax = uint64_t{256} << 20;
constexpr size_t kFilesMax = 256;
constexpr std::string_view kSuffix = ".kept";

}  // namespace

KeepPlace PlaceIn(const std::string& dir, Random& random, const std::string& folder) {
  if (dir.empty() || !SchemeOf(dir).empty()) return {};  // an object store renames nothing
  return {.directory = absl::StrCat(AbsolutePath(dir), "/", folder),
          .writer = random.NextId(),
          .used = std::make_shared<KeptNames>()};
}

std::optional<KeptBytes> KeptBytes::Of(Files& files, const KeepPlace& place,
                                       const std::string& kind, const std::string& depends,
                                       std::span<const std::string> paths) {
  if (place.directory.empty()) return std::nullopt;
  KeptBytes kept(files, place, kind, depends, paths);
  uint64_t bytes = 0;
  kept.subject_ = kept.Subject(bytes);
  if (kept.subject_.empty() || bytes < place.bytes_min) return std::nullopt;
  return kept;
}

// Returns "" if the storage cannot tell whether a file was replaced.
std::string KeptBytes::Subject(uint64_t& bytes) const {
  std::string subject = absl::StrCat(kind_, "\n", depends_, "\n");
  for (const std::string& path : paths_) {
    const auto file = files_->Open(path);
    const std::string identity = file.ok() ? (*file)->identity() : "";
    if (identity.empty()) return "";
    bytes += (*file)->size();
    absl::StrAppend(&subject, path, "\n", identity, "\n");
  }
  return subject;
}

std::string KeptBytes::name() const {
  return absl::StrFormat("%s-%016x%s", kind_, Mix64(kVersion, subject_), std::string(kSuffix));
}

std::string KeptBytes::path() const { return absl::StrCat(place_.directory, "/", name()); }

std::optional<std::string> KeptBytes::Load() const {
  const auto file = files_->Open(path());
  if (!file.ok() || (*file)->size() > kKeptBytesMax) return std::nullopt;
  std::string bytes(static_cast<size_t>((*file)->size()), '\0');
  const size_t before = kKeptHeadBytes + subject_.size();
  if (bytes.size() < before + kKeptTailBytes || !(*file)->ReadAt(0, bytes).ok())
    return std::nullopt;
  const std::string_view all = bytes;
  const size_t end = bytes.size() - kKeptTailBytes;
  if (!all.starts_with(kMagic) || LoadRaw<uint32_t>(all.substr(8)) != kVersion ||
      LoadRaw<uint64_t>(all.substr(12)) != subject_.size() ||
      all.substr(kKeptHeadBytes, subject_.size()) != subject_ ||
      LoadRaw<uint32_t>(all.substr(end)) != Crc32c(all.substr(0, end))) {
    return std::nullopt;
  }
  bytes.resize(end);
  bytes.erase(0, before);
  if (place_.used != nullptr) place_.used->Add(name());
  return bytes;
}

bool KeptBytes::StillHolds() const {
  uint64_t ignored = 0;
  return Subject(ignored) == subject_;
}

void KeptBytes::Save(std::string_view body, uint64_t bytes_max) const {
  if (body.size() > kKeptBytesMax - kKeptHeadBytes - kKeptTailBytes - subject_.size()) return;
  if (!StillHolds()) return;
  const absl::Status written = Write(body);
  if (written.ok()) {
    if (place_.used != nullptr) place_.used->Add(name());
    return MakeRoom(bytes_max);
  }
  Logger(place_.log)
      .Info("{} is not kept for the next start: {}", path(), std::string(written.message()));
}

absl::Status KeptBytes::Write(std::string_view body) const {
  std::string head(kMagic);
  AppendRaw(kVersion, head);
  AppendRaw(uint64_t{subject_.size()}, head);
  head += subject_;
  std::string tail;
  AppendRaw(Crc32c(body, Crc32c(head)), tail);

  RETURN_IF_ERROR(files_->MakeDirectories(place_.directory));
  // Workers of a host start together and may write an entry at once, each to its own file.
  const std::string temporary = absl::StrCat(path(), ".", place_.writer, ".tmp");
  absl::Status written;
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<WriteFile> file, files_->Create(temporary));
    for (const std::string_view part : {std::string_view(head), body, std::string_view(tail)}) {
      if (written.ok()) written = file->Append(part);
    }
  }
  if (written.ok()) written = files_->Rename(temporary, path());
  if (!written.ok()) {
    files_->RemoveTree(temporary).IgnoreError();
    return written;
  }
  return absl::OkStatus();
}

// Says when an entry goes, if there is no room for all.
int KeptBytes::TurnOf(const std::string& other) const {
  if (other.ends_with(".tmp")) return 0;
  return place_.used != nullptr && place_.used->Has(other) ? 2 : 1;
}

// Removes this entry's unfinished files of dead writers and, beyond the limits of files or bytes,
// some other entries: nobody can tell which belong to data no longer in use, and a reader that
// misses an entry writes it again.
void KeptBytes::MakeRoom(uint64_t bytes_max) const {
  struct Other {
    int turn = 0;
    std::string name;
    uint64_t bytes = 0;
  };
  const std::string own = name();
  const auto names = files_->List(place_.directory);
  if (!names.ok()) return;
  size_t left = names->size();
  uint64_t bytes = 0;
  std::vector<Other> others;
  for (const std::string& other : *names) {
    uint64_t size = 0;
    if (bytes_max != UINT64_MAX) {  // otherwise there is no limit
      const auto file = files_->Open(absl::StrCat(place_.directory, "/", other));
      if (file.ok()) size = (*file)->size();
    }
    bytes += size;
    if (other != own) others.push_back({TurnOf(other), other, size});
  }
  std::ranges::stable_sort(others, {}, &Other::turn);
  for (const Other& other : others) {
    const bool unfinished = other.name.ends_with(".tmp");
    const bool left_behind = unfinished && other.name.starts_with(own);
    // A fresh unfinished file is removed only if there are far too many files, or no room.
    const bool too_many = left > (unfinished ? 2 * kFilesMax : kFilesMax);
    if (!left_behind && !too_many && bytes <= bytes_max) continue;
    bytes -= other.bytes;
    files_->RemoveTree(absl::StrCat(place_.directory, "/", other.name)).IgnoreError();
    --left;
  }
}

}  // namespace paracord
