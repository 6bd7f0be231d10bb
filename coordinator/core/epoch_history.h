// The history of a job by epochs: for each epoch the number of batches, their loss and metrics in
// training, and the duration. Workers report the figures with the batches they train. Only the
// first report of a batch counts, however often a rollback or a restart has the batch trained
// again. Owned by the core, which says which epoch is in training, and closes an epoch when the
// ledgers of all partitions have every batch. Status, summary.json and manifests show the history,
// and job.state hands it to the next coordinator.
//
// Invariants: the sums of an epoch include a batch at most once, and only batches of the plan. A
// closed epoch stays closed when a restore takes its batches back, and training these batches again
// changes none of its figures. If a batch was reported, its update was lost with a ps, and the
// batch was then rejected, the sums of loss, metrics and examples keep the batch; the epoch counts
// these batches (rejected_told). Reports of the newest closed epoch still count until the
// coordinator restarts, because a report may arrive after the ledgers were read. A closed epoch can
// reopen only if the job's `steps` ended the job within it, and the job is then given more steps.
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

// The figures of an epoch that do not come from workers' reports. They are known when the ledgers
// of all partitions have every batch of the epoch.
struct EpochClosing {
  uint64_t batches = 0;  // entered by every partition, including rejected ones
  uint64_t rejected = 0;
  uint64_t examples = 0;  // planned examples, without rejected batches
  std::optional<double> learning_rate = {};
  bool cut_short = false;             // `steps` ends the job within this epoch
  BatchRanges rejected_batches = {};  // the numbers of the rejected batches
};

class EpochHistory {
 public:
  static constexpr size_t kEpochsMax = 10'000;   // the most closed epochs that are kept
  static constexpr int kMetricValuesMax = 8192;  // the most values in the state of a metric
  static constexpr size_t kBadRecordsNamed = 5;

  // Starts the clock of an epoch whose training begins or goes on, and stops any other clock.
  void Run(uint64_t epoch, int64_t now_ms);
  // Stops the clock: no epoch is in training for now.
  void Stop(int64_t now_ms);

  // Whether reports of the epoch count: the epoch is open and has been in training, or this
  // coordinator closed it last.
  bool Takes(uint64_t epoch) const { return sums_.contains(epoch); }
  // Counts the batches of a report by `task` that no earlier report contained. The epoch has
  // `batches` batches and the job `metrics` metrics, the loss included. The report's metrics count
  // only if all of its batches are new. A valid report of an epoch for which Takes is false is
  // ignored. INVALID_ARGUMENT: nothing of the report counts, because a value is impossible, such as
  // batches outside the plan, a loss or metric that is not finite, more examples than the batches
  // have, or a wrong number of metrics.
  absl::Status Add(const TrainedBatches& told, const DataPlan& plan, uint64_t batches,
                   size_t metrics, const std::string& task);
  // Keeps a worker's description of a record that it left out; at most kBadRecordsNamed are kept.
  void NameBadRecord(const std::string& text);

  // Returns the epochs below `epoch` that have been in training and are not closed; ascending.
  std::vector<uint64_t> OpenBefore(uint64_t epoch) const;
  bool IsClosed(uint64_t epoch) const { return epoch < closed_; }
  // Closes an epoch unless it is closed. `names` are the names of the job's metrics, "loss" first.
  // If workers reported different kinds of state (such as a mean or an AUC) for one metric, only
  // the kind that was reported for most batches counts. Returns, for each kind that does not count,
  // the task that first reported it.
  std::vector<std::string> Close(uint64_t epoch, const EpochClosing& closing,
                                 const std::vector<std::string>& names, int64_t now_ms);
  // Reopens the newest closed epoch if the job now gives it more batches (`batches`) than it had.
  // Called after Restore.
  void Extend(uint64_t batches);
  // Forgets everything, because another run begins.
  void Clear() { *this = EpochHistory(); }

  // closed() is the number of closed epochs, always the first ones of the job; found() is what
  // closed() was after Restore and Extend.
  uint64_t closed() const { return closed_; }
  uint64_t found() const { return found_; }
  // The number of reported batches of epochs that are not closed.
  uint64_t open_batches() const;
  // How often workers left out an unreadable record, over all epochs. bad_records_most() is the
  // number in the epoch with the most, an estimate of how many records are bad.
  uint64_t bad_records() const { return bad_total_; }
  uint64_t bad_records_most() const { return bad_most_; }
  const std::vector<std::string>& bad_records_named() const { return bad_named_; }

  // Returns the closed epochs from `from` (the first epoch is 0) on as JSON, for people and for
  // Restore. An entry lacks the loss and the metrics that nobody reported, and optional numbers
  // that are 0.
  nlohmann::json Epochs(uint64_t from, const std::vector<std::string>& names) const;

  // Returns the mean loss and metrics of the epoch in training over its reported batches; empty: no
  // epoch is in training, or no batch of it was reported.
  std::map<std::string, double> TrainSoFar(const std::vector<std::string>& names) const;

  // Returns what the next coordinator needs besides Epochs(): the counts of bad records, and the
  // sums of epochs that are not closed and of a closed epoch that more steps would reopen.
  nlohmann::json SaveOpen(int64_t now_ms) const;
  // Restores the results of Epochs and SaveOpen. DATA_LOSS: the JSON is malformed, and the history
  // is empty.
  absl::Status Restore(const nlohmann::json& epochs, const nlohmann::json& open);

 private:
  struct Record {  // a closed epoch
    uint64_t epoch = 0, batches = 0, rejected = 0, untold = 0, examples = 0, bad_records = 0;
    uint64_t rejected_told = 0;  // rejected batches that were reported before
    double seconds = 0;
    std::optional<double> learning_rate = {};
    std::map<std::string, double> train = {};
  };
  struct Sums {
    BatchRanges told;       // the batches that were reported
    uint64_t planned = 0;   // the examples of these batches by the plan
    uint64_t examples = 0;  // examples that the batches had, without records left out
    double loss = 0;        // sum over these examples
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
