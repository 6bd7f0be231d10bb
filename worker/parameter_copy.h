// A worker's copy of the parameters and the gradients of a batch, and how they travel: what each ps
// is sent and what its answer changes. Belongs to one session, since versions are of one life of
// each ps. Used on the loop; the arrays are read and written by the executor while no exchange that
// uses them is under way. No I/O.
//
// Of tables it has the rows alone that steps need: those of the last exchange, whose values lie one
// after another by their ids, and gradients of the rows that the step reads. They travel in the
// wire's dense encoding, whatever the compression is.
//
// With compression, what is not sent of a gradient is kept here, for each partition (its residual),
// and goes with the next one. What was sent is taken out of it only when the ps says that it was
// applied; if nobody knows whether it was, the residual is forgotten: nothing is ever sent twice.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/rpc.h"
#include "common/shared_memory.h"
#include "config/job.h"
#include "exchange/codec.h"
#include "proto/paracord.pb.h"
#include "worker/parameter_session.h"

namespace paracord {

// How values travel, as the job says.
struct TransferOptions {
  Encoding wire = ENCODING_FLOAT32;
  CompressionSpec compression;
  // Encoding needs the outcome of the exchange before.
  bool keeps_residuals() const { return compression.kind != CompressionSpec::Kind::kNone; }
};

// Whose memory the values are in: a device copies by itself what is shared (keras/
// device_copy.h); the processor may have the rest in large pages. In either, each array begins at a
// cache line, where a PJRT plug-in for the processor reads it in place.
enum class ValuesIn { kOrdinary, kShared };

// The gradients that were sent of a push before its exchange.
struct StagedGradients {
  std::string id;
  std::vector<bool> variables;
  std::vector<uint32_t> calls;  // by ps
};

class ParameterCopy {
 public:
  // `devices`: how many batches are computed side by side. There are buffers for their gradients,
  // and for those of two where one batch is computed while the other one is sent.
  ParameterCopy(const Session& session, std::span<const VariableSpec> variables,
                const TransferOptions& transfer = {}, ValuesIn memory = ValuesIn::kOrdinary,
                size_t devices = 1);

  bool has_tables() const { return has_tables_; }
  // Whether exchanges go to that ps. One that holds nothing may be dead, or hold what the session
  // does not name, where partitions have further holders or the session knows no life of it.
  bool TakesPart(uint32_t ps) const {
    const bool known = !session_.ps(static_cast<int>(ps)).boot_id().empty();
    return !parts_[ps].empty() || (known && !has_copies_);
  }
  std::span<const std::span<const float>> values() const { return value_spans_; }
  // The rows of tables that the values have; null: none.
  const std::shared_ptr<PulledRows>& pulled() const { return pulled_; }
  // Expect returns what an exchange fills that wants the rows of these batches, or null if there
  // are no tables; TakeRows makes its rows those of the values.
  std::shared_ptr<PulledRows> Expect(const std::vector<SharedRows>& batches);
  void TakeRows(std::shared_ptr<PulledRows> incoming);
  // The values are about to be read for this buffer's gradients.
  void BeginBatch(uint32_t buffer);
  std::span<const std::span<float>> gradients(uint32_t buffer) const {
    return buffers_[buffer].spans;
  }
  bool GradientFinite(uint32_t buffer, size_t variable) const;
  // Makes of a variable's gradient what is sent; false: that is not finite.
  bool Encode(uint32_t buffer, size_t variable);
  // Gradients that a call may still be sending must not be overwritten: there have to be new ones.
  void GiveUpGradients(uint32_t buffer) { buffers_[buffer].usable = false; }
  // Makes them, which takes long where there are many, if there are none or they were given up. On
  // the executor, before they are computed. `rows`: of tables, that the step reads.
  void PrepareGradients(uint32_t buffer, SharedRows rows = nullptr);

  // Without what is staged there; nullptr: all.
  Parts Request(uint32_t ps, const std::string& worker, const ExchangeOrder& order,
                const StagedGradients* staged = nullptr) const;
  // Bytes that stage these variables, encoded, of the push `id`; none if the ps has nothing of
  // them.
  Parts StageRequest(uint32_t ps, const std::string& worker, const std::string& id, uint32_t buffer,
                     std::span<const size_t> variables) const;
  // Where bytes of its reply belong; nullptr where they are encoded, or not of the copy. Any
  // thread.
  char* PlaceOf(uint32_t ps, const ExchangeOrder& order, uint32_t partition, uint64_t offset,
                uint64_t bytes);
  uint64_t ReplyBytesMax(uint32_t ps, const ExchangeOrder& order) const;
  // Takes over the values and versions that came back. UNAVAILABLE: the reply was no longer `valid`
  // (Link::replies_valid) after it had been read, and is lost. Another error says what is wrong
  // with it; the copy is then no longer whole and the session has to end. `repeated`: it was sent
  // before, so what it says was applied already may be its own.
  absl::StatusOr<ExchangeOutcome> TakeReply(
      uint32_t ps, const ExchangeOrder& order, bool repeated, const absl::Cord& reply,
      const std::function<bool()>& valid = [] { return true; });
  // The variable of a partition that a reply which was taken over speaks of.
  uint32_t VariableOf(uint32_t ps, const PartitionState& state) {
    return FindPart(ps, state.partition())->variable;
  }
  // Nobody knows what that ps made of the last push.
  void ForgetResiduals(uint32_t ps);
  // A reply of that ps was lost, and part of it may be in place.
  void ForgetValues(uint32_t ps);

 private:
  using Floats = std::vector<float, SharedAllocator<float>>;
  using Bytes = std::vector<char, SharedAllocator<char>>;

  struct Part {
    uint32_t id = 0;
    uint32_t variable = 0;
    uint64_t row_begin = 0, row_end = 0;
    uint64_t row = 0;  // its elements
    bool table = false;
    bool trained = false;
    // This ps is a further holder (PartitionSpec.copies): it is sent what the first holder is sent,
    // and is asked for its state, while the values come from the first.
    bool state_only = false;
    Encoding push = ENCODING_FLOAT32;
    Encoding pull = ENCODING_FLOAT32;
    size_t place = 0;                    // in Sent::parts
    std::optional<Encoding> have;        // in which our copy came; none: no copy
    uint64_t updates = 0;                // its version
    std::vector<uint64_t> read_updates;  // by buffer
    std::vector<float> residual;         // empty: zero
    std::vector<float> rest;             // the residual once this push is applied
  };
  // The memory that calls under way point to.
  struct Sent {
    std::vector<Floats> gradients;  // by variable
    std::vector<Bytes> parts;       // encoded, by place; empty where the floats are sent
  };
  struct Buffer {
    std::shared_ptr<Sent> sent;
    std::vector<std::span<float>> spans;
    SharedRows rows;  // of tables
    bool usable = false;
  };
  // Elements of a variable's array.
  struct Range {
    uint64_t first = 0, elements = 0;
  };

  Part MakePart(const PartitionSpec& partition);
  void AddCopies(const PartitionSpec& partition);
  void AddPart(uint32_t ps, const Part& part);
  ExchangeRequest Header(uint32_t ps, const std::string& worker) const;
  static std::span<const uint64_t> IdsOf(const Part& part, const TableRows* rows);
  static Range RangeOf(const Part& part, const TableRows* rows);
  static Range PulledRange(const Part& part, const ExchangeOrder& order);
  std::span<float> PulledArray(const Part& part, const ExchangeOrder& order);
  PieceView PieceOf(const Part& part, uint32_t buffer) const;
  PartitionPush PushOf(const Part& part, const ExchangeOrder& order) const;
  void NamePushed(const Part& part, uint32_t buffer, RowSet& rows,
                  std::vector<PieceView>& pieces) const;
  uint64_t PushBytes(const Part& part, uint64_t elements) const;
  bool EncodePart(Part& part, Sent& sent, uint64_t start, uint64_t first, uint64_t count) const;
  Part* FindPart(uint32_t ps, uint32_t id);
  // The values, and nothing else of the copy.
  absl::StatusOr<ExchangeReply> TakeValues(uint32_t ps, const ExchangeOrder& order,
                                           const absl::Cord& reply);
  absl::Status CheckWaits(uint32_t ps, const ExchangeOrder& order, const DecodedReply& reply);
  static Encoding PullOf(const Part& part, const ExchangeOrder& order);

  const Session session_;
  const std::vector<VariableSpec> variables_;
  const TransferOptions transfer_;
  std::vector<std::vector<Part>> parts_;                           // by ps
  std::vector<absl::flat_hash_map<uint32_t, size_t>> part_of_id_;  // by ps: its index in parts_
  std::vector<std::vector<Part*>> parts_of_;                       // by variable, of first holders
  size_t places_ = 0;
  std::pmr::memory_resource* const resource_;
  bool has_tables_ = false;
  bool has_copies_ = false;                      // some partition has a further holder
  std::vector<std::pmr::vector<float>> values_;  // by variable; empty for tables
  std::shared_ptr<PulledRows> pulled_, spare_;
  std::vector<std::span<const float>> value_spans_;
  std::vector<Buffer> buffers_;
};

}  // namespace paracord
