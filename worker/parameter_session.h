// The trainer's interface to the parameters. For each batch a ParameterSession begins a step, which
// has the arrays of the values to compute with and of the gradients; then it exchanges the
// gradients for newer values. At most one exchange and one computation (of a batch, or of lanes
// side by side) are under way. Used on the event loop, except StepArrays.
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

// The arrays of a step. Used on the executor. Values are read only between ParameterSession::Begin
// and End; gradients may be encoded after End, until they are exchanged.
class StepArrays {
 public:
  virtual ~StepArrays() = default;
  // Makes the arrays, which takes long for large models. Called before values() and gradients().
  virtual void Prepare() = 0;
  virtual ConstTensors values() const = 0;
  virtual MutableTensors gradients() const = 0;
  virtual bool GradientFinite(size_t variable) const = 0;
  // Encodes a variable's gradient for the push; false: the encoded gradient is not finite.
  virtual bool Encode(size_t variable) = 0;
  // Whether gradients may be sent while others are still computed. If so, the caller calls Add for
  // each variable whose gradient is complete, until Add returns false for one that is not finite.
  virtual bool wants_early() const { return false; }
  virtual bool Add(size_t /*variable*/) { return true; }
  virtual bool added(size_t /*variable*/) const { return false; }
  // Gives the gradients of tables room for these rows, which several batches read, for a sum.
  virtual void UseRows(std::shared_ptr<const TableRows> /*rows*/) {}
};

// What an exchange is for.
struct ExchangeOrder {
  std::optional<BatchId> batch;  // the batch to push; nullopt: the exchange is only a pull
  uint32_t lanes = 1;            // above 1: the sum of so many lanes, from `batch` on, is pushed
  bool rejected = false;         // `batch` is to be entered without gradients
  std::string rejection = {};    // the coordinator's proof that `batch` is rejected
  std::string proof = {};        // the proof of the lease, or of the leases of all `lanes`
  // A batch of a lease at hand, and Lease.proof, with which a ps takes norms (norms_carrier.h).
  BatchId leased = {};
  std::string lease_proof = {};
  bool exact = false;  // pulls values as float32, for an evaluation, whatever the job's `wire` is
  // The rows of tables that the exchange is to bring: for each of the next batches its rows.
  std::vector<SharedRows> rows = {};
  // The state that the values must have (ExchangeRequest.state); nullopt: any state.
  std::optional<uint64_t> state = {};
  // With `state`: the longest that a ps may hold back its answer until it has the state. The
  // ParameterSession may choose a shorter time; 0: the ParameterSession chooses.
  uint32_t wait_ms = 0;

  // The members below are set by the ParameterSession.
  uint32_t buffer = 0;  // the number of the buffer with the gradients to send
  std::optional<RoundNorms> norms = {};
  std::shared_ptr<PulledRows> incoming = {};
};

// The sum of squares that a ps has told of a partition's mean gradient (norms_carrier.h).
struct ToldSquares {
  uint32_t variable = 0;
  PartitionState state;  // has `squares`
};

struct ExchangeOutcome {
  uint32_t next = 0;  // the least PartitionState.next of all partitions; UINT32_MAX: no push
  // At least one partition has applied the push or taken it into the sum of a round.
  bool applied = false;
  bool gap = false;        // at least one partition lacks an earlier batch of the split
  bool partly = false;     // a partition had some of the pushed lanes, not all, and entered none
  uint64_t staleness = 0;  // the most updates by others that a partition had since the pull
  // At least one ps does not have the wanted state yet, so the exchange did not bring all values.
  // The push has been entered nevertheless.
  bool waits = false;
  std::vector<uint32_t> missing = {};  // with `waits`: lanes that the ps wait for, ascending
  // With `waits`: the next exchange will carry norms that this worker has not carried yet.
  bool carries_norms = false;
  bool norms_wanted = false;  // a ps waits for norms
  std::vector<ToldSquares> told = {};
};

// Values, and the owner of their memory; both may outlive the session.
struct HeldValues {
  ConstTensors tensors;
  std::shared_ptr<const void> keep;
};

struct ExchangeResult {
  // INVALID_ARGUMENT: a ps refused the whole push; any other error: why values are missing.
  absl::Status error;
  ExchangeOutcome outcome;
};

class ParameterSession {
 public:
  using DoneFn = std::function<void(const ExchangeResult&)>;
  virtual ~ParameterSession() = default;

  // Makes the memory of the values, on the executor; then calls `done` on the event loop.
  virtual void Open(std::function<void()> done) = 0;

  // Whether the last exchange brought these rows of tables. Always true for a model without tables,
  // for which `rows` is null.
  virtual bool Has(const SharedRows& rows) const = 0;
  // Begins a step for a batch that reads these rows of tables; Has(rows) must be true. Until End,
  // the values are not written. `place`: steps that are computed side by side have the numbers 0,
  // 1, ... A step's gradients stay until they are exchanged, or a step of an equal `place` begins.
  virtual std::shared_ptr<StepArrays> Begin(const SharedRows& rows, uint32_t place) = 0;
  virtual void End() = 0;
  // The gradients of a step will not be exchanged.
  virtual void GiveUp(const StepArrays& step) = 0;

  // Sends the step's gradients, if order.batch is set and not rejected, and brings newer values.
  // Otherwise `step` may be null. Calls `done` on the event loop, but not between Begin and End.
  virtual void Exchange(ExchangeOrder order, const std::shared_ptr<StepArrays>& step,
                        DoneFn done) = 0;

  // Returns the current values, for an evaluation; of a table, the rows that the last exchange
  // brought. No exchange may be under way while the values are read.
  virtual HeldValues values() const = 0;
  // Names, for people, the ps for which the exchange has waited long; "": none.
  virtual std::string WaitsFor() const = 0;
};

}  // namespace paracord
