// The history of a job by epochs: how many batches each epoch had, their loss and metrics in
// training, and how long it took. Workers report the figures with the batches they train. Only the
// first report of a batch counts, however often a rollback or a restart has the batch trained
// again. The core owns the history. It says which epoch is in training and closes an epoch when the
// ledgers of all partitions have every batch. Status, summary.json and manifests show the history,
// and job.state hands it to the next coordinator.
//
// Invariants: the sums of an epoch have a batch at most once, and only batches of the plan. A
// closed epoch stays closed when a restore takes its batches back, and training them again changes
// none of its figures. A batch that was reported, and rejected after its update was lost with a ps,
// stays in the sums of loss, metrics and examples, and an epoch says how many such it has. Reports
// of the newest closed epoch are still counted, because they may come after the ledgers were read.
// One closed epoch opens again: that at which `steps` ended a job, when the job is given more
// steps.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/batch_ranges.h"
#include "coordinator/core/told_metric.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// What is known of an epoch, besides the reports of workers, when all of its ledgers are complete.
struct EpochClosing {
  uint64_t batches = 0;  // entered by every partition, rejected batches included
  uint64_t rejected = 0;
  uint64_t examples = 0;  // the plan's, without rejected batches
  std::optional<double> learning_rate = {};
  bool cut_short = false;             // `steps` ends the job before the end of the epoch
  BatchRanges rejected_batches = {};  // which they are
};

class EpochHistory {
 public:
  static constexpr size_t kEpochsMax = 10'000;   // the newest closed ones
  static constexpr int kMetricValuesMax = 8192;  // values in the state of a metric
  static constexpr size_t kBadRecordsNamed = 5;

  // Starts the clock of an epoch, whose training begins or goes on, and stops that of any other.
  void Run(uint64_t epoch, int64_t now_ms);
  // Stops the clock: no epoch is in training for now.
  void Stop(int64_t now_ms);

  // Whether reports of the epoch are counted: it has been in training, and no later one is closed.
  bool Takes(uint64_t epoch) const { return sums_.contains(epoch); }
  // Counts those batches of a report that no report before had; `task` sent it. The epoch has
  // `batches` batches and the job `metrics` metrics. A report of an epoch that the history does not
  // take is ignored. INVALID_ARGUMENT names what cannot be true, and nothing of the report counts:
  // batches that the plan lacks, a loss or metric that is not finite, more examples than a batch
  // has, or another number of metrics.
  absl::Status Add(const TrainedBatches& told, const DataPlan& plan, uint64_t batches,
                   size_t metrics, const std::string& task);
  // Keeps a worker's description of a record that it left out; of all of them the first few.
  void NameBadRecord(const std::string& text);

  // Returns the epochs before `epoch` that have been in training and are not closed; ascending.
  std::vector<uint64_t> OpenBefore(uint64_t epoch) const;
  bool IsClosed(uint64_t epoch) const { return epoch < closed_; }
  // Closes an epoch, unless it is closed already. `names` are those of the job's metrics, "loss"
  // first. Returns the tasks whose reports have metrics of another kind than most batches have,
  // which do not count.
  std::vector<std::string> Close(uint64_t epoch, const EpochClosing& closing,
                                 const std::vector<std::string>& names, int64_t now_ms);
  // Opens the newest closed epoch again if it had fewer than `batches` batches, which are as many
  // as the job gives it now. Called when a history was restored.
  void Extend(uint64_t batches);
  // Forgets everything: another run begins.
  void Clear() { *this = EpochHistory(); }

  // The number of closed epochs, which are the first ones of the job: now, and when Restore and
  // Extend had been called.
  uint64_t closed() const { return closed_; }
  uint64_t found() const { return found_; }
  // The number of batches that were reported of epochs that are not closed.
  uint64_t open_batches() const;
  // How often workers left a record out: in all epochs, and in the epoch with the most of them,
  // which is how many records cannot be read.
  uint64_t bad_records() const { return bad_total_; }
  uint64_t bad_records_most() const { return bad_most_; }
  const std::vector<std::string>& bad_records_named() const { return bad_named_; }

  // Returns the closed epochs from number `from` on, as people get them. An entry has no key for
  // what nobody reported.
  nlohmann::json Epochs(uint64_t from, const std::vector<std::string>& names) const;

  // Returns the mean loss and the metrics of the epoch in training, over those of its batches that
  // were reported; empty: no epoch is in training, or none of its batches was reported.
  std::map<std::string, double> TrainSoFar(const std::vector<std::string>& names) const;

  // Returns what the next coordinator needs besides Epochs(): the sums of epochs that are not
  // closed, and of a closed one that more steps would open again.
  nlohmann::json SaveOpen(int64_t now_ms) const;
  // Takes over what Epochs and SaveOpen returned. DATA_LOSS: the JSON is not theirs, and the
  // history is empty.
  absl::Status Restore(const nlohmann::json& epochs, const nlohmann::json& open);

 private:
  struct Record {  // a closed epoch
    uint64_t epoch = 0, batches = 0, rejected = 0, untold = 0, examples = 0, bad_records = 0;
    uint64_t rejected_told = 0;  // reported before they were rejected
    double seconds = 0;
    std::optional<double> learning_rate = {};
    std::map<std::string, double> train = {};
  };
  struct Sums {
    BatchRanges told;       // the batches that were reported
    uint64_t planned = 0;   // the examples that the plan gives to these batches
    uint64_t examples = 0;  // the examples that they had, without records that were left out
    double loss = 0;        // the sum over these examples
    std::vector<ToldMetric> metrics;
    int64_t trained_ms = 0;
    std::optional<EpochClosing> closing;  // nullopt: the epoch is open
  };
  static std::map<std::string, double> MeansOf(const Sums& sums,
                                               const std::vector<std::string>& names);
  static Record RecordOf(uint64_t epoch, const Sums& sums, const std::vector<std::string>& names);
  static nlohmann::json ToJson(const Record& record);
  static Record RecordFromJson(const nlohmann::json& entry);
  nlohmann::json SumsToJson(uint64_t epoch, const Sums& sums, int64_t now_ms) const;
  uint64_t ReadSums(const nlohmann::json& saved);
  void ReadCutShort(const nlohmann::json& saved);
  void ReadSaved(const nlohmann::json& epochs, const nlohmann::json& open);

  uint64_t closed_ = 0, found_ = 0;
  std::deque<Record> records_;     // closed epochs that take no more reports
  std::map<uint64_t, Sums> sums_;  // open epochs and the newest closed epoch
  std::optional<uint64_t> running_;
  int64_t running_since_ms_ = 0;
  uint64_t bad_total_ = 0, bad_most_ = 0;
  std::vector<std::string> bad_named_;
};

}  // namespace paracord
