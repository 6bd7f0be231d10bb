// The job: everything that must agree across the cluster. The coordinator reads it from a file,
// inlines the model and makes paths absolute; ps and workers get the canonical JSON from it.
// Parsing reports every problem at once, each naming its key, unknown keys with the nearest known.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/limits.h"
#include "nlohmann/json.hpp"

namespace paracord {

class MemoryShare;

class DataPlan;
class Files;
class KeptNames;
class Problems;

// The directory where a process may keep facts about data files for its next start and for other
// processes (data/kept_bytes.h). Each process sets it for itself; it is no part of the job.
struct KeepPlace {
  std::string directory = "";               // empty: nowhere
  std::string writer = "";                  // one of its own for every process
  uint64_t bytes_min = uint64_t{16} << 20;  // of less data it is found out again
  std::string log = "data";                 // the logger that says what cannot be kept
  std::shared_ptr<KeptNames> used = {};     // what this process has loaded or saved; null: unknown
};

// A source of examples: its `format`, and that reader's own keys, which the reader checks.
struct DataSpec {
  std::string format;      // "idx", "npy"
  nlohmann::json options;  // the other keys; paths absolute
  KeepPlace keep = {};
  // What the records may take in memory, for sources that hold them; null: no limit. As `keep`, it
  // is the process's own.
  std::shared_ptr<MemoryShare> memory = {};
  // If true, the records are read to predict for them: labels and weights are left out, and the
  // files may lack them. This is no part of the job either.
  bool inputs_alone = false;
};

// A name in Keras' snake_case ("adam", "sparse_categorical_crossentropy") with Keras' own options.
// A job has it as a string, or as an object with "name".
struct NamedSpec {
  std::string name;
  nlohmann::json options = nlohmann::json::object();
  std::string output = "";  // of the model, by name, or "#1" by position; empty: any
  bool weighted = false;    // a metric that counts examples by their weights
  bool operator==(const NamedSpec&) const = default;
};

struct StopWhen {
  std::string metric;
  std::optional<double> at_least;  // at most one of the two
  std::optional<double> at_most;
  std::optional<uint64_t> patience = {};  // evaluations in a row that bring nothing better
  double min_delta = 0;                   // by which a better one is better
  bool larger_is_better = false;
  bool restore_best = false;  // the checkpoint of the best evaluation is kept, and is the result
  bool operator==(const StopWhen&) const = default;
};

struct FailuresSpec {
  bool skip = true;  // policy: skip | fail
  uint32_t per_batch = 3;
  double rejected_max = 0.01;      // share of an epoch's batches
  uint32_t deaths_per_batch = 10;  // of workers that computed it, while others lived
};

struct TimeoutsSpec {
  int64_t start_s = 300;
  int64_t worker_ms = 10000;
  int64_t ps_ms = 10000;
  int64_t ps_return_s = 3600;
  int64_t orphan_ms = 600000;
  int64_t drain_ms = 25000;
};

struct PartitionerSpec {
  enum class Kind { kFixedShards, kMinSize, kMaxSize };
  Kind kind = Kind::kMinSize;
  uint64_t shards = 1;                     // fixed_shards
  uint64_t min_shard_bytes = 256 << 10;    // min_size
  uint64_t max_shard_bytes = 0;            // max_size
  std::optional<uint64_t> max_shards = 8;  // min_size, max_size
  std::string placement = "greedy";        // or "round_robin": which ps has which partition
};

// The compression of gradients on their way to the ps. A remainder that is not sent is added to the
// next gradient (error feedback).
struct CompressionSpec {
  enum class Kind { kNone, kTopK, kInt8 };
  Kind kind = Kind::kNone;
  double ratio = 0.01;  // top_k: share of the elements that is sent
};

// Chooses the embeddings that are tables: a step moves only those of their rows that it reads
// (docs/tables.md).
struct TablesSpec {
  struct Table {
    bool dense = false;                       // it moves whole
    bool lazy = false;                        // any optimizer acts on the rows of a batch alone
    bool growing = false;                     // any 64-bit id has a row once it is updated
    std::optional<NamedSpec> optimizer = {};  // in place of the job's
    // These settings apply to growing tables.
    uint32_t shards = 16;
    uint32_t admit_after = 1;      // appearances
    double admit_probability = 1;  // and then
    uint64_t candidates = kCandidatesDefault;
    uint64_t expire_batches = 0;  // 0: never
    uint64_t rows_max = 0;        // 0: no limit
    bool operator==(const Table&) const = default;
  };
  bool automatic = true;                  // for layers that are not named
  std::map<std::string, Table> by_layer;  // by the name of the Embedding
};

// Examples count more or less in the loss.
struct LossWeightsSpec {
  std::map<std::string, double> by_output;  // as NamedSpec::output; others have 1
  std::map<int64_t, double> by_class;       // others have 1
};

// How the records become the batches of an epoch.
struct EpochSpec {
  bool shuffle = true;
  bool drop_last = false;  // it has whole batches alone
};

// How the devices of one worker add up the gradients of their lanes, by TensorFlow's names.
enum class CrossDeviceOps { kAuto, kNccl, kHierarchicalCopy, kReductionToOneDevice };

// The parts of neighbouring layers that a model is cut into, each of which a worker computes on a
// device of its own (keras/stage_cut.h).
struct StagesSpec {
  uint32_t count = 1;  // 1: the model is not cut
  // The layers with which the second stage and later ones begin; empty: they are chosen.
  std::vector<std::string> begins;
  bool operator==(const StagesSpec&) const = default;
};

// The guarantees hold for every update, whatever fails.
struct GuaranteesSpec {
  std::string strategy = "auto";      // of kStrategies
  std::string consistency = "async";  // or "sync"
  bool consistency_said = false;      // by the job, rather than by the strategy or the default
  // Set: the job has rounds, and a gradient is computed on values that lack at most the batches of
  // so many of them. Never with "sync".
  std::optional<uint32_t> staleness;
  std::optional<uint32_t> round_batches;  // none: by RoundBatchesOf
  std::string recovery = "replay";        // with "sync": "rollback"
  // Set, with "sync": who has waited for a round so many times as long as its own batches take may
  // compute the lanes that are missing.
  std::optional<double> backup_factor;
  std::optional<uint32_t> threads;  // that compute a batch; none: each worker's own number
  // Sums of a worker's lanes may have other bits than the tree of exchange/lane_sum.h gives.
  bool reduce_fast = false;
  CrossDeviceOps cross_device_ops = CrossDeviceOps::kAuto;
  StagesSpec stages;  // in which each worker computes a batch

  // An update is the mean of a whole round.
  bool sync() const { return consistency == "sync"; }
  // Epochs are cut into lanes.
  bool rounds() const { return sync() || staleness.has_value(); }
};

// The variables begin with what a file has.
struct InitialWeightsSpec {
  std::optional<std::string> file;  // absolute path of a safetensors file
  bool partial = false;             // what the file lacks is drawn
};

struct CheckpointSpec {
  double every_seconds = 30;  // 0: only at the end and when drained
  uint32_t keep = 3;
  uint32_t full_every = 1;  // checkpoints, of which the others have changed rows of tables alone
};

inline constexpr std::string_view kPrecisions[] = {"float32", "tf32", "bf16", "fp16"};

struct Job {
  std::string name;
  nlohmann::json model;  // Keras' JSON itself
  DataSpec train;
  std::optional<DataSpec> test;
  std::optional<DataSpec> predict;  // what `paracord predict` reads
  uint32_t batch = 64;
  uint32_t accumulate = 1;
  std::optional<uint32_t> split_batches;  // none: by DefaultSplitBatches
  EpochSpec each_epoch;
  uint64_t seed = 1;
  uint64_t epochs = 1;
  std::optional<uint64_t> steps;  // batches in all, instead of epochs
  InitialWeightsSpec initial_weights;
  NamedSpec loss;                 // of every output, if `losses` is empty
  std::vector<NamedSpec> losses;  // of the outputs that have one, with its `output`
  LossWeightsSpec loss_weights;
  std::vector<NamedSpec> metrics;
  NamedSpec optimizer;
  uint64_t evaluate_every_epochs = 1;  // 0: only at the end
  std::optional<StopWhen> stop_when;
  GuaranteesSpec guarantees;
  std::string precision = "float32";  // of kPrecisions
  std::string wire = "float32";       // or "bf16", "f16"
  CompressionSpec compression;
  bool overlap = false;  // computes the next batch while the exchange of this one is under way
  FailuresSpec failures;
  TimeoutsSpec timeouts;
  TablesSpec tables;
  PartitionerSpec partitioner;
  CheckpointSpec checkpoint;
};

// Reads a job file and the model file that it names. Relative paths are relative to its directory;
// globs are left to the readers. `settings` (job_settings.h) override the file. The error has one
// line a problem, each of which names the file.
absl::StatusOr<Job> ReadJobFile(Files& files, const std::string& path,
                                std::span<const std::string> settings = {});
// Reads a job file for a caller that looks for further problems: a key with a problem keeps its
// default, or is empty. Returns nullopt only if the file holds no job at all.
std::optional<Job> ReadJobFile(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems);

// Returns the canonical form: every key is present, paths are absolute, the model is inlined.
// ParseJob(JobToJson(job)) is the same job.
std::string JobToJson(const Job& job);
absl::StatusOr<Job> ParseJob(const std::string& canonical_json);

// Returns those keys of a job that a ps applies and that may differ on resume, as text. A ps that
// keeps its variables compares it to decide whether it may go on with them.
std::string PsSettings(const Job& job);

// Checks that a job may go on from a checkpoint of the job `before`. Only epochs, steps, stop_when,
// evaluate, checkpoint, failures, timeouts, wire, compression, overlap, backup, the optimizer's
// learning rate, the strategy, stages and the places of the data's files may differ; the error
// names every other key that does. `plan` is the data plan of `before`, which goes on. `accepted`
// names files of the job's program whose text may differ, too: its variables and metrics are
// compared when a worker has run it.
absl::Status CheckResumable(Job before, const Job& now, const DataPlan& plan,
                            std::span<const std::string> accepted = {});

// Returns a line for each key in which two jobs differ: "batch: was 64 and is now 32".
std::vector<std::string> JobDifferences(const Job& before, const Job& now);

}  // namespace paracord
