// A checkpoint on disk (docs/checkpoints.md): directory names, MANIFEST.json and the tensors of a
// ps file. The coordinator writes manifests, the ps write and read their files, and export and
// evaluation read variables. Free functions over the Files seam that block, for the executor's
// thread. Nothing here decides when a checkpoint is taken or which one is deleted.
//
// Every error names the file. DATA_LOSS: it is damaged or torn. NOT_FOUND: it is missing.
// FAILED_PRECONDITION: it belongs to another run or checkpoint. UNIMPLEMENTED: it has a newer
// format.
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
inline constexpr uint32_t kGrowingFormat = 3;     // of a checkpoint with growing tables
// The format of one that continues another, or has tables with an optimizer of their own.
inline constexpr uint32_t kChainFormat = 4;
// The format of one in which a fixed table continues another checkpoint.
inline constexpr uint32_t kFixedChainFormat = 5;
// The format of one whose epochs are cut into lanes; readers read all of these.
inline constexpr uint32_t kLanesFormat = 6;
inline constexpr char kManifestName[] = "MANIFEST.json";

// Returns the directory of all checkpoints of the job in `dir`.
std::string CheckpointsDirectory(const std::string& dir);

// A checkpoint's name, "step-<step>-g<generation>-r<round>", decimal without leading zeros.
struct CheckpointName {
  uint64_t step = 0;
  uint64_t generation = 0;
  uint64_t round = 0;

  std::string ToString() const;
  bool operator==(const CheckpointName&) const = default;
};
std::optional<CheckpointName> ParseCheckpointName(std::string_view name);

// Returns the directory where the files of a round are written: "round-g<generation>-r<round>". The
// commit renames it to the checkpoint's own name, because the step is known only when every ps has
// answered.
std::string RoundDirectory(uint64_t generation, uint64_t round);
// Returns the generation in the name of a checkpoint's or a round's directory; nullopt if `name` is
// neither.
std::optional<uint64_t> GenerationOf(const std::string& name);

// Returns the directory of a checkpoint's ps files: its own, except in an object store, where
// nothing can be renamed and they stay in that of the round.
std::string PsFilesDirectory(const std::string& directory);
// A file of this name in a round's directory in an object store says that the round belongs to no
// checkpoint, now and for good (coordinator/leftovers.h).
inline constexpr char kRemovedName[] = "REMOVED";

// Returns "ps-00000-of-00002.safetensors".
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
  bool delta = false;  // of a table: it has the rows that changed since Manifest::base
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
  std::string base;                           // the checkpoint that it continues (chain.h), or ""

  bool healthy() const;
};

// Returns the least `applied` over the partitions of trainable variables; 0 if there are none.
uint64_t LeastApplied(const Manifest& manifest);

// Returns the text of MANIFEST.json, whose last line is its checksum.
std::string ManifestToText(const Manifest& manifest);
// Parses a manifest, and checks its checksum, its format and that variables, partitions and files
// fit together. `path` is only for errors.
absl::StatusOr<Manifest> ParseManifest(std::string_view text, const std::string& path);
// Reads the manifest of a checkpoint's directory, whose name must be the manifest's own.
absl::StatusOr<Manifest> ReadManifest(Files& files, const std::string& directory);

// Lists the checkpoints below `checkpoints_directory`, newest (greatest generation and round)
// first. A directory counts if it has a checkpoint's name and a manifest, be it sound or not. One
// that cannot be looked into counts as well, since it may be the newest. NOT_FOUND is no error:
// there are none.
absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(
    Files& files, const std::string& checkpoints_directory);
// Whether a directory still looks like a checkpoint. A reader that finds a listed one damaged asks
// this, since a coordinator removes those that newer ones replace.
bool IsCheckpoint(Files& files, const std::string& directory);

// Whether the newest checkpoint below DIR says that the job is done. It is read whole: a damaged
// one does not count, since a coordinator goes on from the one before it.
bool JobIsComplete(Files& files, const std::string& dir);
// The end of a job that may go on: for `start_ms` (the job's timeouts.start_s) a daemon that starts
// waits for a coordinator that gives the job more to do.
struct JobEnd {
  std::string checkpoint;  // the newest
  int64_t start_ms = 0;
};
std::optional<JobEnd> FindJobEnd(Files& files, const std::string& dir);

// Reads everything, and checks the manifest, sizes, checksums, and that each ps file holds the
// tensors that it should; those of the checkpoints that it continues, too, and that each of them is
// the one that is continued (damage_finder.h). Returns what is wrong
// with the manifest, or else with each file; nothing if the checkpoint is sound.
std::vector<absl::Status> FindDamage(Files& files, const std::string& directory);
// Checks without reading the tensors: the manifest, and that each ps file exists and has its size.
std::vector<absl::Status> FindObviousDamage(Files& files, const std::string& directory);
// Returns the ps files that do not exist or have another size than the manifest says.
std::vector<absl::Status> FindWrongSizes(Files& files, const std::string& directory,
                                         const Manifest& manifest);
// Whether an error says that the checkpoint is damaged: reading it again would find the same, so
// another checkpoint is needed.
bool SaysDamaged(const absl::Status& status);
// Returns OK, or the first error of FindDamage.
absl::Status VerifyCheckpoint(Files& files, const std::string& directory);

// The state of a table's partition that lies beside its rows; of a fixed table only a delta has it.
struct TableMetadata {
  bool fixed = false;
  uint32_t now = 0;                         // the last batch that changed rows, modulo 2^31
  bool steps = false;                       // each row counts its own
  std::vector<std::string> slots;           // of a row, behind its values
  std::vector<std::string> row_slots = {};  // those of them that have one number a row
  uint64_t admitted = 0, expired = 0, evicted = 0, dropped = 0;
  // A delta has the rows that changed since the partition was so.
  struct Since {
    uint32_t now = 0;
    uint64_t updates = 0;
    std::string base = {};  // the checkpoint that has it so; older files do not tell
  };
  std::optional<Since> since = {};
  uint64_t rows = 0;  // of a delta: how many the partition has in all
};
// Returns the words of a row, and the word that a slot begins at; `slot` counts from 0.
uint64_t RecordWords(const TableMetadata& table, uint64_t row_elements);
uint64_t SlotWord(const TableMetadata& table, size_t slot, uint64_t row_elements);

// The state of a partition that a ps file holds beside its tensors.
struct StoredPartition {
  uint32_t id = 0;
  Ledger ledger;
  uint64_t updates = 0;
  bool healthy = true;
  std::optional<TableMetadata> table = {};
};

// The states of tables' partitions that files have, without their ledgers, by id.
using TableStates = std::map<uint32_t, StoredPartition>;
// Reads the files of one checkpoint whole, without those that it continues. Returns what is wrong,
// as FindDamage, and puts the states of the other files' tables into `tables`.
std::vector<absl::Status> FindOwnDamage(Files& files, const std::string& directory,
                                        const Manifest& manifest, TableStates& tables);

// Memory for the elements of a tensor, in order; empty for a tensor that is not wanted.
using TensorPlace = std::vector<PlacedIn<float>>;

// Returns the memory for a tensor of the partition `ids[index]`, as float32 or other words of four
// bytes, with so many elements. `slot` is empty for the values. A tensor without memory is only
// verified.
using PlaceFn = std::function<TensorPlace(size_t index, std::string_view slot, uint64_t elements)>;

// Reads the partitions `ids` (in any order, which the result has, too). Each file that holds one of
// them is read once. The memory may be used only if this returns OK.
absl::StatusOr<std::vector<StoredPartition>> ReadPartitions(Files& files,
                                                            const std::string& directory,
                                                            const Manifest& manifest,
                                                            std::span<const uint32_t> ids,
                                                            const PlaceFn& place);

// The slot with the averages, in a job that averages its values (Keras' use_ema): fit() leaves them
// in the model.
inline constexpr char kAverageSlot[] = "average";
// A lazy table has this slot: how many times each row was updated, one number a row.
inline constexpr char kStepsSlot[] = "steps";
// A growing table has these, as U8, and no values: its rows (docs/checkpoints.md has the layout),
// and the counts of ids that are not admitted yet.
inline constexpr char kRowsSlot[] = "rows";
inline constexpr char kCandidatesSlot[] = "candidates";
// The ids whose rows were removed, in a delta.
inline constexpr char kRemovedSlot[] = "removed";
// The words of a row before its values: its id, when it was touched, and perhaps its steps.
inline uint64_t RowHeaderWords(bool steps) { return steps ? 4 : 3; }

// The ids by variable, ascending and distinct; they are empty but for growing tables.
using VariableIds = std::vector<std::vector<uint64_t>>;

// Reads and verifies all variables, whole, in the order of manifest.variables, and their averages
// in place of the values if there are some. A growing table has the rows that have not expired, by
// ascending ids, which are put into `ids` unless it is null. For export and evaluation.
absl::StatusOr<std::vector<std::vector<float>>> ReadVariables(Files& files,
                                                              const std::string& directory,
                                                              const Manifest& manifest,
                                                              VariableIds* ids = nullptr);

// ---- The contents of a ps file beside values and slots.

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

std::map<std::string, std::string> PsFileMetadata(
    const PsFileIdentity& identity,
    const std::map<std::string, PartitionMetadata>& partitions);  // by name
// Returns the text of a partition's ledger, and the name of the U8 tensor that holds it. A
// partition that is not trained has a ledger without batches. It is no part of the header, whose
// limit many partitions with many open splits would reach.
std::string LedgerToText(const Ledger& ledger);
std::string LedgerTensorName(const std::string& partition);
// Returns what the metadata say of a growing table's partition; nullopt if they say nothing. An
// error names the partition.
absl::StatusOr<std::optional<TableMetadata>> ReadTableMetadata(
    const std::map<std::string, std::string>& metadata, const std::string& partition);
// Returns the stored state of one partition without its id. An error names the partition.
absl::StatusOr<StoredPartition> ReadCounts(const std::map<std::string, std::string>& metadata,
                                           const std::string& partition,
                                           const std::string& ledger_text);
// Returns OK if the metadata has the expected identity; the boot id is not compared.
absl::Status CheckPsFileIdentity(const std::map<std::string, std::string>& metadata,
                                 const PsFileIdentity& expected);
std::string SlotTensorName(const std::string& partition, const std::string& slot);

}  // namespace paracord
