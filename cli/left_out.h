// Counts the records that a source left out of batches since they cannot be read (job key
// `bad_records`), and gives each of them a row of NaN among the predictions. Used in one thread.
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
  // Returns the outputs of `count` records, numbered from `first` on: `outputs`, which has those of
  // the records in `examples`, and NaN for the records that `examples` lacks.
  std::vector<Column> Fill(std::vector<Column> outputs, const Batch& examples, uint64_t first,
                           size_t count);
  // Returns the fields as source.Fields() does. Once records have been left out, a record that
  // cannot be read has empty texts, in place of an error.
  absl::StatusOr<std::vector<std::string>> Fields(const DataSource& source,
                                                  std::span<const uint64_t> records,
                                                  std::span<const std::string> names) const;

  uint64_t count() const { return count_; }
  // A line for people about the records left out; "" if there are none.
  std::string Line() const;

 private:
  uint64_t count_ = 0;
  std::string first_;  // where the first record left out is
};

}  // namespace paracord
