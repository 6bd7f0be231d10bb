// Predicts, before any daemon runs, what the rows of a batch cost each ps, with the sums by which a
// ps refuses a request that is too large. Pure.
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

// For one table: how many rows a batch reads, and their bytes as they travel, over all ps and on
// the ps with the most.
struct TableNeed {
  std::string name;
  uint64_t ids = 0, bytes = 0;
  uint64_t ps_ids = 0, ps_bytes = 0;
};

// The contents of one ps, and the cost of exchanging a batch with it.
struct PsNeed {
  // Bytes of variables and of pushed gradients, and the needs of rounds (NeedOf in store/loader.h).
  uint64_t variables = 0, pushed = 0;
  uint64_t rounds = 0;
  bool round_rows = false;
  // Bytes of the partitions that this ps prepares as their second holder, in asynchronous training.
  // A ps without room for copies does not refuse them: the job then runs without copies.
  uint64_t copy_variables = 0, copy_pushed = 0;
  uint64_t header_bytes = 0, pieces = 0;  // bytes and pieces of the request
  uint64_t request_bytes = 0, ids = 0;    // the whole request, and the ids in it
  uint64_t row_bytes = 0;                 // rows in the reply
  absl::Status limit;                     // why a limit on the form of requests refuses this one
  uint64_t answering_bytes() const { return request_bytes + ids * sizeof(uint64_t); }
};

// The processes that hold a job's variables.
struct Holders {
  uint32_t count = 1;
  bool nodes = false;  // workers, whose ps get a part of --memory-limit (config/nodes.h)
  bool one = false;    // the strategy is for one worker, so that more workers are no way out

  const char* name() const { return nodes ? "worker" : "ps"; }
};

struct BatchNeeds {
  Holders holders = {};
  bool at_most = false;  // a batch may read fewer rows
  std::vector<TableNeed> tables;
  std::vector<PsNeed> ps;
};

// Returns the partitions of a job with their ps, and with their second ps in `copies` if the job
// has copies: as a coordinator places them on ps whose hosts it cannot tell apart. An error says
// why the variables cannot be partitioned or placed.
absl::StatusOr<std::vector<PartitionSpec>> PlacedPartitions(const Job& job,
                                                            std::span<const VariableSpec> variables,
                                                            const Holders& holders);

// Measures the exchange that pushes a batch with these rows and pulls the same rows for the next
// batch. Without `rows` nothing is pushed, and each ps only holds its variables. An error says why
// the variables cannot be partitioned or placed.
absl::StatusOr<BatchNeeds> MeasureBatch(const Job& job, std::span<const VariableSpec> variables,
                                        const Optimizer& optimizer, const Holders& holders,
                                        const TableRows* rows);

// The most rows that a batch can have that reads `rows[v]` rows of each table v.
TableRows MostRows(std::span<const VariableSpec> variables, std::span<const uint64_t> rows);

// INVALID_ARGUMENT names the first holder that cannot take the batch with this --memory-limit a
// process, the limit, and the keys that help.
absl::Status CheckNeeds(const BatchNeeds& needs, uint64_t memory_limit);

// The least --memory-limit of a holder that takes each batch and has its copies, without the rows
// that growing tables get.
uint64_t EnoughMemory(const BatchNeeds& needs);

// A line for each table, and one that compares the needs of a ps with each limit. Without a
// `memory_limit` the last line names one that is enough. None without tables.
std::vector<std::string> NeedLines(const BatchNeeds& needs, std::optional<uint64_t> memory_limit);

}  // namespace paracord
