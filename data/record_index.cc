#include "data/record_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/bytes.h"
#include "common/json_text.h"
#include "common/mix.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr size_t kIndexScanBytes = 256 << 10;
constexpr size_t kSeekBytesMin = 256, kSeekBytesMax = 64 << 10;
// Beyond, a file's first offset is the only one that it needs.
constexpr uint64_t kEveryMax = uint64_t{1} << 48;

void KeepEverySecond(std::vector<uint64_t>& offsets) {
  for (size_t i = 0; 2 * i < offsets.size(); ++i) offsets[i] = offsets[2 * i];
  offsets.resize((offsets.size() + 1) / 2);
}

}  // namespace

absl::Status At(const std::string& where, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

std::string EncodePlaces(const RecordPlacesOfAll& places) {
  std::string bytes;
  AppendVarint(places.every, bytes);
  AppendVarint(places.files.size(), bytes);
  for (const RecordPlaces& file : places.files) {
    for (const uint64_t number : {file.begin, file.size, file.rows, uint64_t{file.crc}}) {
      AppendVarint(number, bytes);
    }
    uint64_t before = file.begin;
    for (const uint64_t offset : file.offsets) {
      AppendVarint(offset - before, bytes);
      before = offset;
    }
  }
  return bytes;
}

std::optional<RecordPlacesOfAll> DecodePlaces(std::string_view bytes, uint64_t entries_max) {
  RecordPlacesOfAll places;
  uint64_t files = 0, entries = 0, crc = 0;
  if (!TakeVarint(bytes, places.every) || !std::has_single_bit(places.every)) return std::nullopt;
  if (!TakeVarint(bytes, files) || files > bytes.size()) return std::nullopt;
  for (uint64_t f = 0; f < files; ++f) {
    RecordPlaces& file = places.files.emplace_back();
    if (!TakeVarint(bytes, file.begin) || !TakeVarint(bytes, file.size) ||
        !TakeVarint(bytes, file.rows) || !TakeVarint(bytes, crc) || crc > UINT32_MAX ||
        file.begin > file.size || file.rows > file.size - file.begin) {
      return std::nullopt;
    }
    file.crc = static_cast<uint32_t>(crc);
    const uint64_t count = file.rows / places.every + (file.rows % places.every != 0);
    if (count > bytes.size()) return std::nullopt;  // each offset takes at least a byte
    entries += count;
    if (entries > entries_max) return std::nullopt;
    file.offsets.reserve(static_cast<size_t>(count));
    uint64_t at = file.begin, step = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (!TakeVarint(bytes, step) || step >= file.size - at || (i > 0 && step == 0)) {
        return std::nullopt;
      }
      file.offsets.push_back(at += step);
    }
  }
  if (!bytes.empty()) return std::nullopt;
  return places;
}

void RecordIndex::Recall(Files& files, const DataSpec& spec, std::span<const std::string> paths) {
  entries_max_ = spec.index_entries_max;
  walked_max_ = spec.walked_max;
  kept_ =
      KeptBytes::Of(files, spec.keep, "records",
                    absl::StrCat(spec.format, " ", TextOf(spec.options), " ", entries_max_), paths);
  if (!kept_) return;
  const std::optional<std::string> bytes = kept_->Load();
  if (!bytes) return;
  std::optional<RecordPlacesOfAll> places = DecodePlaces(*bytes, entries_max_);
  if (!places) return;
  places_.every = places->every;
  recalled_ = *std::move(places);
}

absl::Status RecordIndex::Keep() {
  const bool changed = kept_ && !recalled_.files.empty() && !kept_->StillHolds();
  if (kept_ && walked_) kept_->Save(EncodePlaces(places_));
  kept_.reset();
  recalled_ = {};
  if (!changed) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(by_file_[0].path, ": a file of these data changed while they were opened"));
}

void RecordIndex::Note(RecordPlaces& places, uint64_t row, uint64_t offset) {
  if (row % places_.every != 0) return;
  if (entries_ >= entries_max_ && places_.every < kEveryMax) {
    entries_ = 0;
    for (RecordPlaces& each : places_.files) {
      KeepEverySecond(each.offsets);
      if (&each != &places) each.offsets.shrink_to_fit();
      entries_ += each.offsets.size();
    }
    places_.every *= 2;
    if (row % places_.every != 0) return;
  }
  places.offsets.push_back(offset);
  ++entries_;
}

absl::Status RecordIndex::Walk(const ReadFile& file, const std::string& path,
                               const RecordCutter& cutter, RecordPlaces& places) {
  walked_ = true;
  FileCursor cursor(file, places.begin, file.size(), kIndexScanBytes);
  while (records_ + places.rows < walked_max_) {
    const uint64_t offset = cursor.position();
    const absl::StatusOr<bool> more = cutter.Skip(cursor);
    if (!more.ok()) return At(absl::StrCat(path, " row ", places.rows), more.status());
    if (!*more) break;
    Note(places, places.rows++, offset);
  }
  places.crc = cursor.crc();
  return absl::OkStatus();
}

absl::Status RecordIndex::Add(const std::string& path, std::unique_ptr<ReadFile> file,
                              uint64_t begin, const RecordCutter& cutter) {
  const size_t at = by_file_.size();
  RecordPlaces& places = places_.files.emplace_back();
  places.begin = begin;
  places.size = file->size();
  RecordPlaces* known = at < recalled_.files.size() ? &recalled_.files[at] : nullptr;
  if (known != nullptr && known->begin == begin && known->size == places.size &&
      places_.every == recalled_.every) {
    places = std::move(*known);
    entries_ += places.offsets.size();
  } else {
    RETURN_IF_ERROR(Walk(*file, path, cutter, places));
  }
  by_file_.push_back({path, std::move(file), records_});
  records_ += places.rows;
  fingerprint_ = Mix64(Mix64(Mix64(fingerprint_, places.size), places.rows), places.crc);
  return absl::OkStatus();
}

size_t RecordIndex::FileOf(uint64_t record) const {
  const auto after =
      std::upper_bound(by_file_.begin(), by_file_.end(), record,
                       [](uint64_t at, const OneFile& one) { return at < one.first_record; });
  return static_cast<size_t>(after - by_file_.begin()) - 1;
}

size_t RecordIndex::Advance(uint64_t record, Found& from) const {
  const MutexLock lock(mu_);
  size_t best = found_.size();
  for (size_t i = 0; i < found_.size(); ++i) {
    if (found_[i].record <= from.record || found_[i].record > record) continue;
    from = found_[i];
    best = i;
  }
  if (best < found_.size()) return best;
  oldest_ = (oldest_ + 1) % found_.size();
  return oldest_;
}

void RecordIndex::Remember(size_t at, const Found& found) const {
  const MutexLock lock(mu_);
  found_[at] = found;
}

absl::StatusOr<FileCursor> RecordIndex::Seek(uint64_t record, const RecordCutter& cutter) const {
  const size_t at = FileOf(record);
  const OneFile& one = by_file_[at];
  const RecordPlaces& places = places_.files[at];
  const uint64_t row = record - one.first_record;
  const size_t entry = row / places_.every;
  const bool last = entry + 1 == places.offsets.size();
  const uint64_t noted = entry * places_.every;
  const uint64_t rows = last ? places.rows - noted : places_.every;  // up to the next noted one
  const uint64_t end = last ? one.file->size() : places.offsets[entry + 1];
  const uint64_t each = (end - places.offsets[entry]) / rows;
  Found from = {one.first_record + noted, places.offsets[entry]};
  const size_t kept = places_.every > 1 ? Advance(record, from) : 0;
  const uint64_t wanted = (record - from.record + 1) * each;
  FileCursor cursor(*one.file, from.offset, one.file->size(),
                    std::clamp<uint64_t>(wanted, kSeekBytesMin, kSeekBytesMax));
  for (; from.record < record; ++from.record) {
    const absl::StatusOr<bool> more = cutter.Skip(cursor);
    if (!more.ok()) return At(Where(record), more.status());
    if (!*more) {
      return absl::DataLossError(
          absl::StrCat(Where(record), ": the file has changed and has no such row any more"));
    }
  }
  if (places_.every > 1) Remember(kept, {record, cursor.position()});
  return cursor;
}

std::string RecordIndex::Where(uint64_t record) const {
  if (by_file_.empty()) return absl::StrCat("record ", record);
  const OneFile& one = by_file_[FileOf(record)];
  return absl::StrCat(one.path, " row ", record - one.first_record);
}

}  // namespace paracord
