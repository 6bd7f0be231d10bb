// What a synchronous job of the simulation has to make, computed here without a cluster: one round
// after another, each lane's gradient on the values after the round before, a sum of its own over
// the lanes, and the mean applied as one asynchronous batch. It takes the arithmetic of lanes from
// nobody who is tested. Used by one thread.
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
    std::vector<std::vector<float>> values;  // by partition, as SeenValues has them
    std::vector<StoredTensors> stored;       // the same with slots, as a checkpoint has them
  };

  SyncReference(const SimStorage& storage, const Job& job, const CountingOptions& counting,
                const DataPlan& plan);

  const std::vector<PartitionSpec>& partitions() const { return partitions_; }
  bool trained(uint32_t partition) const;
  // After so many rounds of the job.
  const State& At(uint64_t state);
  // What a worker gets that pulls a partition of this state whole, or these rows of it.
  std::vector<float> Pulled(uint64_t state, uint32_t partition, const Rows& rows,
                            Encoding encoding);
  // The test loss of the values after so many rounds.
  double LossAt(uint64_t state);

 private:
  // A lane's gradient, or a sum of some: by partition.
  struct Part {
    bool by_rows = false;
    std::map<uint64_t, std::vector<float>> rows;  // by id
    std::vector<float> all;
  };
  using Sum = std::map<uint32_t, Part>;

  void Next();
  std::optional<Sum> GradientOf(uint64_t epoch, uint64_t place, uint64_t& examples);
  // Clips the mean of a round as the job's optimizer says.
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
  std::shared_ptr<const Content> content_;
  std::vector<State> states_;
};

}  // namespace paracord
