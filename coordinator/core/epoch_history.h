// What training brought, epoch by epoch: each batch counts once, when a worker first tells of it,
// however often it is computed, replayed or rolled back. Owned by the core, which says which epoch
// is trained and when the ledgers have closed it. People get it as "history" of status,
// summary.json and manifests, and so does the next coordinator.
//
// Invariants: a batch is in the sums of its epoch at most once, and only a batch of the plan. An
// epoch is closed once: a restore takes none back, and an epoch that is trained again afterwards
// changes nothing. The newest closed epoch still takes batches that workers tell of late.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/batch_ranges.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

// What the ledgers of all partitions say of an epoch when it closes.
struct EpochClosing {
  uint64_t batches = 0;  // entered, with those that were rejected
  uint64_t rejected = 0;
  uint64_t examples = 0;  // of the batches that were not rejected, as the plan says
  std::optional<double> learning_rate = {};
};

class EpochHistory {
 public:
  static constexpr size_t kEpochsMax = 10'000;   // the newest closed ones
  static constexpr int kMetricValuesMax = 8192;  // of a metric's state
  static constexpr size_t kBadRecordsNamed = 5;

  // An epoch is trained from now on: its time runs. Another one's stops.
  void Run(uint64_t epoch, int64_t now_ms);
  // Nothing is trained for now.
  void Stop(int64_t now_ms);

  // Counts what a worker tells of batches of an epoch of `batches` batches, which are new. An epoch
  // that is neither trained nor the newest closed one is ignored. INVALID_ARGUMENT names what
  // cannot be, and then nothing is counted: a batch that the plan does not have, a loss or metric
  // that is not finite, more examples than a batch has, or metrics that do not fit the job's.
  absl::Status Add(const TrainedBatches& told, const DataPlan& plan, uint64_t batches,
                   size_t metrics);
  // Takes what workers say of records that they left out; the first few are kept.
  void NameBadRecord(const std::string& text);

  // The epochs before `epoch` that workers have told of, or that were trained, and that are not
  // closed; ascending.
  std::vector<uint64_t> OpenBefore(uint64_t epoch) const;
  // Whether an epoch is closed already.
  bool IsClosed(uint64_t epoch) const { return epoch < closed_; }
  // The ledgers say that the epoch is done. Does nothing if it is closed already. `names` are those
  // of the job's metrics, "loss" first.
  void Close(uint64_t epoch, const EpochClosing& closing, const std::vector<std::string>& names,
             int64_t now_ms);
  // Forgets everything: another run begins.
  void Clear() { *this = EpochHistory(); }

  // All epochs before this one are closed; before that one they were when Restore was called.
  uint64_t closed() const { return closed_; }
  uint64_t found() const { return found_; }
  // How many batches of epochs that are not closed workers have told of.
  uint64_t open_batches() const;
  // How often a record was left out, in all epochs, and in the epoch in which most were: so many
  // records cannot be read.
  uint64_t bad_records() const { return bad_total_; }
  uint64_t bad_records_most() const { return bad_most_; }
  const std::vector<std::string>& bad_records_named() const { return bad_named_; }

  // The closed epochs from number `from` on, for people. An entry lacks what is not known.
  nlohmann::json Epochs(uint64_t from, const std::vector<std::string>& names) const;

  // All that the next coordinator needs beside Epochs().
  nlohmann::json SaveOpen(int64_t now_ms) const;
  // Takes what Epochs and SaveOpen gave. DATA_LOSS: they are something else, and nothing is known.
  absl::Status Restore(const nlohmann::json& epochs, const nlohmann::json& open);

 private:
  struct Record {  // of a closed epoch
    uint64_t epoch = 0, batches = 0, rejected = 0, untold = 0, examples = 0, bad_records = 0;
    double seconds = 0;
    std::optional<double> learning_rate = {};
    std::map<std::string, double> train = {};
  };
  struct Sums {
    BatchRanges told;
    uint64_t planned = 0;   // examples of these batches, as the plan says
    uint64_t examples = 0;  // that they had
    double loss = 0;        // over the examples
    std::vector<MetricState> metrics;
    int64_t trained_ms = 0;
    std::optional<EpochClosing> closing;  // of the newest closed epoch
  };
  static Record RecordOf(uint64_t epoch, const Sums& sums, const std::vector<std::string>& names);
  static nlohmann::json ToJson(const Record& record);
  static Record RecordFromJson(const nlohmann::json& entry);
  void ReadSaved(const nlohmann::json& epochs, const nlohmann::json& open);

  uint64_t closed_ = 0, found_ = 0;
  std::deque<Record> records_;  // of closed epochs that take nothing any more
  std::map<uint64_t, Sums> sums_;
  std::optional<uint64_t> running_;
  int64_t running_since_ms_ = 0;
  uint64_t bad_total_ = 0, bad_most_ = 0;
  std::vector<std::string> bad_named_;
};

}  // namespace paracord
