// What a checkpoint is on disk (storage/CHECKPOINT.md): directory names, MANIFEST.json and the
// tensors of a ps file. The coordinator writes manifests, the ps write and read their files, export
// and evaluation read variables. Free functions over the Files seam, blocking, for the executor's
// thread. Nothing here decides when a checkpoint is taken or which one is deleted.
//
// Every error names the file. DATA_LOSS: damaged or torn. NOT_FOUND: missing. FAILED_PRECONDITION:
// it belongs to another run or checkpoint. UNIMPLEMENTED: written by a newer format.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"
#include "storage/safetensors.h"

namespace paracord {

inline constexpr uint32_t kCheckpointFormat = 2;  // 1 is read too: ledgers in the header
inline constexpr char kManifestName[] = "MANIFEST.json";

// Where the checkpoints of a job's DIR are.
std::string CheckpointsDirectory(const std::string& dir);

// "step-<step>-g<generation>-r<round>", decimal without leading zeros.
struct CheckpointName {
  uint64_t step = 0;
  uint64_t generation = 0;
  uint64_t round = 0;

  std::string ToString() const;
  bool operator==(const CheckpointName&) const = default;
};
std::optional<CheckpointName> ParseCheckpointName(std::string_view name);

// Where the files of a round are written: "round-g<generation>-r<round>". The commit renames it to
// the checkpoint's own name, whose step is known only when every ps has answered.
std::string RoundDirectory(uint64_t generation, uint64_t round);
// Of the directory of a checkpoint or a round, by its name.
std::optional<uint64_t> GenerationOf(const std::string& name);

// Where the ps files of a checkpoint are: in its own directory; but in an object store, where
// nothing is renamed, they stay in that of the round.
std::string PartsDirectory(const std::string& directory);
// In an object store: with it, a round's directory is none of a checkpoint's, now and for good
// (coordinator/leftovers.h).
inline constexpr char kRemovedName[] = "REMOVED";

// "ps-00000-of-00002.safetensors".
std::string PsFileName(uint32_t ps, uint32_t ps_count);

struct ManifestFile {
  std::string name;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  std::string boot_id;  // of the ps that wrote it
};

struct ManifestPartition {
  PartitionSpec spec;  // spec.ps() is its place in `files`
  uint64_t updates = 0;
  uint64_t applied = 0;  // 0 for partitions that are not trained
  uint64_t rejected = 0;
  bool healthy = true;
};

struct Manifest {
  uint32_t min_reader_version = kCheckpointFormat;  // of the reader, to understand it
  std::string job_name;
  std::string job_json;  // canonical
  std::string run_id;
  CheckpointName name;          // step: least batches applied over the trained partitions
  bool complete = false;        // the job is done; nothing will follow
  int64_t created_unix_ms = 0;  // for people
  DataPlan plan;
  std::vector<VariableSpec> variables;
  std::vector<ManifestPartition> partitions;  // by id
  std::vector<ManifestFile> files;            // by ps
  nlohmann::json summary;                     // the coordinator's counters; null: none

  bool healthy() const;
};

// Least `applied` over the partitions of trainable variables; 0 without any.
uint64_t LeastApplied(const Manifest& manifest);

// The text of MANIFEST.json, with its checksum in the last line.
std::string ManifestToText(const Manifest& manifest);
// `path` is for the errors only. Checks the checksum, the format and that all parts fit together.
absl::StatusOr<Manifest> ParseManifest(std::string_view text, const std::string& path);
// The manifest of a checkpoint's directory, whose name must be the manifest's own.
absl::StatusOr<Manifest> ReadManifest(Files& files, const std::string& directory);

// The checkpoints below `checkpoints_directory`, newest (greatest generation and round) first. What
// has no manifest or no such name is none; whether it is sound is not looked at. One that cannot be
// looked into counts: it may be the newest. A directory that does not exist holds none.
absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(
    Files& files, const std::string& checkpoints_directory);
// Whether a directory is one of them, as far as can be seen. One that was listed and seems damaged
// may be gone: a coordinator removes what newer ones replace.
bool IsCheckpoint(Files& files, const std::string& directory);

// Whether the newest checkpoint below DIR says that the job is done. One that is damaged does not,
// since a coordinator goes on from the one before it; so all of it is read.
bool JobIsComplete(Files& files, const std::string& dir);
// The same, for who starts when the job may be done already: a coordinator that gives it more to do
// has `timeouts.start_s` to come.
struct JobEnd {
  std::string checkpoint;  // the newest
  int64_t start_ms = 0;
};
std::optional<JobEnd> FindJobEnd(Files& files, const std::string& dir);

// Reads everything: manifest, sizes, checksums, and that each ps file holds what it should. Gives
// what is wrong with the manifest, or else with each file; none: the checkpoint is sound.
std::vector<absl::Status> FindDamage(Files& files, const std::string& directory);
// The same without reading the tensors: the manifest, and that each ps file is there in its size.
std::vector<absl::Status> FindObviousDamage(Files& files, const std::string& directory);
// Of an error: another look would find the same, and another checkpoint has to do.
bool SaysDamaged(const absl::Status& status);
// OK or the first of FindDamage.
absl::Status VerifyCheckpoint(Files& files, const std::string& directory);

// What a ps file says of a partition beside its tensors.
struct StoredPartition {
  uint32_t id = 0;
  Ledger ledger;
  uint64_t updates = 0;
  bool healthy = true;
};

// Memory for the elements of a tensor, in order; none: it is not wanted.
using TensorPlace = std::vector<std::span<float>>;

// Where a tensor of the partition `ids[index]` goes, in float32 and with as many elements as the
// manifest says; `slot`: empty for the values. Nowhere: it is only verified.
using PlaceFn = std::function<TensorPlace(size_t index, std::string_view slot)>;

// The partitions `ids` (any order; the result has the same). Each file that holds one of them is
// read once; what landed may be used only if this says OK.
absl::StatusOr<std::vector<StoredPartition>> ReadPartitions(Files& files,
                                                            const std::string& directory,
                                                            const Manifest& manifest,
                                                            std::span<const uint32_t> ids,
                                                            const PlaceFn& place);

// Of a job that averages its values (use_ema of Keras): the slot with the averages, which Keras'
// fit() leaves in the model.
inline constexpr char kAverageSlot[] = "average";
// Of a lazy table: how many times each row was updated, one number a row.
inline constexpr char kStepsSlot[] = "steps";

// All variables, whole, in the order of manifest.variables, their averages where there are some;
// verified. For export and evaluation.
absl::StatusOr<std::vector<std::vector<float>>> ReadVariables(Files& files,
                                                              const std::string& directory,
                                                              const Manifest& manifest);

// ---- what a ps file holds beside values and slots

struct PsFileIdentity {
  std::string run_id;
  uint64_t generation = 0;
  uint64_t round = 0;
  uint32_t ps = 0;
  uint32_t ps_count = 0;
  std::string boot_id;
};

struct PartitionMetadata {
  uint64_t updates = 0;
  bool healthy = true;
};

std::map<std::string, std::string> PsFileMetadata(
    const PsFileIdentity& identity,
    const std::map<std::string, PartitionMetadata>& partitions);  // by name
// The text of a partition's ledger, and the tensor of it, U8. Not in the header, which has a limit
// that many partitions with many open splits would reach. Without batches if it is not trained.
std::string LedgerToText(const Ledger& ledger);
std::string LedgerTensorName(const std::string& partition);
// What is stored of one partition, without its id; the error names it.
absl::StatusOr<StoredPartition> ReadCounts(const std::map<std::string, std::string>& metadata,
                                           const std::string& partition,
                                           const std::string& ledger_text);
// OK if the metadata says that the file is this one; the boot id is not compared.
absl::Status CheckPsFileIdentity(const std::map<std::string, std::string>& metadata,
                                 const PsFileIdentity& expected);
std::string SlotTensorName(const std::string& partition, const std::string& slot);

}  // namespace paracord
