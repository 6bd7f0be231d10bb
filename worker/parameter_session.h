// The trainer's view of the parameters, wherever the parameters are kept. A session begins a step,
// which has the values to compute with and takes the gradients, and exchanges the step for newer
// values. At most one exchange and one computation are under way. Used on the loop, except
// StepArrays.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "program/gradient_program.h"
#include "proto/paracord.pb.h"
#include "worker/table_rows.h"

namespace paracord {

// The arrays of values that a batch is computed with, and of its gradients. Used on the executor,
// after the trainer has begun the step and before it ends the step.
class StepArrays {
 public:
  virtual ~StepArrays() = default;
  // Makes the memory of the gradients, which takes long for large models.
  virtual void Prepare() = 0;
  virtual ConstTensors values() const = 0;
  virtual MutableTensors gradients() const = 0;
  virtual bool GradientFinite(size_t variable) const = 0;
  // Encodes a variable's gradient for the push; false: the gradient is not finite in the encoding.
  virtual bool Encode(size_t variable) = 0;
  // Whether gradients may leave while the rest is computed. The caller then calls Add for each
  // complete gradient. Add returns false if the gradient is not finite, and nothing more is to be
  // added.
  virtual bool wants_early() const { return false; }
  virtual bool Add(size_t /*variable*/) { return true; }
  virtual bool added(size_t /*variable*/) const { return false; }
  // Gives the gradients of tables these rows, which cover more batches than the step's batch.
  virtual void UseRows(std::shared_ptr<const TableRows> /*rows*/) {}
};

// What an exchange is for.
struct ExchangeOrder {
  std::optional<BatchId> batch;  // the batch to push; none: a pull alone
  uint32_t lanes = 1;            // lanes from `batch` on whose gradients the push sums
  bool rejected = false;
  std::string rejection = {};  // the lease's proof that `batch` is rejected
  std::string proof = {};      // the lease's proof; for a run, the proofs of all lanes
  // A batch of a lease at hand and the lease's proof, with which the worker may carry norms.
  BatchId leased = {};
  std::string lease_proof = {};
  bool exact = false;  // pulls float32 values, for an evaluation, whatever the wire is
  // The batches whose rows of tables the exchange brings.
  std::vector<SharedRows> rows = {};
  // The state that the values must have (ExchangeRequest.state); nullopt: any state.
  std::optional<uint64_t> state = {};
  uint32_t wait_ms = 0;  // how long the ps may hold back an answer; 0: as the session likes

  // Set by the session.
  uint32_t buffer = 0;  // the buffer with the gradients to send
  std::optional<RoundNorms> norms = {};
  std::shared_ptr<PulledRows> incoming = {};
};

// The sum of squares of a partition's mean gradient in a round, as a ps tells for norms.
struct ToldSquares {
  uint32_t variable = 0;
  PartitionState state;
};

struct ExchangeOutcome {
  uint32_t next = 0;  // least over the partitions; UINT32_MAX without partitions
  // At least one partition has applied the push or taken it into the sum of a round.
  bool applied = false;
  bool gap = false;        // at least one partition lacks an earlier batch
  bool partly = false;     // a partition has some lanes of a run, not all, and took none
  uint64_t staleness = 0;  // most updates of a partition between pull and push
  // At least one ps does not have the wanted state yet, so the exchange brought no values. The push
  // has been entered nevertheless.
  bool waits = false;
  std::vector<uint32_t> missing = {};  // with `waits`: lanes that are behind, ascending
  // With `waits`: this worker's next exchange will carry norms for which a round waits.
  bool carries_norms = false;
  bool norms_wanted = false;  // a ps waits for norms
  std::vector<ToldSquares> told = {};
};

// Values, and the owner that keeps the values in memory when the session ends.
struct HeldValues {
  ConstTensors tensors;
  std::shared_ptr<const void> keep;
};

struct ExchangeResult {
  // OK; INVALID_ARGUMENT: the push was refused whole; otherwise why values are missing.
  absl::Status error;
  ExchangeOutcome outcome;
};

class ParameterSession {
 public:
  using DoneFn = std::function<void(const ExchangeResult&)>;
  virtual ~ParameterSession() = default;

  // Makes the memory of the values on the executor, then calls `done` on the loop.
  virtual void Open(std::function<void()> done) = 0;

  // Whether the last exchange brought these rows of tables. `rows` is null for a model without
  // tables.
  virtual bool Has(const SharedRows& rows) const = 0;
  // Begins a step of a batch that reads these rows of tables, which must be at hand. Until End, the
  // values are not written. Steps that are computed side by side have different places, from 0 on.
  // A step owns the arrays of its place until the step is exchanged or a new step takes the place.
  virtual std::shared_ptr<StepArrays> Begin(const SharedRows& rows, uint32_t place) = 0;
  virtual void End() = 0;
  // Ends a step without an exchange.
  virtual void GiveUp(const StepArrays& step) = 0;

  // Sends the step's gradients, if `order` is a push that is not rejected, and brings newer values.
  // Calls `done` on the loop, but not between Begin and End.
  virtual void Exchange(ExchangeOrder order, const std::shared_ptr<StepArrays>& step,
                        DoneFn done) = 0;

  // Returns the current values for an evaluation: of tables, the rows from the last exchange. No
  // exchange may be under way while the values are read.
  virtual HeldValues values() const = 0;
  // Names the ps that an exchange has long waited for; "" if no exchange waits long.
  virtual std::string WaitsFor() const = 0;
};

}  // namespace paracord
