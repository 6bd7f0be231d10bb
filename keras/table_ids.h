// Finds the distinct table rows that a batch reads, and replaces ids by indices of these rows,
// which the graph gets as its inputs. Owned by the program, used by its thread.
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
  // Indexed by input of the graph: a number for each id; empty for an input that no table reads.
  // The number is the index of the id's row in TableRows::ids. Layers cut off its fraction: index 0
  // is written as 1/2 unless its row is that of the id 0, so that the id 0, which masks hide, has
  // the number 0 alone. -1 stands for an id without a row, which no layer uses because its weight
  // is 0 or a mask hides it.
  std::vector<std::vector<float>> numbers;
};

class TableIds {
 public:
  // `columns` has for each input of the graph the index of its column in Batch::inputs. `batch` is
  // the number of examples of the largest training batch.
  TableIds(const Graph& graph, std::vector<size_t> columns, int64_t batch);

  bool any() const { return !groups_.empty(); }
  // The most rows of the variable that a training batch can read; 0 if the variable is no table.
  int64_t rows_max(size_t variable) const { return rows_max_[variable]; }

  absl::StatusOr<std::shared_ptr<const NumberedRows>> RowsOf(const Batch& batch) const;
  // Whether the input has ids of a growing table.
  bool growing(size_t input) const;
  // Returns placeholder rows, to plan memory: for each table as many as a training batch can read
  // at most, and for each id of `batch` the number 0.
  std::shared_ptr<const NumberedRows> Widest(const Batch& batch) const;

 private:
  // A call of a layer that reads a table of the group (Graph::IdReader).
  struct Reader {
    size_t input = 0;
    std::optional<size_t> weights = {};  // index in Batch::inputs
    bool hides_zero = false;
  };
  // The tables whose ids are in the same inputs of the graph.
  struct Group {
    std::vector<size_t> inputs;
    std::vector<size_t> variables;
    size_t smallest = 0;  // fixed tables: the variable with the fewest rows
    int64_t rows = 0;     // the rows of `smallest`
    uint64_t shards = 0;  // number of shards, if the tables grow; 0: fixed tables
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
