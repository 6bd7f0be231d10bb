// A checkpoint on disk (docs/checkpoints.md): directory names, MANIFEST.json and the tensors of a
// ps file. The coordinator writes manifests, the ps write and read their files, and others, such as
// an export, read variables. Functions that take Files (common/files.h) block. Nothing here decides
// when a checkpoint is taken or which one is deleted.
//
// Errors name the file. DATA_LOSS: the file is damaged or torn. NOT_FOUND: it is missing.
// FAILED_PRECONDITION: it belongs to another run or checkpoint, or is none of Paracord's.
// UNIMPLEMENTED: it has a newer format. Other errors are those of Files.
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

// Formats of checkpoints: a reader of a format reads all smaller ones, too. This tree's readers
// read these formats, and format 1, which has ledgers in the header.
inline constexpr uint32_t kCheckpointFormat = 2;
inline constexpr uint32_t kGrowingFormat = 3;  // checkpoints with growing tables
// Checkpoints with a base, or with tables that have their own optimizer.
inline constexpr uint32_t kChainFormat = 4;
// Checkpoints in which a fixed table continues a base.
inline constexpr uint32_t kFixedChainFormat = 5;
// Checkpoints with epochs cut into lanes.
inline constexpr uint32_t kLanesFormat = 6;
inline constexpr char kManifestName[] = "MANIFEST.json";

// Returns the directory of all checkpoints of the job whose directory is `dir`.
std::string CheckpointsDirectory(const std::string& dir);

// A checkpoint's name, "step-<step>-g<generation>-r<round>", decimal without leading zeros.
struct CheckpointName {
  uint64_t step = 0;
  uint64_t generation = 0;
  uint64_t round = 0;

  std::string ToString() const;
  bool operator==(const CheckpointName&) const = default;
};
// Returns nullopt if `name` is not the name of a checkpoint.
std::optional<CheckpointName> ParseCheckpointName(std::string_view name);

// Returns the name of the directory in which a checkpoint round writes its files:
// "round-g<generation>-r<round>". Once all files are written and the step is known, the commit
// renames the directory to the checkpoint's name, except in an object store.
std::string RoundDirectory(uint64_t generation, uint64_t round);
// Returns the generation in the name of a checkpoint or of a round; nullopt for other names.
std::optional<uint64_t> GenerationOf(const std::string& name);

// Returns the directory of a checkpoint's ps files: the checkpoint's own, or the round's directory
// in an object store, which cannot rename.
std::string PsFilesDirectory(const std::string& directory);
// In an object store, a file of this name in a round's directory means that the round will never
// belong to a checkpoint (coordinator/leftovers.h).
inline constexpr char kRemovedName[] = "REMOVED";

// Returns "ps-00000-of-00002.safetensors".
std::string PsFileName(uint32_t ps, uint32_t ps_count);

struct ManifestFile {
  std::string name;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  std::string boot_id;  // boot id of the ps that wrote the file
};

struct ManifestPartition {
  PartitionSpec spec;  // spec.ps() is the index of the partition's file in Manifest::files
  uint64_t updates = 0;
  uint64_t applied = 0;  // 0 if not trained
  uint64_t rejected = 0;
  bool healthy = true;
  // The file has only the rows of a table that have changed since Manifest::base.
  bool delta = false;
};

struct Manifest {
  // The least format (kCheckpointFormat ...) whose readers understand the checkpoint.
  uint32_t min_reader_version = kCheckpointFormat;
  std::string job_name;
  std::string job_json;  // the job file, in its canonical form
  std::string run_id;
  CheckpointName name;          // step: the fewest batches that a trained partition has applied
  bool complete = false;        // the job is done
  int64_t created_unix_ms = 0;  // for people
  DataPlan plan;
  std::vector<VariableSpec> variables;
  std::vector<ManifestPartition> partitions;  // indexed by id
  std::vector<ManifestFile> files;            // indexed by spec.ps() of a partition
  // What summary.json would say if the job were done now, and what the next coordinator needs;
  // null: there is no summary.
  nlohmann::json summary;
  std::string base;  // the name of the checkpoint that this one continues (chain.h), or ""

  bool healthy() const;
};

// Returns the least `applied` over the partitions of trainable variables; 0 if there are none.
uint64_t LeastApplied(const Manifest& manifest);

// Returns the text of MANIFEST.json, whose last key is the checksum (sealed_json.h).
std::string ManifestToText(const Manifest& manifest);
// Parses a manifest. Checks the checksum, the format, and that variables, partitions and files
// match each other. `path` is for errors.
absl::StatusOr<Manifest> ParseManifest(std::string_view text, const std::string& path);
// Reads the manifest in `directory`, whose name must be the checkpoint's.
absl::StatusOr<Manifest> ReadManifest(Files& files, const std::string& directory);

// Lists the checkpoints in `checkpoints_directory`, newest (greatest generation and round) first:
// the directories with a valid name for which IsCheckpoint is true. Empty if
// `checkpoints_directory` does not exist.
absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(
    Files& files, const std::string& checkpoints_directory);
// Returns whether a directory looks like a checkpoint: it has a manifest, damaged or not, and its
// files are not marked by kRemovedName. Also true if an existing directory cannot be listed, which
// may be the newest checkpoint. A reader that finds damage asks again, because a coordinator may
// just have removed the checkpoint.
bool IsCheckpoint(Files& files, const std::string& directory);

// Returns whether the newest checkpoint below `dir` is sound and says that the job is done. Reads
// this checkpoint whole, because a coordinator falls back to an older one if there is damage.
bool JobIsComplete(Files& files, const std::string& dir);
// The end of a job. The job may be extended: a daemon that starts after the end waits for
// `start_ms` (timeouts.start_s) for a coordinator with a longer job.
struct JobEnd {
  std::string checkpoint;  // the name of the newest checkpoint
  int64_t start_ms = 0;
};
// As JobIsComplete; nullopt: the job is not done.
std::optional<JobEnd> FindJobEnd(Files& files, const std::string& dir);

// Reads a checkpoint and its bases whole, and checks manifests, sizes, checksums, the tensors of
// each file, and that each delta continues the state in its base (damage_finder.h). Returns the
// fault of the manifest, or one for each damaged file and each base that does not fit; empty if the
// checkpoint is sound.
std::vector<absl::Status> FindDamage(Files& files, const std::string& directory);
// Checks the manifests of a checkpoint and its bases, that bases have the partitions of their
// deltas, and that each ps file exists with the right size, without reading tensors.
std::vector<absl::Status> FindObviousDamage(Files& files, const std::string& directory);
// Returns an error for each ps file that cannot be opened or has the wrong size.
std::vector<absl::Status> FindWrongSizes(Files& files, const std::string& directory,
                                         const Manifest& manifest);
// Returns whether an error means damage: DATA_LOSS, NOT_FOUND, FAILED_PRECONDITION or
// UNIMPLEMENTED. A retry would fail again, so the caller needs another checkpoint.
bool SaysDamaged(const absl::Status& status);
// Returns the first error of FindDamage, or OK.
absl::Status VerifyCheckpoint(Files& files, const std::string& directory);

// The state of a table's partition besides its rows. A fixed table has it only in a delta.
struct TableMetadata {
  bool fixed = false;
  uint32_t now = 0;    // the number of the last update of rows, modulo 2^31; 0 if `fixed`
  bool steps = false;  // each row has a step count
  std::vector<std::string> slots;           // the slots of a row, in order, after its values
  std::vector<std::string> row_slots = {};  // those of `slots` that have one number for each row
  uint64_t admitted = 0, expired = 0, evicted = 0, dropped = 0;
  // Of a delta: the state of its base, against which the delta was written.
  struct Since {
    uint32_t now = 0;
    uint64_t updates = 0;
    std::string base = {};  // name of the checkpoint with that state; empty in older files
  };
  std::optional<Since> since = {};
  uint64_t rows = 0;  // in a delta: rows of the whole partition
};
// Return the number of four-byte words in a row's record, and the first word of a slot in it.
// `slot` is an index in table.slots.
uint64_t RecordWords(const TableMetadata& table, uint64_t row_elements);
uint64_t SlotWord(const TableMetadata& table, size_t slot, uint64_t row_elements);
// Returns the first word of the part of a row's record that ReadVariables takes: of its averages if
// the table has averages, else of its values.
uint64_t ValuesWord(const TableMetadata& table, uint64_t row_elements);
// Whether a growing table's row has expired: the last batch that touched it, `touched` in its
// record, is more than `expire` batches ago. `expire` 0: no row expires.
bool HasExpired(const TableMetadata& table, uint32_t touched, uint64_t expire);

// The state of a partition in a ps file besides its tensors.
struct StoredPartition {
  uint32_t id = 0;
  Ledger ledger;
  uint64_t updates = 0;
  bool healthy = true;
  std::optional<TableMetadata> table = {};
};

// The states of tables' partitions, without ledgers, by id.
using TableStates = std::map<uint32_t, StoredPartition>;
// Reads the files of a checkpoint whole, without its bases. Returns a fault for each damaged file,
// and adds the states of tables in sound files to `tables`.
std::vector<absl::Status> FindOwnDamage(Files& files, const std::string& directory,
                                        const Manifest& manifest, TableStates& tables);

// Memory for the elements of a tensor, in order. Empty: the tensor is not wanted.
using TensorPlace = std::vector<PlacedIn<float>>;

// Returns the memory for a tensor of the partition `ids[index]`, which has `elements` float32 or
// other four-byte words. `slot` is empty for the values. A tensor that gets no memory is only
// verified.
using PlaceFn = std::function<TensorPlace(size_t index, std::string_view slot, uint64_t elements)>;

// Reads the partitions `ids`, in any order, and returns their states in the order of `ids`. Reads
// each file at most once. The memory is valid only if the result is OK. NOT_FOUND: also if there is
// no such id.
absl::StatusOr<std::vector<StoredPartition>> ReadPartitions(Files& files,
                                                            const std::string& directory,
                                                            const Manifest& manifest,
                                                            std::span<const uint32_t> ids,
                                                            const PlaceFn& place);

// The slot with the averages of the values (Keras' use_ema), which fit() leaves in the model.
inline constexpr char kAverageSlot[] = "average";
// The slot of a lazy table with the number of updates of each row.
inline constexpr char kStepsSlot[] = "steps";
// Slots in place of values, as U8: the rows of a growing table or a delta (layout in
// docs/checkpoints.md), and of a growing table the counts of ids that are not admitted yet.
inline constexpr char kRowsSlot[] = "rows";
inline constexpr char kCandidatesSlot[] = "candidates";
// The ids of removed rows, in a delta of a growing table.
inline constexpr char kRemovedSlot[] = "removed";
// The number of four-byte words of a row's id, with which its record begins.
inline constexpr uint64_t kRowIdWords = sizeof(uint64_t) / sizeof(float);
// Returns the number of words before the values in a row's record: id, last batch, and with `steps`
// the step count.
inline uint64_t RowHeaderWords(bool steps) { return steps ? 4 : 3; }

// Ascending, distinct ids of rows for each variable; empty for all but growing tables.
using VariableIds = std::vector<std::vector<uint64_t>>;

// Reads and verifies all variables, in the order of manifest.variables. Returns the averages of a
// variable if it has some, else its values. A growing table has its unexpired rows by ascending id;
// `ids`, unless null, receives the ids.
absl::StatusOr<std::vector<std::vector<float>>> ReadVariables(Files& files,
                                                              const std::string& directory,
                                                              const Manifest& manifest,
                                                              VariableIds* ids = nullptr);

// ---- The contents of a ps file besides values and slots.

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
  std::optional<TableMetadata> table = {};
};

// Returns the metadata for the header of a ps file. `partitions` are by name.
std::map<std::string, std::string> PsFileMetadata(
    const PsFileIdentity& identity, const std::map<std::string, PartitionMetadata>& partitions);
// Return the text of a partition's ledger, and the name of the U8 tensor with the text. An
// untrained partition has an empty ledger. Ledgers are not in the header, which they could make too
// long.
std::string LedgerToText(const Ledger& ledger);
std::string LedgerTensorName(const std::string& partition);
// Returns the metadata of a table's partition; nullopt if there are none. Errors name the
// partition.
absl::StatusOr<std::optional<TableMetadata>> ReadTableMetadata(
    const std::map<std::string, std::string>& metadata, const std::string& partition);
// Returns the stored state of a partition, with id 0. Errors name the partition.
absl::StatusOr<StoredPartition> ReadCounts(const std::map<std::string, std::string>& metadata,
                                           const std::string& partition,
                                           const std::string& ledger_text);
// FAILED_PRECONDITION: the metadata are of another identity. Boot ids are not compared.
absl::Status CheckPsFileIdentity(const std::map<std::string, std::string>& metadata,
                                 const PsFileIdentity& expected);
std::string SlotTensorName(const std::string& partition, const std::string& slot);

}  // namespace paracord
