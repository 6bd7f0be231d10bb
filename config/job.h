// The job: everything that must agree across the cluster. The coordinator reads it from a file,
// inlines the model and makes paths absolute. Ps and workers get it from the coordinator, as
// canonical JSON. Parsing reports all problems at once, each with its key, and for an unknown key
// the nearest known one.
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

// The directory where a process may save facts about data files, for its next start and for other
// processes (data/kept_bytes.h). The process chooses the directory; the job does not name one.
struct KeepPlace {
  std::string directory = "";  // empty: nowhere
  std::string writer = "";     // part of names of unfinished files; each process has another
  uint64_t bytes_min = uint64_t{16} << 20;  // facts about fewer bytes of data are not saved
  std::string log = "data";                 // the logger that reports what cannot be saved
  std::shared_ptr<KeptNames> used = {};     // names of the facts that this process uses
};

// A source of examples: a `format`, and the keys of the format's reader, which checks them. Members
// after `options` are set by a process, not by the job.
struct DataSpec {
  std::string format;      // such as "idx" or "npy"
  nlohmann::json options;  // the keys besides `format`, with absolute paths
  KeepPlace keep = {};
  // The limit on the memory of sources that hold their records in memory; null: no limit.
  std::shared_ptr<MemoryShare> memory = {};
  // If true, records are read for prediction: labels and weights are left out, and may be missing.
  bool inputs_alone = false;
  // The limits on what readers hold in memory beside their files. A process that reads the records
  // in order needs less for the same speed.
  uint64_t index_entries_max = uint64_t{16} << 20;  // offsets of records in files, 8 bytes each
  // The most bytes of an array in memory; a larger array is read from its file.
  uint64_t held_bytes_max = uint64_t{1} << 30;
  // The most bytes of the contents of a compressed file of records in memory; larger contents are
  // decompressed anew whenever they are read.
  uint64_t unpacked_bytes_max = UINT64_MAX;
  // When it is opened, a reader that goes over all records or images stops after so many: a process
  // that looks only at the first records needs no more. The source's fingerprint is then of these
  // records or images.
  uint64_t walked_max = UINT64_MAX;
};

// A loss, metric or optimizer: a name in Keras' snake_case ("adam",
// "sparse_categorical_crossentropy") and Keras' own options. In a job it is a string, or an object
// with "name".
struct NamedSpec {
  std::string name;
  nlohmann::json options = nlohmann::json::object();
  // The output of the model that the loss or metric is for, by name, or by position as "#1"; empty:
  // every output.
  std::string output = "";
  bool weighted = false;  // for a metric: examples count by their weights
  bool operator==(const NamedSpec&) const = default;
};

struct StopWhen {
  std::string metric;
  // Stops when the metric is at least, or at most, this. At most one of the two is set.
  std::optional<double> at_least;
  std::optional<double> at_most;
  // Stops after so many evaluations in a row that are no better than the best before.
  std::optional<uint64_t> patience = {};
  double min_delta = 0;  // improvements up to this do not count
  bool larger_is_better = false;
  bool restore_best = false;  // the job's result is the best evaluation's checkpoint
  bool operator==(const StopWhen&) const = default;
};

struct FailuresSpec {
  bool skip = true;  // key `policy`: true is "skip", false is "fail"
  // Failures of a batch after which the policy applies.
  uint32_t per_batch = 3;
  double rejected_max = 0.01;  // if a larger share of an epoch's batches is rejected, the job fails
  // After so many deaths in turn of workers that compute a batch, the batch has failed.
  uint32_t deaths_per_batch = 10;
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
  uint32_t copies = 0;                     // 1: each partition has a copy on a second ps
};

// How gradients are compressed on their way to the ps. What compression leaves out of a gradient is
// added to the same worker's next gradient (error feedback).
struct CompressionSpec {
  enum class Kind { kNone, kTopK, kInt8 };
  Kind kind = Kind::kNone;
  double ratio = 0.01;  // share of the elements that top_k sends
};

// Which Embedding layers are tables, so that a step moves only the rows that its batch reads
// (docs/tables.md).
struct TablesSpec {
  struct Table {
    bool dense = false;  // the layer is no table: its variable travels whole
    bool lazy = false;   // the optimizer updates only a batch's rows, even if that changes results
    bool growing = false;                     // any 64-bit id may get a row
    std::optional<NamedSpec> optimizer = {};  // replaces the job's optimizer
    // The settings from here on are those of growing tables.
    uint32_t shards = 16;
    uint32_t admit_after = 1;      // appearances of an id in batches before the id may get a row
    double admit_probability = 1;  // probability of a row at each appearance from then on
    // The most ids without a row whose appearances are counted.
    uint64_t candidates = kCandidatesDefault;
    uint64_t expire_batches = 0;  // batches without an access until a row is removed; 0: never
    uint64_t rows_max = 0;        // 0: no limit
    bool operator==(const Table&) const = default;
  };
  bool automatic = true;                  // layers without an entry may be tables
  std::map<std::string, Table> by_layer;  // key: the name of the Embedding
};

// How much examples count in the loss: a factor for each output of the model, and for each class.
struct LossWeightsSpec {
  std::map<std::string, double> by_output;  // key: NamedSpec::output; default 1
  std::map<int64_t, double> by_class;       // default 1
};

// How the records become the batches of an epoch.
struct EpochSpec {
  bool shuffle = true;
  bool drop_last = false;  // an epoch has whole batches only
};

// How the devices of one worker add up the gradients of their lanes, by TensorFlow's names.
enum class CrossDeviceOps { kAuto, kNccl, kHierarchicalCopy, kReductionToOneDevice };

// The stages of a model. Each stage is a run of neighbouring layers, and each device of a worker
// computes one (keras/stage_cut.h).
struct StagesSpec {
  uint32_t count = 1;  // 1: the model is not cut
  // The names of the first layer of each stage but the first; empty: keras/stage_cut.h chooses.
  std::vector<std::string> begins;
  bool operator==(const StagesSpec&) const = default;
};

// What is guaranteed for updates, whatever fails: the job's keys about strategy and consistency.
struct GuaranteesSpec {
  std::string strategy = "auto";      // one of kStrategies
  std::string consistency = "async";  // or "sync"
  bool consistency_said = false;      // the job names its `consistency`
  // If set, the job has rounds, and the values that a gradient is computed on may lack the batches
  // of at most this many rounds. Never set if `consistency` is "sync".
  std::optional<uint32_t> staleness;
  std::optional<uint32_t> round_batches;  // batches of a round; nullopt: RoundBatchesOf decides
  std::string recovery = "replay";        // "rollback" if `consistency` is "sync"
  // Set only if `consistency` is "sync": a worker that has waited for a round this many times as
  // long as its own batches take may compute the missing lanes.
  std::optional<double> backup_factor;
  std::optional<uint32_t> threads;  // threads that compute a batch; nullopt: each worker decides
  // True: the sum of a worker's lanes may differ in its last bits from the sum that
  // exchange/lane_sum.h defines.
  bool reduce_fast = false;
  CrossDeviceOps cross_device_ops = CrossDeviceOps::kAuto;
  StagesSpec stages;  // the cut of the model in each worker

  // Whether an update is the mean of the gradients of a whole round.
  bool sync() const { return consistency == "sync"; }
  // Whether epochs are cut into lanes.
  bool rounds() const { return sync() || staleness.has_value(); }
};

// A file with the initial values of variables.
struct InitialWeightsSpec {
  std::optional<std::string> file;  // absolute path of a safetensors file
  bool partial = false;  // variables may be missing in the file: their initializers fill them
};

struct CheckpointSpec {
  double every_seconds = 30;  // 0: only at the end and when drained
  uint32_t keep = 3;
  // Of so many checkpoints one is full; the others lack rows of growing tables that did not change.
  uint32_t full_every = 1;
};

inline constexpr std::string_view kPrecisions[] = {"float32", "tf32", "bf16", "fp16"};

struct Job {
  std::string name;
  nlohmann::json model;  // Keras' JSON, or the program (config/program_spec.h)
  DataSpec train;
  std::optional<DataSpec> test;
  std::optional<DataSpec> predict;  // the records that `paracord predict` reads by default
  uint32_t batch = 64;
  uint32_t accumulate = 1;
  std::optional<uint32_t> split_batches;  // nullopt: DefaultSplitBatches
  EpochSpec each_epoch;
  uint64_t seed = 1;
  uint64_t epochs = 1;
  std::optional<uint64_t> steps;  // the number of batches in all; set: `epochs` does not count
  InitialWeightsSpec initial_weights;
  NamedSpec loss;                 // the loss of every output, if `losses` is empty
  std::vector<NamedSpec> losses;  // one for each output with a loss, which it names in `output`
  LossWeightsSpec loss_weights;
  std::vector<NamedSpec> metrics;
  NamedSpec optimizer;
  uint64_t evaluate_every_epochs = 1;  // 0: only at the end
  std::optional<StopWhen> stop_when;
  GuaranteesSpec guarantees;
  std::string precision = "float32";  // one of kPrecisions
  std::string wire = "float32";       // or "bf16", "f16"
  CompressionSpec compression;
  bool overlap = false;  // a worker computes the next batch during the exchange of a batch
  FailuresSpec failures;
  TimeoutsSpec timeouts;
  TablesSpec tables;
  PartitionerSpec partitioner;
  CheckpointSpec checkpoint;
};

// Reads a job file and the model file that it names. Relative paths start at the job file's
// directory; patterns in paths stay. `settings` (job_settings.h) override the file. The error has
// one line for each problem, and each line names the file.
absl::StatusOr<Job> ReadJobFile(Files& files, const std::string& path,
                                std::span<const std::string> settings = {});
// Reads a job file for a caller that looks for further problems. Adds problems to `problems`; the
// key of a problem keeps its default, or is empty. Returns nullopt only if no job could be read
// from the file.
std::optional<Job> ReadJobFile(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems);

// Returns the canonical form of a job: keys have their values even at the default (some newer keys
// only if set), paths are absolute, the model is inlined. ParseJob(JobToJson(job)) is the same job,
// but with its `consistency` named.
std::string JobToJson(const Job& job);
absl::StatusOr<Job> ParseJob(const std::string& canonical_json);

// Returns, as text, the keys of a job that a ps applies and that may change on resume: the
// optimizer, timeouts, epochs and steps. SameUpdates (ps_settings.h) compares two such texts.
std::string PsSettings(const Job& job);

// Checks that the job `now` may go on from a checkpoint of the job `before`. These keys may differ:
// epochs, steps, stop_when, evaluate, checkpoint, failures, timeouts, wire, compression, overlap,
// backup, copies, the strategy, stages, data.predict, the optimizer's learning rate, the paths of
// data files, the folder of initial weights, and entries of `tables` that are neither lazy nor
// growing and have no optimizer. The error names the other keys that differ, about 20 at most.
// `plan` is the data plan of `before`, which stays. In a model that is a program, the texts of the
// files that `accepted` names may differ, too; the coordinator compares variables and metrics once
// a worker has run the program.
absl::Status CheckResumable(Job before, const Job& now, const DataPlan& plan,
                            std::span<const std::string> accepted = {});

// Returns a line for each key in which two jobs differ, about 20 at most: "batch: was 64 and is now
// 32".
std::vector<std::string> JobDifferences(const Job& before, const Job& now);

}  // namespace paracord
