#include "storage/checkpoint_rows.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/parallel.h"
#include "common/status_macros.h"
#include "config/partitions.h"

namespace paracord {
namespace {

constexpr uint64_t kTouchedAt = kRowIdWords * sizeof(float);  // offset of a record's last batch
constexpr size_t kRowsAtOnce = 256;                           // rows that one thread reads in turn

absl::StatusOr<std::unique_ptr<SafetensorsFile>> OpenPsFile(Files& files,
                                                            const std::string& directory,
                                                            const Manifest& manifest, uint32_t ps) {
  return SafetensorsFile::Open(
      files, absl::StrCat(PsFilesDirectory(directory), "/", manifest.files[ps].name));
}

// Returns the rows of a growing table's partition, as its unverified header says; 0 if it does not.
uint64_t StoredRows(const SafetensorsFile& file, const ManifestPartition& partition) {
  const std::string& name = partition.spec.name();
  if (!partition.delta) {
    const TensorInfo* const rows = file.header().Find(SlotTensorName(name, kRowsSlot));
    return rows == nullptr || rows->shape.empty() ? 0 : std::min(rows->shape[0], file.bytes());
  }
  const auto table = ReadTableMetadata(file.header().metadata, name);
  return table.ok() && table->has_value() ? std::min<uint64_t>((*table)->rows, UINT32_MAX) : 0;
}

}  // namespace

absl::StatusOr<std::vector<bool>> TablesToLeave(Files& files, const std::string& directory,
                                                const Manifest& manifest, uint64_t bytes_max) {
  std::vector<bool> left(manifest.variables.size());
  if (bytes_max == UINT64_MAX || !SchemeOf(directory).empty()) return left;
  uint64_t bytes = 0;
  std::map<uint32_t, std::unique_ptr<SafetensorsFile>> open;  // keyed by ps
  for (const ManifestPartition& partition : manifest.partitions) {
    const VariableSpec& variable = manifest.variables[partition.spec.variable()];
    if (!IsGrowing(variable)) {
      bytes += PartitionElements(variable, partition.spec) * sizeof(float);
      continue;
    }
    std::unique_ptr<SafetensorsFile>& file = open[partition.spec.ps()];
    if (file == nullptr) {
      ASSIGN_OR_RETURN(file, OpenPsFile(files, directory, manifest, partition.spec.ps()));
    }
    bytes +=
        StoredRows(*file, partition) * (sizeof(uint64_t) + RowElements(variable) * sizeof(float));
  }
  if (bytes <= bytes_max) return left;
  for (size_t v = 0; v < left.size(); ++v) {
    const VariableSpec& variable = manifest.variables[v];
    // A growing table's row takes its id and its values in memory, and 16 bytes if it is left.
    left[v] = variable.has_table() && (!IsGrowing(variable) || RowElements(variable) > kRowIdWords);
  }
  return left;
}

CheckpointRows::CheckpointRows(const Manifest& manifest, const std::vector<bool>& left) {
  for (const ManifestPartition& one : manifest.partitions) {
    const size_t v = one.spec.variable();
    if (!left[v]) continue;
    const VariableSpec& variable = manifest.variables[v];
    Table& table = tables_[v];
    table.growing = IsGrowing(variable);
    table.width = RowElements(variable);
    table.axis0 = variable.shape(0);
    table.expire = variable.table().expire_batches();
    table.parts.push_back(one.spec.id());
    Partition& partition = partitions_[one.spec.id()];
    partition.variable = v;
    partition.row_begin = one.spec.row_begin();
    partition.row_end = one.spec.row_end();
  }
  for (auto& [v, table] : tables_) {
    std::ranges::sort(table.parts, {}, [&](uint32_t id) { return partitions_[id].row_begin; });
  }
}

absl::Status CheckpointRows::OpenLink(Files& files, const ChainLink& link) {
  std::map<uint32_t, const SafetensorsFile*> open;  // keyed by ps
  for (const size_t id : link.wanted) {
    const auto found = partitions_.find(static_cast<uint32_t>(id));
    if (found == partitions_.end()) continue;
    const ManifestPartition& partition = link.manifest.partitions[id];
    const SafetensorsFile*& file = open[partition.spec.ps()];
    if (file == nullptr) {
      ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> opened,
                       OpenPsFile(files, link.directory, link.manifest, partition.spec.ps()));
      file = files_.emplace_back(std::move(opened)).get();
    }
    const auto tensor = [&](const char* slot) {
      return file->header().Find(SlotTensorName(partition.spec.name(), slot));
    };
    Link& mine = found->second.links.emplace_back();
    mine.file = file;
    mine.records = tables_[found->second.variable].growing || partition.delta;
    mine.tensor = mine.records ? tensor(kRowsSlot) : file->header().Find(partition.spec.name());
    mine.average = mine.records ? nullptr : tensor(kAverageSlot);
  }
  return absl::OkStatus();
}

absl::Status CheckpointRows::Open(Files& files, const std::vector<ChainLink>& links,
                                  KnownDamage& known) {
  for (const ChainLink& link : links) {
    const absl::Status opened = OpenLink(files, link);
    known.Note(link.directory, opened);
    RETURN_IF_ERROR(&link == &links.back() ? opened : InChainOf(links.back().directory, opened));
  }
  return absl::OkStatus();
}

TensorPlace CheckpointRows::PlaceOf(uint32_t partition, std::string_view slot, uint64_t elements) {
  Partition& own = partitions_.at(partition);
  if (own.links.empty() || own.links.front().tensor == nullptr) return {};
  if (slot == kRemovedSlot) {
    own.removed.resize(elements / kRowIdWords);
    return {PlacedIn<float>(reinterpret_cast<float*>(own.removed.data()), elements)};
  }
  const std::vector<uint64_t>& shape = own.links.front().tensor->shape;
  if (slot != kRowsSlot || shape.size() != 2) return {};
  const uint64_t words = shape[1] / sizeof(float);
  if (words <= kRowIdWords || shape[0] * words != elements) return {};
  own.ids.resize(shape[0]);
  return {PlacedIn<float>(reinterpret_cast<float*>(own.ids.data()), elements, words, kRowIdWords,
                          /*kept=*/kRowIdWords)};
}

absl::Status CheckpointRows::EndLink(uint32_t partition, const StoredPartition& stored) {
  Partition& own = partitions_.at(partition);
  const Table& table = tables_.at(own.variable);
  if (own.links.empty()) return absl::InternalError("it is of no link of the chain");
  const Link link = own.links.front();
  own.links.pop_front();
  if (link.tensor == nullptr) return absl::DataLossError("its file changed while it was read");
  if (link.records) {
    if (!stored.table.has_value()) return absl::DataLossError("it has no state of a table");
    own.now = *stored.table;
    return TakeRecords(own, link);
  }
  own.averages = link.average != nullptr;
  own.whole = static_cast<uint32_t>(runs_.size());
  runs_.push_back(
      {link.file, own.averages ? link.average : link.tensor, table.width * sizeof(float), 0});
  own.places.clear();
  return absl::OkStatus();
}

absl::Status CheckpointRows::TakeRecords(Partition& partition, const Link& link) {
  const Table& table = tables_.at(partition.variable);
  const TableMetadata& now = partition.now;
  std::vector<uint64_t> ids = std::exchange(partition.ids, {});
  std::vector<uint64_t> removed = std::exchange(partition.removed, {});
  if (ids.size() != link.tensor->shape[0]) {
    return absl::DataLossError("its file changed while it was read");
  }
  const uint64_t values = table.growing || partition.averages ? ValuesWord(now, table.width)
                                                              : RowHeaderWords(now.steps);
  const auto run = static_cast<uint32_t>(runs_.size());
  runs_.push_back({link.file, link.tensor, RecordWords(now, table.width) * sizeof(float),
                   values * sizeof(float)});
  std::vector<Place> changed;
  changed.reserve(ids.size());
  for (size_t r = 0; r < ids.size(); ++r) {
    changed.push_back({ids[r], run, static_cast<uint32_t>(r)});
  }
  ids = {};
  std::ranges::sort(changed, {}, &Place::id);
  if (!now.since.has_value()) {
    partition.places = std::move(changed);
    return absl::OkStatus();
  }
  return Merge(partition, std::move(changed), std::move(removed));
}

absl::Status CheckpointRows::Merge(Partition& partition, std::vector<Place> changed,
                                   std::vector<uint64_t> removed) {
  const bool growing = tables_.at(partition.variable).growing;
  const auto twice = std::ranges::adjacent_find(changed, {}, &Place::id);
  if (twice != changed.end()) return ChangedTwice(twice->id);
  const auto foreign = std::ranges::find_if(changed, [&](const Place& place) {
    return !growing && (place.id < partition.row_begin || place.id >= partition.row_end);
  });
  if (foreign != changed.end()) return ChangedElsewhere(foreign->id);
  std::ranges::sort(removed);
  std::vector<Place>& places = partition.places;
  std::erase_if(places, [&](const Place& place) {
    return std::ranges::binary_search(removed, place.id) ||
           std::ranges::binary_search(changed, place.id, {}, &Place::id);
  });
  const auto before = static_cast<int64_t>(places.size());
  places.reserve(places.size() + changed.size());
  places.insert(places.end(), changed.begin(), changed.end());
  std::ranges::inplace_merge(places, places.begin() + before, {}, &Place::id);
  return growing ? CheckRowsAfter(partition.now, places.size()) : absl::OkStatus();
}

std::optional<CheckpointRows::Wanted> CheckpointRows::Find(const Table& table, uint64_t id,
                                                           size_t at) const {
  const uint64_t row = table.growing ? ShardOfRow(id, table.axis0) : id;
  const auto after = std::ranges::upper_bound(
      table.parts, row, {}, [&](uint32_t part) { return partitions_.at(part).row_begin; });
  if (after == table.parts.begin()) return std::nullopt;
  const Partition& partition = partitions_.at(*(after - 1));
  if (row >= partition.row_end) return std::nullopt;
  const auto place = std::ranges::lower_bound(partition.places, id, {}, &Place::id);
  if (place != partition.places.end() && place->id == id) {
    return Wanted{&partition, place->run, place->record, at};
  }
  if (!partition.whole.has_value()) return std::nullopt;
  return Wanted{&partition, *partition.whole, id - partition.row_begin, at};
}

absl::StatusOr<bool> CheckpointRows::ReadRow(const Table& table, const Wanted& row,
                                             std::span<float> out) const {
  const Run& run = runs_[row.run];
  const std::span<char> bytes(reinterpret_cast<char*>(out.data()), out.size_bytes());
  const uint64_t record = row.record * run.stride;
  if (table.expire == 0) {
    RETURN_IF_ERROR(run.file->ReadBytes(*run.tensor, record + run.values, bytes));
    return true;
  }
  std::vector<char> both(run.values - kTouchedAt + bytes.size());
  RETURN_IF_ERROR(run.file->ReadBytes(*run.tensor, record + kTouchedAt, both));
  uint32_t touched = 0;
  std::memcpy(&touched, both.data(), sizeof touched);
  if (HasExpired(row.of->now, touched, table.expire)) return false;
  std::copy(both.end() - static_cast<int64_t>(bytes.size()), both.end(), bytes.begin());
  return true;
}

absl::Status CheckpointRows::Read(size_t variable, std::span<const uint64_t> ids,
                                  std::span<float> rows, std::vector<char>& there) const {
  const Table& table = tables_.at(variable);
  there.assign(ids.size(), 0);
  std::vector<Wanted> wanted;
  wanted.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (const std::optional<Wanted> found = Find(table, ids[i], i)) {
      wanted.push_back(*found);
    } else if (!table.growing) {
      return absl::OutOfRangeError(absl::StrCat("the table has no row ", ids[i]));
    }
  }
  std::ranges::sort(wanted, {}, [](const Wanted& row) { return std::tuple(row.run, row.record); });
  std::vector<absl::Status> read((wanted.size() + kRowsAtOnce - 1) / kRowsAtOnce);
  ParallelFor(read.size(), [&](size_t part) {
    const size_t end = std::min(wanted.size(), (part + 1) * kRowsAtOnce);
    for (size_t i = part * kRowsAtOnce; i < end && read[part].ok(); ++i) {
      const size_t at = wanted[i].at;
      const absl::StatusOr<bool> found =
          ReadRow(table, wanted[i], rows.subspan(at * table.width, table.width));
      if (!found.ok()) read[part] = found.status();
      there[at] = found.ok() && *found;
    }
  });
  for (const absl::Status& status : read) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace paracord
