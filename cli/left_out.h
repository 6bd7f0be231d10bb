// The records of a file that `bad_records` left out of a computation: each gets a row of NaN in the
// table of predictions. Used in one thread; the source must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/data_source.h"

namespace paracord {

class LeftOut {
 public:
  // Returns the outputs of `count` records from `first` on, some of which `examples` may lack.
  std::vector<Column> Fill(std::vector<Column> outputs, const Batch& examples, uint64_t first,
                           size_t count);
  // As DataSource::Fields; a record that cannot be read has empty texts.
  absl::StatusOr<std::vector<std::string>> Fields(const DataSource& source,
                                                  std::span<const uint64_t> records,
                                                  std::span<const std::string> names) const;

  uint64_t count() const { return count_; }
  // A line for people; empty if no record was left out.
  std::string Line() const;

 private:
  uint64_t count_ = 0;
  std::string first_;  // the first record left out
};

}  // namespace paracord
