#include "worker/data/record_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr size_t kScanBytes = 256 << 10;
constexpr size_t kSeekBytesMin = 256, kSeekBytesMax = 64 << 10;

void KeepEverySecond(std::vector<uint64_t>& offsets) {
  for (size_t i = 0; 2 * i < offsets.size(); ++i) offsets[i] = offsets[2 * i];
  offsets.resize((offsets.size() + 1) / 2);
}

}  // namespace

absl::Status At(const std::string& where, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

void RecordIndex::Note(Part& part, uint64_t row, uint64_t offset) {
  if (row % every_ != 0) return;
  part.offsets.push_back(offset);
  if (++entries_ <= entries_max_) return;
  entries_ = 0;
  for (const auto& each : parts_) {
    KeepEverySecond(each->offsets);
    entries_ += each->offsets.size();
  }
  every_ *= 2;
}

absl::Status RecordIndex::Add(const std::string& path, std::unique_ptr<ReadFile> file,
                              uint64_t begin, const RecordCutter& cutter) {
  parts_.push_back(std::make_unique<Part>(Part{path, std::move(file), records_, {}}));
  Part& part = *parts_.back();
  FileCursor cursor(*part.file, begin, part.file->size(), kScanBytes);
  uint64_t rows = 0;
  while (true) {
    const uint64_t offset = cursor.position();
    const absl::StatusOr<bool> more = cutter.Skip(cursor);
    if (!more.ok()) return At(absl::StrCat(path, " row ", rows), more.status());
    if (!*more) break;
    Note(part, rows++, offset);
  }
  records_ += rows;
  fingerprint_ = Mix64(Mix64(Mix64(fingerprint_, part.file->size()), rows), cursor.crc());
  return absl::OkStatus();
}

const RecordIndex::Part& RecordIndex::PartOf(uint64_t record) const {
  const auto after = std::upper_bound(
      parts_.begin(), parts_.end(), record,
      [](uint64_t at, const std::unique_ptr<Part>& part) { return at < part->first_record; });
  return **(after - 1);
}

absl::StatusOr<FileCursor> RecordIndex::Seek(uint64_t record, const RecordCutter& cutter) const {
  const Part& part = PartOf(record);
  const uint64_t row = record - part.first_record;
  const size_t entry = row / every_;
  const uint64_t begin = part.offsets[entry];
  const uint64_t next =
      entry + 1 < part.offsets.size() ? part.offsets[entry + 1] : part.file->size();
  const size_t chunk = std::clamp<uint64_t>(next - begin, kSeekBytesMin, kSeekBytesMax);
  FileCursor cursor(*part.file, begin, part.file->size(), chunk);
  for (uint64_t at = entry * every_; at < row; ++at) {
    const absl::StatusOr<bool> more = cutter.Skip(cursor);
    if (!more.ok()) return At(Where(record), more.status());
    if (!*more) {
      return absl::DataLossError(
          absl::StrCat(Where(record), ": the file has changed and has no such row any more"));
    }
  }
  return cursor;
}

std::string RecordIndex::Where(uint64_t record) const {
  if (parts_.empty()) return absl::StrCat("record ", record);
  const Part& part = PartOf(record);
  return absl::StrCat(part.path, " row ", record - part.first_record);
}

}  // namespace paracord
