// All that a trainer knows of who keeps the parameters: it begins a step, whose values it computes
// with and whose gradients it fills in, and exchanges the step for newer values. One session has at
// most one exchange under way and one step that is computed. Used on the loop, but for StepArrays.
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

// The arrays that a batch is computed with, and that its gradients go to. Used on the executor,
// while the trainer has begun the step and not ended it.
class StepArrays {
 public:
  virtual ~StepArrays() = default;
  // Makes the memory of the gradients, which takes long where there is much of it.
  virtual void Prepare() = 0;
  virtual ConstTensors values() const = 0;
  virtual MutableTensors gradients() const = 0;
  virtual bool GradientFinite(size_t variable) const = 0;
  // Makes of a variable's gradient what is sent; false if that is not finite.
  virtual bool Encode(size_t variable) = 0;
  // True if gradients may leave while others are still computed: Add says that a variable's is
  // complete. It returns false if that gradient is not finite, and nothing more is to be added.
  virtual bool wants_early() const { return false; }
  virtual bool Add(size_t /*variable*/) { return true; }
  virtual bool added(size_t /*variable*/) const { return false; }
  // From now on the gradients of tables are of these rows, which more batches than the step's have.
  virtual void UseRows(std::shared_ptr<const TableRows> /*rows*/) {}
};

// An order says what an exchange is for.
struct ExchangeOrder {
  std::optional<BatchId> batch;  // of a push; none: a pull alone
  uint32_t lanes = 1;            // from the batch's on, whose gradients the push is the sum of
  bool rejected = false;
  std::string rejection = {};  // of a rejected batch, as its lease has it
  std::string proof = {};      // of the batch's lease; of a run, those of all lanes
  // A batch of a lease that the worker has, and the proof of that lease, by which it may carry
  // norms.
  BatchId leased = {};
  std::string lease_proof = {};
  bool exact = false;  // the values as float32 whatever the wire is, for an evaluation
  // The batches whose rows of tables are brought; no other rows are.
  std::vector<SharedRows> rows = {};
  // The state that the values must have (ExchangeRequest.state); nullopt: as they are now.
  std::optional<uint64_t> state = {};
  uint32_t wait_ms = 0;  // how long an answer may wait for that; 0: as long as the session likes

  // Set by the session.
  uint32_t buffer = 0;  // whose gradients are sent
  std::optional<RoundNorms> norms = {};
  std::shared_ptr<PulledRows> incoming = {};
};

// What a ps tells of a partition of a variable in a round whose norms are wanted.
struct ToldSquares {
  uint32_t variable = 0;
  PartitionState state;
};

struct ExchangeOutcome {
  uint32_t next = 0;  // least over the partitions; UINT32_MAX where there are none
  // By at least one partition, or taken into the sum of a round.
  bool applied = false;
  bool gap = false;        // for at least one
  bool partly = false;     // at least one has some lanes of a run, but not all, and took none
  uint64_t staleness = 0;  // most updates since the values were read, before this one
  // The values of a ps at least have not the state that was asked for: they are not there. A push
  // has been entered all the same.
  bool waits = false;
  std::vector<uint32_t> missing = {};  // then: lanes that are behind, ascending
  // Then: a round waits for norms, which this worker knows now and has not carried to ps yet. The
  // next exchange does.
  bool carries_norms = false;
  bool norms_wanted = false;  // by a ps
  std::vector<ToldSquares> told = {};
};

// Values, and what keeps them in memory though the session may end.
struct HeldValues {
  ConstTensors tensors;
  std::shared_ptr<const void> keep;
};

struct ExchangeResult {
  // OK, INVALID_ARGUMENT if the push was refused whole, or why some values are not there.
  absl::Status error;
  ExchangeOutcome outcome;
};

class ParameterSession {
 public:
  using DoneFn = std::function<void(const ExchangeResult&)>;
  virtual ~ParameterSession() = default;

  // Makes the memory of the values on the executor, and then calls `done` on the loop.
  virtual void Open(std::function<void()> done) = 0;

  // Whether the values have these rows of tables as the last exchange brought them. Null: the model
  // has no tables.
  virtual bool Has(const SharedRows& rows) const = 0;
  // Begins a step of a batch that reads these rows of tables, which must be there: until End, the
  // values are not written. Of several steps that are computed side by side each has a `place`,
  // from 0 on, and arrays that are its own until it is exchanged, or another step has the place.
  virtual std::shared_ptr<StepArrays> Begin(const SharedRows& rows, uint32_t place) = 0;
  virtual void End() = 0;
  // The step will not be exchanged.
  virtual void GiveUp(const StepArrays& step) = 0;

  // Sends the step's gradients if `order` is a push that is not rejected, and brings newer values.
  // Calls `done` on the loop, but not between Begin and End.
  virtual void Exchange(ExchangeOrder order, const std::shared_ptr<StepArrays>& step,
                        DoneFn done) = 0;

  // The values as they are, for an evaluation; of tables, the rows that the last exchange brought.
  // No exchange may be under way while they are read.
  virtual HeldValues values() const = 0;
  // Whom the exchange under way waits for, if that takes long; else "".
  virtual std::string WaitsFor() const = 0;
};

}  // namespace paracord
