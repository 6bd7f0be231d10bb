// Predicts, before any daemon runs, what the rows of a batch cost each ps, with the arithmetic by
// which a ps refuses a request that is too large. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/job.h"
#include "program/gradient_program.h"
#include "proto/paracord.pb.h"
#include "store/optimizer.h"

namespace paracord {

// How many rows of one table a batch reads, and the bytes of these rows on the wire: over all ps,
// and on the ps that has the most of them.
struct TableNeed {
  std::string name;
  uint64_t ids = 0, bytes = 0;
  uint64_t ps_ids = 0, ps_bytes = 0;
};

// The memory of one ps, and the cost of exchanging a batch with it.
struct PsNeed {
  // Bytes of values and slots; of one push of all partitions; and of the sums of rounds and the
  // values before them. `round_rows`: the sums also have rows of tables, which `rounds` does not
  // count.
  uint64_t variables = 0, pushed = 0;
  uint64_t rounds = 0;
  bool round_rows = false;
  // `variables` and `pushed` of the partitions whose second copy this ps keeps in asynchronous
  // training. A ps without room for copies does not refuse them: the job then runs without copies.
  uint64_t copy_variables = 0, copy_pushed = 0;
  // Bytes of the request's header, and pieces in the request.
  uint64_t header_bytes = 0, pieces = 0;
  uint64_t request_bytes = 0, ids = 0;  // the whole request, and the ids in it
  uint64_t row_bytes = 0;               // bytes of the rows in the reply
  absl::Status limit;  // why the ps cannot decode the request, such as too long a header
  // Returns the bytes that a ps holds to answer the request: the request, and its ids once more.
  uint64_t answering_bytes() const { return request_bytes + ids * sizeof(uint64_t); }
};

// The processes that hold a job's variables.
struct Holders {
  uint32_t count = 1;
  bool nodes = false;  // the holders are workers; half of --memory-limit is for their variables
  bool one = false;    // the strategy allows one worker, so more workers alone do not help

  const char* name() const { return nodes ? "worker" : "ps"; }
};

struct BatchNeeds {
  Holders holders = {};
  bool at_most = false;  // the counts of rows are upper limits
  std::vector<TableNeed> tables;
  std::vector<PsNeed> ps;
};

// Returns the partitions of a job and the ps of each, also the second ps in `copies` if the job has
// copies. Places them like a coordinator that does not know which ps share a host. An error says
// why the variables cannot be partitioned or placed.
absl::StatusOr<std::vector<PartitionSpec>> PlacedPartitions(const Job& job,
                                                            std::span<const VariableSpec> variables,
                                                            const Holders& holders);

// Measures the memory of each ps, and the exchange that pushes a batch with these rows and pulls
// the same rows for the next batch. With null `rows` no exchange is measured. An error says why the
// variables cannot be partitioned or placed.
absl::StatusOr<BatchNeeds> MeasureBatch(const Job& job, std::span<const VariableSpec> variables,
                                        const Optimizer& optimizer, const Holders& holders,
                                        const TableRows* rows);

// Returns ids for MeasureBatch: `rows[v]` rows of each table v, spread over the whole table.
TableRows MostRows(std::span<const VariableSpec> variables, std::span<const uint64_t> rows);

// INVALID_ARGUMENT names the first holder that cannot take the batch if each process has this
// --memory-limit, and the limit that the batch exceeds.
absl::Status CheckNeeds(const BatchNeeds& needs, uint64_t memory_limit);

// Returns a --memory-limit that is enough for each holder to take any batch and to keep its copies.
// The rows that growing tables get are not counted.
uint64_t EnoughMemory(const BatchNeeds& needs);

// Returns lines for people: one for each table, and one that compares the needs of a ps with each
// limit. Without a `memory_limit` a last line names one that is enough. No lines if `needs` has no
// tables.
std::vector<std::string> NeedLines(const BatchNeeds& needs, std::optional<uint64_t> memory_limit);

}  // namespace paracord
