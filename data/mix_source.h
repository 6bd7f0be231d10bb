// Several sources as one, in proportion to their weights: {"mix": [{"weight": 3, ...}, ...]}. The
// number of a record in the mix alone determines its source and its number there, for every reader
// alike. An epoch has every record of every source at least once; where a source has too few
// records for its weight, its records occur again. Constant once made.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/data_source.h"

namespace paracord {

// Decides how many records of each source an epoch takes, and spreads them evenly over it.
class MixOrder {
 public:
  // Every source must have records and a weight above 0. Returns INVALID_ARGUMENT if an epoch would
  // be longer than 2^48 records.
  static absl::StatusOr<MixOrder> Make(const std::vector<uint64_t>& records,
                                       const std::vector<double>& weights);

  uint64_t total() const { return total_; }
  const std::vector<uint64_t>& counts() const { return counts_; }
  struct Place {
    size_t source;
    uint64_t index;  // the number of earlier records in the epoch from this source
  };
  Place At(uint64_t record) const;

 private:
  std::vector<uint64_t> counts_;
  uint64_t total_ = 0;
};

struct WeightedSource {
  double weight = 1;
  std::unique_ptr<DataSource> source;
};

// Returns INVALID_ARGUMENT if the sources differ in names or shapes of inputs, targets or weights,
// or if MixOrder::Make does.
absl::StatusOr<std::unique_ptr<DataSource>> MakeMix(std::vector<WeightedSource> sources);

}  // namespace paracord
