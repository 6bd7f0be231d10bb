#include "storage/checkpoint.h"

#include <algorithm>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "config/job.h"
#include "config/partitions.h"

namespace paracord {
namespace {

constexpr std::string_view kRoundPrefix = "round-";
constexpr char kLedgerMark[] = "/.ledger";
constexpr uint32_t kTouchedBits = (uint32_t{1} << 31) - 1;  // bits of a row's batch number

// Consumes a decimal number at the front of `text`. Refuses leading zeros and signs, so that each
// number has only one name.
bool ConsumeNumber(std::string_view& text, uint64_t& number) {
  const size_t length = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return !digits.empty() && (digits == "0" || digits[0] != '0') &&
         absl::SimpleAtoi(std::string(digits), &number);
}

bool ConsumePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::string Join(const std::string& directory, const std::string& name) {
  return absl::StrCat(directory, "/", name);
}

PsFileIdentity IdentityOf(const Manifest& manifest, uint32_t ps) {
  return {.run_id = manifest.run_id,
          .generation = manifest.name.generation,
          .round = manifest.name.round,
          .ps = ps,
          .ps_count = static_cast<uint32_t>(manifest.files.size()),
          .boot_id = {}};
}

absl::Status CheckSize(const std::string& path, uint64_t bytes, const ManifestFile& expected) {
  if (bytes == expected.bytes) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": ", bytes, " bytes, the manifest says ", expected.bytes));
}

// Turns the error for a path that is no regular file into damage, since a file of ours belongs
// there.
absl::Status AsDamage(const absl::Status& opened) {
  return absl::IsInvalidArgument(opened) ? absl::DataLossError(opened.message()) : opened;
}

// A tensor's name: "<partition>" or "<partition>/.slot/<slot>".
struct TensorKey {
  explicit TensorKey(std::string_view full) : partition(full.substr(0, full.find(kSlotMark))) {
    is_value = partition.size() == full.size();
    if (!is_value) slot = full.substr(partition.size() + sizeof kSlotMark - 1);
  }
  std::string_view partition;
  std::string_view slot;
  bool is_value = false;
};

std::string Dimensions(std::span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Checks a tensor of a growing table, or of a delta. The number of rows is known only from the
// tensor's size and metadata.
absl::Status CheckTableTensor(const SafetensorsHeader& header, const VariableSpec& variable,
                              const TensorKey& key, const TensorInfo& tensor, bool delta) {
  const auto refuse = [&](const std::string& what) {
    return absl::DataLossError(absl::StrCat("tensor ", tensor.name, " ", what));
  };
  const bool growing = IsGrowing(variable);
  const bool removed = growing && key.slot == kRemovedSlot;
  if (key.slot != kRowsSlot && !(growing && key.slot == kCandidatesSlot) && !removed) {
    return refuse("is none of a table");
  }
  if (removed && !delta) return refuse("is of a partition that has all rows");
  if (tensor.dtype != "U8") return refuse(absl::StrCat("is ", tensor.dtype, ", not U8"));
  uint64_t words = removed ? sizeof(uint64_t) / sizeof(float) : 1;
  if (key.slot == kRowsSlot) {
    ASSIGN_OR_RETURN(const std::optional<TableMetadata> table,
                     ReadTableMetadata(header.metadata, std::string(key.partition)));
    if (!table.has_value()) return refuse("has no metadata");
    if (table->since.has_value() != delta) {
      return refuse(
          "has all rows where the manifest says that some changed, or the other way round");
    }
    if (table->fixed == growing) return refuse("is of the other kind of table");
    words = RecordWords(*table, RowElements(variable));
  }
  if (tensor.shape.size() == 2 && tensor.shape[1] == words * sizeof(float) &&
      tensor.shape[0] < UINT32_MAX) {
    return absl::OkStatus();
  }
  return refuse(absl::StrCat("has the shape ", Dimensions(tensor.shape), ", and a row has ",
                             words * sizeof(float), " bytes"));
}

bool IsStepsOf(const VariableSpec& variable, const TensorKey& key) {
  return key.slot == kStepsSlot && variable.table().lazy();
}

// Returns the required shape of a dense tensor. Only the loader knows which slots of a table's own
// optimizer have one number a row.
std::vector<uint64_t> ShapeOf(const VariableSpec& variable, const PartitionSpec& spec,
                              const TensorKey& key, const TensorInfo& tensor) {
  std::vector<uint64_t> shape = PartitionShape(variable, spec);
  const bool own = !variable.table().optimizer().empty() && !key.is_value;
  if (IsStepsOf(variable, key) || (own && tensor.shape.size() == 1)) shape.resize(1);
  return shape;
}

// The tensors found for a partition.
struct Found {
  const ManifestPartition* partition;
  bool value = false;
  bool steps = false;
  bool removed = false;  // removed ids
  std::set<std::string_view> slots{};
};
using FoundTensors = std::map<std::string, Found, std::less<>>;  // keyed by partition

// Checks that no tensor is missing, and that all updated partitions have equal slots.
absl::Status CheckNoneMissing(const FoundTensors& found, const Manifest& manifest) {
  // Keyed by the variable if it has its own optimizer, else "".
  std::map<std::string, const Found*> updated;
  for (const auto& [name, here] : found) {
    if (!here.value) return absl::DataLossError(absl::StrCat("no tensor ", name));
    const VariableSpec& variable = manifest.variables[here.partition->spec.variable()];
    const bool growing = IsGrowing(variable);
    if (growing && here.partition->delta && !here.removed) {
      return absl::DataLossError(absl::StrCat("no tensor ", SlotTensorName(name, kRemovedSlot)));
    }
    if (growing || here.partition->delta) continue;
    if (!variable.trainable() || variable.moving_average() > 0) continue;
    if (variable.table().lazy() && !here.steps) {
      return absl::DataLossError(absl::StrCat("no tensor ", SlotTensorName(name, kStepsSlot)));
    }
    const bool own = !variable.table().optimizer().empty();
    const Found*& first = updated[own ? variable.name() : ""];
    if (first == nullptr) first = &here;
    if (here.slots != first->slots) {
      return absl::DataLossError(absl::StrCat("partition ", name, " has other slots than ",
                                              first->partition->spec.name()));
    }
  }
  return absl::OkStatus();
}

// Checks that the tensors match the manifest, that none is missing, and that all updated partitions
// have equal slots.
absl::Status CheckTensors(const SafetensorsHeader& header, const Manifest& manifest, uint32_t ps) {
  FoundTensors found;
  for (const ManifestPartition& partition : manifest.partitions) {
    if (partition.spec.ps() == ps) found.emplace(partition.spec.name(), Found{&partition});
  }
  for (const TensorInfo& tensor : header.tensors) {
    const TensorKey key(tensor.name);
    const auto it = found.find(key.partition);
    if (it == found.end()) continue;
    const auto refuse = [&](const std::string& what) {
      return absl::DataLossError(absl::StrCat("tensor ", tensor.name, " ", what));
    };
    const PartitionSpec& spec = it->second.partition->spec;
    const VariableSpec& variable = manifest.variables[spec.variable()];
    const bool delta = it->second.partition->delta;
    if (IsGrowing(variable) || delta) {
      RETURN_IF_ERROR(CheckTableTensor(header, variable, key, tensor, delta));
      it->second.value = it->second.value || key.slot == kRowsSlot;
      it->second.removed = it->second.removed || key.slot == kRemovedSlot;
      continue;
    }
    const bool steps = IsStepsOf(variable, key);
    const std::vector<uint64_t> shape = ShapeOf(variable, spec, key, tensor);
    if (tensor.dtype != "F32") return refuse(absl::StrCat("is ", tensor.dtype, ", not F32"));
    if (tensor.shape != shape) {
      return refuse(absl::StrCat("has the shape ", Dimensions(tensor.shape), ", the manifest says ",
                                 Dimensions(shape)));
    }
    if (key.is_value) {
      it->second.value = true;
    } else if (key.slot.empty()) {
      return refuse("is of a slot without a name");
    } else if (steps) {
      it->second.steps = true;
    } else {
      it->second.slots.insert(key.slot);
    }
  }
  return CheckNoneMissing(found, manifest);
}

// A partition to read from a file, by name.
struct Wanted {
  StoredPartition* partition;
  size_t index;  // for PlaceFn
  std::string ledger{};
};
using FilePlan = std::map<std::string, Wanted, std::less<>>;

BytesPlace BytesOf(const TensorPlace& place) {
  BytesPlace bytes;
  constexpr uint64_t kEach = sizeof(float);
  for (const PlacedIn<float>& to : place) {
    bytes.emplace_back(reinterpret_cast<char*>(to.data), to.size * kEach, to.run * kEach,
                       to.stride * kEach, to.kept * kEach);
  }
  return bytes;
}

// Reads a ps file once, checks it against the manifest, and fills in the plan's partitions.
absl::Status ReadPsFile(Files& files, const std::string& directory, const Manifest& manifest,
                        uint32_t ps, FilePlan plan, const PlaceFn& place) {
  const ManifestFile& expected = manifest.files[ps];
  const std::string path = Join(PsFilesDirectory(directory), expected.name);
  const auto damaged = [&](const absl::Status& status) {
    return absl::DataLossError(absl::StrCat(path, ": ", status.message()));
  };
  const auto opened = SafetensorsFile::Open(files, path);
  RETURN_IF_ERROR(AsDamage(opened.status()));
  const std::unique_ptr<SafetensorsFile>& file = *opened;
  const auto& metadata = file->header().metadata;
  const absl::Status identity = CheckPsFileIdentity(metadata, IdentityOf(manifest, ps));
  if (!identity.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " belongs elsewhere: ", identity.message()));
  }
  RETURN_IF_ERROR(CheckSize(path, file->bytes(), expected));
  const absl::Status tensors = CheckTensors(file->header(), manifest, ps);
  if (!tensors.ok()) return damaged(tensors);
  ASSIGN_OR_RETURN(const uint32_t crc, file->ReadAll([&](const TensorInfo& tensor) {
    std::string_view name = tensor.name;
    const bool is_ledger = name.ends_with(kLedgerMark);
    if (is_ledger) name.remove_suffix(std::string_view(kLedgerMark).size());
    const TensorKey key(name);
    const auto it = plan.find(key.partition);
    if (it == plan.end()) return BytesPlace();
    if (!is_ledger) {
      const uint64_t elements = (tensor.end - tensor.begin) / sizeof(float);
      return BytesOf(place(it->second.index, key.slot, elements));
    }
    it->second.ledger.resize(tensor.end - tensor.begin);
    return BytesPlace{it->second.ledger};
  }));
  if (crc != expected.crc32c) {
    return absl::DataLossError(
        absl::StrFormat("%s: checksum %08x, the manifest says %08x", path, crc, expected.crc32c));
  }
  for (const auto& [name, wanted] : plan) {
    absl::StatusOr<StoredPartition> counts = ReadCounts(metadata, name, wanted.ledger);
    if (!counts.ok()) return damaged(counts.status());
    wanted.partition->ledger = std::move(counts->ledger);
    wanted.partition->updates = counts->updates;
    wanted.partition->healthy = counts->healthy;
    wanted.partition->table = std::move(counts->table);
  }
  return absl::OkStatus();
}

}  // namespace

std::string CheckpointsDirectory(const std::string& dir) { return dir + "/checkpoints"; }

std::string CheckpointName::ToString() const {
  return absl::StrCat("step-", step, "-g", generation, "-r", round);
}

std::string RoundDirectory(uint64_t generation, uint64_t round) {
  return absl::StrCat("round-g", generation, "-r", round);
}

std::optional<CheckpointName> ParseCheckpointName(std::string_view name) {
  CheckpointName result;
  if (!ConsumePrefix(name, "step-") || !ConsumeNumber(name, result.step) ||
      !ConsumePrefix(name, "-g") || !ConsumeNumber(name, result.generation) ||
      !ConsumePrefix(name, "-r") || !ConsumeNumber(name, result.round) || !name.empty()) {
    return std::nullopt;
  }
  return result;
}

std::string PsFilesDirectory(const std::string& directory) {
  const size_t slash = directory.rfind('/');
  const auto name = ParseCheckpointName(directory.substr(slash + 1));
  if (SchemeOf(directory).empty() || !name.has_value()) return directory;
  return Join(directory.substr(0, slash), RoundDirectory(name->generation, name->round));
}

std::optional<uint64_t> GenerationOf(const std::string& name) {
  std::optional<CheckpointName> parsed = ParseCheckpointName(name);
  if (!parsed.has_value() && name.starts_with(kRoundPrefix)) {
    parsed = ParseCheckpointName("step-0-" + name.substr(kRoundPrefix.size()));
  }
  if (!parsed.has_value()) return std::nullopt;
  return parsed->generation;
}

std::string PsFileName(uint32_t ps, uint32_t ps_count) {
  return absl::StrFormat("ps-%05d-of-%05d.safetensors", ps, ps_count);
}

std::string SlotTensorName(const std::string& partition, const std::string& slot) {
  return absl::StrCat(partition, kSlotMark, slot);
}

uint64_t SlotWord(const TableMetadata& table, size_t slot, uint64_t row_elements) {
  uint64_t word = RowHeaderWords(table.steps) + row_elements;
  for (size_t s = 0; s < slot; ++s) {
    const bool of_rows =
        std::ranges::find(table.row_slots, table.slots[s]) != table.row_slots.end();
    word += of_rows ? 1 : row_elements;
  }
  return word;
}

uint64_t RecordWords(const TableMetadata& table, uint64_t row_elements) {
  return SlotWord(table, table.slots.size(), row_elements);
}

uint64_t ValuesWord(const TableMetadata& table, uint64_t row_elements) {
  const auto average = std::ranges::find(table.slots, kAverageSlot);
  if (average == table.slots.end()) return RowHeaderWords(table.steps);
  return SlotWord(table, static_cast<size_t>(average - table.slots.begin()), row_elements);
}

bool HasExpired(const TableMetadata& table, uint32_t touched, uint64_t expire) {
  return expire != 0 && ((table.now - touched) & kTouchedBits) > expire;
}

std::string LedgerTensorName(const std::string& partition) { return partition + kLedgerMark; }

bool Manifest::healthy() const {
  return std::all_of(partitions.begin(), partitions.end(),
                     [](const ManifestPartition& partition) { return partition.healthy; });
}

uint64_t LeastApplied(const Manifest& manifest) {
  std::optional<uint64_t> least;
  for (const ManifestPartition& partition : manifest.partitions) {
    if (!manifest.variables[partition.spec.variable()].trainable()) continue;
    least = std::min(least.value_or(partition.applied), partition.applied);
  }
  return least.value_or(0);
}

absl::StatusOr<Manifest> ReadManifest(Files& files, const std::string& directory) {
  const std::string path = Join(directory, kManifestName);
  const absl::StatusOr<std::string> text = files.ReadWhole(path);
  RETURN_IF_ERROR(AsDamage(text.status()));
  ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(*text, path));
  const std::string name = directory.substr(directory.rfind('/') + 1);
  if (name != manifest.name.ToString()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " belongs to ", manifest.name.ToString()));
  }
  return manifest;
}

bool IsCheckpoint(Files& files, const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> inside = files.List(directory);
  // List returns one of these if the path is a plain file or does not exist.
  if (absl::IsNotFound(inside.status()) || absl::IsFailedPrecondition(inside.status()))
    return false;
  if (!inside.ok()) return true;
  if (std::ranges::count(*inside, kManifestName) == 0) return false;
  const std::string ps_files = PsFilesDirectory(directory);
  return ps_files == directory || !files.Open(Join(ps_files, kRemovedName)).ok();
}

absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(
    Files& files, const std::string& checkpoints_directory) {
  std::vector<CheckpointName> checkpoints;
  const absl::StatusOr<std::vector<std::string>> names = files.List(checkpoints_directory);
  if (absl::IsNotFound(names.status())) return checkpoints;
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    const std::optional<CheckpointName> parsed = ParseCheckpointName(name);
    if (!parsed.has_value()) continue;
    if (IsCheckpoint(files, Join(checkpoints_directory, name))) checkpoints.push_back(*parsed);
  }
  std::sort(checkpoints.begin(), checkpoints.end(),
            [](const CheckpointName& a, const CheckpointName& b) {
              return std::tuple(a.generation, a.round, a.step) >
                     std::tuple(b.generation, b.round, b.step);
            });
  return checkpoints;
}

bool JobIsComplete(Files& files, const std::string& dir) {
  return FindJobEnd(files, dir).has_value();
}

std::optional<JobEnd> FindJobEnd(Files& files, const std::string& dir) {
  const std::string checkpoints = CheckpointsDirectory(dir);
  const absl::StatusOr<std::vector<CheckpointName>> names = ListCheckpoints(files, checkpoints);
  if (!names.ok() || names->empty()) return std::nullopt;
  const std::string name = names->front().ToString();
  const std::string newest = absl::StrCat(checkpoints, "/", name);
  const absl::StatusOr<Manifest> manifest = ReadManifest(files, newest);
  if (!manifest.ok() || !manifest->complete || !VerifyCheckpoint(files, newest).ok()) {
    return std::nullopt;
  }
  const absl::StatusOr<Job> job = ParseJob(manifest->job_json);
  return JobEnd{name, (job.ok() ? job->timeouts : TimeoutsSpec()).start_s * 1000};
}

std::vector<absl::Status> FindOwnDamage(Files& files, const std::string& directory,
                                        const Manifest& manifest, TableStates& tables) {
  std::vector<absl::Status> damage;
  for (uint32_t ps = 0; ps < manifest.files.size(); ++ps) {
    // The file of a ps without partitions is verified, too.
    StoredPartition dense;  // checked, not kept
    TableStates states;
    FilePlan plan;
    for (const ManifestPartition& partition : manifest.partitions) {
      if (partition.spec.ps() != ps) continue;
      const bool table = manifest.variables[partition.spec.variable()].has_table();
      const uint32_t id = partition.spec.id();
      StoredPartition* const counts = table ? &states[id] : &dense;
      counts->id = id;
      plan.try_emplace(partition.spec.name(), Wanted{counts, 0});
    }
    const PlaceFn nowhere = [](size_t, std::string_view, uint64_t) { return TensorPlace(); };
    absl::Status read = ReadPsFile(files, directory, manifest, ps, std::move(plan), nowhere);
    if (!read.ok()) {
      damage.push_back(std::move(read));
      continue;
    }
    for (auto& [id, counts] : states) counts.ledger.Clear();
    tables.merge(states);
  }
  return damage;
}

std::vector<absl::Status> FindWrongSizes(Files& files, const std::string& directory,
                                         const Manifest& manifest) {
  std::vector<absl::Status> wrong;
  for (const ManifestFile& expected : manifest.files) {
    const std::string path = Join(PsFilesDirectory(directory), expected.name);
    const absl::StatusOr<std::unique_ptr<ReadFile>> file = files.Open(path);
    absl::Status fits =
        file.ok() ? CheckSize(path, (*file)->size(), expected) : AsDamage(file.status());
    if (!fits.ok()) wrong.push_back(std::move(fits));
  }
  return wrong;
}

bool SaysDamaged(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsUnimplemented(status) ||
         absl::IsFailedPrecondition(status);
}

absl::Status VerifyCheckpoint(Files& files, const std::string& directory) {
  const std::vector<absl::Status> damage = FindDamage(files, directory);
  return damage.empty() ? absl::OkStatus() : damage.front();
}

absl::StatusOr<std::vector<StoredPartition>> ReadPartitions(Files& files,
                                                            const std::string& directory,
                                                            const Manifest& manifest,
                                                            std::span<const uint32_t> ids,
                                                            const PlaceFn& place) {
  std::vector<StoredPartition> partitions(ids.size());
  std::map<uint32_t, FilePlan> plans;  // keyed by ps
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= manifest.partitions.size()) {
      return absl::NotFoundError(absl::StrCat(directory, " holds no partition ", ids[i]));
    }
    partitions[i].id = ids[i];
    const PartitionSpec& spec = manifest.partitions[ids[i]].spec;
    plans[spec.ps()].try_emplace(spec.name(), Wanted{&partitions[i], i});
  }
  for (const auto& [ps, plan] : plans) {
    RETURN_IF_ERROR(ReadPsFile(files, directory, manifest, ps, plan, place));
  }
  return partitions;
}

}  // namespace paracord
