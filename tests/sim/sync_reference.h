// The right result of a simulated synchronous job, computed without a cluster: round by round, the
// gradients of all lanes on the values after the previous round, their sum, and the mean applied as
// one asynchronous batch. Shares no arithmetic of lanes with the code under test. Used by one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/job.h"
#include "exchange/rows.h"
#include "program/workload.h"
#include "proto/paracord.pb.h"
#include "sim/counting_workload.h"
#include "sim/world/sim_storage.h"
#include "store/partition_set.h"
#include "stored_tensors.h"

namespace paracord {

class SyncReference {
 public:
  struct State {
    std::vector<std::vector<float>> values;  // per partition, as SeenValues returns them
    std::vector<StoredTensors> stored;       // values with slots, as a checkpoint stores them
  };

  SyncReference(const SimStorage& storage, const Job& job, const CountingOptions& counting,
                const DataPlan& plan);

  const std::vector<PartitionSpec>& partitions() const { return partitions_; }
  bool trained(uint32_t partition) const;
  // Returns the state after `state` rounds of the job.
  const State& At(uint64_t state);
  // Returns what a worker receives when it pulls `rows` of a partition at `state`, or the whole
  // partition.
  std::vector<float> Pulled(uint64_t state, uint32_t partition, const Rows& rows,
                            Encoding encoding);
  // Returns the test loss of the values after `state` rounds.
  double LossAt(uint64_t state);

 private:
  // The gradient of a lane, or the sum over several lanes, by partition.
  struct Part {
    bool by_rows = false;
    std::map<uint64_t, std::vector<float>> rows;  // keyed by id
    std::vector<float> all;
  };
  using Sum = std::map<uint32_t, Part>;

  void Next();
  std::optional<Sum> GradientOf(uint64_t epoch, uint64_t place, uint64_t& examples);
  // Clips the mean of a round by the job's `clipnorm` or `global_clipnorm`.
  void ClipMean(Sum& mean) const;
  std::optional<Sum> SumOf(std::span<const std::optional<Sum>> lanes) const;
  std::vector<std::vector<float>> Gather(uint64_t state, const TableRows* rows, Encoding encoding);

  const Job job_;
  const CountingOptions counting_;
  const DataPlan plan_;
  const Encoding wire_;
  Workload workload_;
  std::vector<VariableSpec> variables_;
  std::vector<PartitionSpec> partitions_;
  std::shared_ptr<const PartitionSet> content_;
  std::vector<State> states_;
};

}  // namespace paracord
