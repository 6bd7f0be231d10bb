// A batch's ids for the tables of a model: the distinct rows, and each id's index among them,
// encoded for the graph. Owned by the program, used by its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "data/data_source.h"
#include "keras/graph.h"
#include "program/gradient_program.h"
#include "program/row_numbers.h"

namespace paracord {

struct NumberedRows : TableRows {
  // By input of the graph; empty for an input that no table reads. Row 0 is encoded as 1/2 unless
  // its id is 0: zero then means only the id 0, which masks hide. -1 is an id without a row,
  // because no reader uses it: its weight is 0, or a mask hides it.
  std::vector<std::vector<float>> numbers;
};

class TableIds {
 public:
  // `columns`: of the data, for each input of the graph. `batch`: examples of the largest batch of
  // training.
  TableIds(const Graph& graph, std::vector<size_t> columns, int64_t batch);

  bool any() const { return !groups_.empty(); }
  // The most rows of the variable read by a training batch; 0 if the variable is no table.
  int64_t rows_max(size_t variable) const { return rows_max_[variable]; }

  absl::StatusOr<std::shared_ptr<const NumberedRows>> RowsOf(const Batch& batch) const;
  // Whether the input has ids of growing tables.
  bool growing(size_t input) const;
  // Returns as many rows as a batch can read, for planning memory.
  std::shared_ptr<const NumberedRows> Widest(const Batch& batch) const;

 private:
  // A call that reads ids of the group (Graph::IdReader).
  struct Reader {
    size_t input = 0;
    std::optional<size_t> weights = {};  // the column
    bool hides_zero = false;
  };
  // Tables with equal inputs.
  struct Group {
    std::vector<size_t> inputs;
    std::vector<size_t> variables;
    size_t smallest = 0;  // the variable with the fewest rows
    int64_t rows = 0;     // rows of the smallest
    uint64_t shards = 0;  // for growing tables; 0: fixed ones
    std::vector<Reader> readers = {};
  };
  Reader ReaderOf(const Graph::IdReader& reader) const;
  absl::Status ReadIds(const Batch& batch, const Group& group, std::vector<uint64_t>& ids) const;
  std::vector<char> UsedIds(const Batch& batch, const Group& group,
                            std::span<const uint64_t> ids) const;

  const std::vector<size_t> columns_;
  std::vector<VariableSpec> variables_;
  std::vector<Group> groups_;
  std::vector<int64_t> rows_max_;  // indexed by variable
};

}  // namespace paracord
