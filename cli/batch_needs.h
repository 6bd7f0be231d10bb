// Predicts, before any daemon runs, what the rows of tables that a batch reads cost each ps. Uses
// the arithmetic by which a ps refuses a request that is too large. Pure.
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

// How many rows of one table a batch reads (one for each id), and the bytes of these rows on the
// wire: `ids` and `bytes` on all ps, `ps_ids` and `ps_bytes` on the ps with the most rows.
struct TableNeed {
  std::string name;
  uint64_t ids = 0, bytes = 0;
  uint64_t ps_ids = 0, ps_bytes = 0;
};

// The memory of one ps, and the cost of exchanging a batch with it.
struct PsNeed {
  // `variables`: bytes of values and slots. `pushed`: bytes of a push of all partitions. `rounds`:
  // in a synchronous job, the most bytes of sums of gradients and of values before the newest
  // round. `round_rows`: there are also sums of rows of tables, which `rounds` lacks.
  uint64_t variables = 0, pushed = 0;
  uint64_t rounds = 0;
  bool round_rows = false;
  // `variables` and `pushed` of the partitions whose second copy is on this ps in asynchronous
  // training. If the ps has no room for copies, the job runs without copies.
  uint64_t copy_variables = 0, copy_pushed = 0;
  // The request that exchanges a batch: bytes of its header, its number of pieces, the bytes of the
  // whole request, and the number of ids in the request.
  uint64_t header_bytes = 0, pieces = 0;
  uint64_t request_bytes = 0, ids = 0;
  uint64_t row_bytes = 0;  // bytes of the rows in the reply
  // Why the ps could not decode the request, such as too long a header; OK if the ps could.
  absl::Status limit;
  // Returns the bytes that a ps holds to answer the request: the request, and a second copy of its
  // ids.
  uint64_t answering_bytes() const { return request_bytes + ids * sizeof(uint64_t); }
};

// The processes that hold a job's variables.
struct Holders {
  uint32_t count = 1;
  bool nodes = false;  // the holders are workers, with half of --memory-limit for variables
  bool one = false;    // the strategy allows a single worker

  const char* name() const { return nodes ? "worker" : "ps"; }
};

struct BatchNeeds {
  Holders holders = {};
  bool at_most = false;  // the numbers of rows are upper limits
  std::vector<TableNeed> tables;
  std::vector<PsNeed> ps;
};

// Returns the partitions of a job, each with its ps and, if the job has copies and the holders are
// at least two ps, with its second ps in `copies`. Places them like a coordinator that does not
// know which ps share a host. An error says why the variables cannot be partitioned or placed.
absl::StatusOr<std::vector<PartitionSpec>> PlacedPartitions(const Job& job,
                                                            std::span<const VariableSpec> variables,
                                                            const Holders& holders);

// Measures the memory of each ps, and the request that pushes the gradients of a batch that read
// `rows`, and pulls the same rows for the next batch. With null `rows` no request is measured. An
// error says why the variables cannot be partitioned or placed.
absl::StatusOr<BatchNeeds> MeasureBatch(const Job& job, std::span<const VariableSpec> variables,
                                        const Optimizer& optimizer, const Holders& holders,
                                        const TableRows* rows);

// Returns a `rows` argument for MeasureBatch: for each table v `rows[v]` ids, spread over the
// table.
TableRows MostRows(std::span<const VariableSpec> variables, std::span<const uint64_t> rows);

// INVALID_ARGUMENT names the first holder that cannot hold its variables or take the batch with
// this --memory-limit, and the limit that is exceeded. Does not count copies in asynchronous
// training.
absl::Status CheckNeeds(const BatchNeeds& needs, uint64_t memory_limit);

// Returns a --memory-limit that is enough for each holder to take a batch like the measured one and
// to keep its copies. The rows that growing tables get during training are not counted.
uint64_t EnoughMemory(const BatchNeeds& needs);

// Returns lines for people: one for each table, and one with the most that a batch needs of a ps,
// beside the limits. Without a `memory_limit` a last line names a --memory-limit that is enough.
// Returns no lines if `needs` has no tables.
std::vector<std::string> NeedLines(const BatchNeeds& needs, std::optional<uint64_t> memory_limit);

}  // namespace paracord
