// A worker's copy of the parameters, with the version of each partition. Request builds the message
// of an exchange to a ps and says where the reply's values belong; TakeReply takes the reply over.
// Belongs to a session, because versions count updates in a single life of each ps. Used on the
// loop; the executor reads the values while no exchange may write values. No I/O.
//
// Of tables, the copy has only the rows that the last exchange brought, in the order of the ids.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/rpc.h"
#include "exchange/codec.h"
#include "exchange/reply_sink.h"
#include "proto/paracord.pb.h"
#include "worker/gradient_buffers.h"
#include "worker/parameter_session.h"
#include "worker/partition_layout.h"

namespace paracord {

// The memory of the values. A device copies shared memory by itself (keras/device_copy.h); ordinary
// memory may have large pages. In both, each array begins at a cache line, where a PJRT plug-in for
// the processor reads arrays in place.
enum class ValuesIn { kOrdinary, kShared };

// The gradients of a push that were sent before the exchange.
struct StagedGradients {
  std::string id;
  std::vector<bool> variables;
  std::vector<uint32_t> calls;  // index: ps
};

// An exchange with one ps, ready to be sent.
struct OutgoingExchange {
  Parts parts;
  uint64_t reply_bytes_max = 0;
  // Returns where float32 values of the reply are to be received; nullptr for values that need
  // decoding or that the request does not ask for. Used on any thread while the copy exists.
  PiecePlaceFn place;
};

class ParameterCopy {
 public:
  // `devices`: the number of batches that are computed side by side. Each has a buffer for its
  // gradients; there are at least two buffers, so that a batch can be computed during an exchange.
  ParameterCopy(const Session& session, std::span<const VariableSpec> variables,
                const TransferOptions& transfer = {}, ValuesIn memory = ValuesIn::kOrdinary,
                size_t devices = 1);
  ParameterCopy(const ParameterCopy&) = delete;

  const PartitionLayout& layout() const { return layout_; }
  GradientBuffers& gradients() { return gradients_; }
  bool has_tables() const { return has_tables_; }
  std::span<const std::span<const float>> values() const { return value_spans_; }
  // Returns the rows of tables in values(); null: no rows.
  const std::shared_ptr<PulledRows>& pulled() const { return pulled_; }
  // Expect returns memory for an exchange that brings the rows of these batches; null: the model
  // has no tables. TakeRows makes the rows part of values().
  std::shared_ptr<PulledRows> Expect(const std::vector<SharedRows>& batches);
  void TakeRows(std::shared_ptr<PulledRows> incoming);
  // A batch is about to read the values; the buffer will have its gradients.
  void BeginBatch(uint32_t buffer);

  // Builds the request to a ps, whose gradients share the memory of their buffer. `staged`: what
  // was sent of the push before, which the request leaves out; nullptr: nothing was.
  OutgoingExchange Request(uint32_t ps, const std::string& worker, const ExchangeOrder& order,
                           const StagedGradients* staged = nullptr);
  // Returns the message that stages the gradients of these variables, encoded, for the push `id`;
  // empty if the ps holds nothing of them.
  Parts StageRequest(uint32_t ps, const std::string& worker, const std::string& id, uint32_t buffer,
                     std::span<const size_t> variables) const;
  // Takes over the values and versions of a reply. UNAVAILABLE: the reply was not `valid`
  // (Link::replies_valid) any more after reading, and is lost. After any other error, which names
  // the fault of the reply, the copy is no longer whole and the session has to end. `repeated`: the
  // request was sent before, so "already applied" may speak of this worker's own push.
  absl::StatusOr<ExchangeOutcome> TakeReply(
      uint32_t ps, const ExchangeOrder& order, bool repeated, const absl::Cord& reply,
      const std::function<bool()>& valid = [] { return true; });
  // Nobody knows whether a ps has applied the last push.
  void ForgetResiduals(uint32_t ps);
  // A reply of a ps was lost after some of its values may have been written.
  void ForgetValues(uint32_t ps);

 private:
  // The version of a partition's values.
  struct Version {
    std::optional<Encoding> encoding;  // in which the values came; none: there are no values
    uint64_t updates = 0;
    std::vector<uint64_t> read_updates;  // index: buffer; the version its batch has read
  };

  ExchangeRequest Header(uint32_t ps, const std::string& worker) const;
  void FillPull(const PartitionReplica& replica, const ExchangeOrder& order, PartitionPull& pull,
                std::vector<PieceView>& pieces) const;
  Encoding PullEncoding(const PartitionReplica& replica, bool exact) const;
  std::span<float> Pulled(const PartitionReplica& replica, PulledRows* incoming);
  uint64_t PulledBytes(const PartitionReplica& replica, const ExchangeOrder& order);
  PiecePlaceFn PlacesOf(uint32_t ps, const ExchangeOrder& order);
  uint64_t ReplyBytesMax(uint32_t ps, const ExchangeOrder& order);
  // Takes over the values, but no versions.
  absl::StatusOr<ExchangeReply> TakeValues(uint32_t ps, const ExchangeOrder& order,
                                           const absl::Cord& reply);
  void TakePush(const PartitionReplica& replica, const ExchangeOrder& order, bool repeated,
                const PartitionState& state, ExchangeOutcome& outcome);
  absl::Status CheckWaits(uint32_t ps, const ExchangeOrder& order, const DecodedReply& reply) const;

  const Session session_;
  const std::vector<VariableSpec> variables_;
  const TransferOptions transfer_;
  const PartitionLayout layout_;
  GradientBuffers gradients_;
  std::vector<Version> versions_;  // index: PartitionReplica::index
  std::pmr::memory_resource* const resource_;
  bool has_tables_ = false;
  std::vector<std::pmr::vector<float>> values_;  // index: variable; empty for tables
  std::shared_ptr<PulledRows> pulled_, spare_;
  std::vector<std::span<const float>> value_spans_;
};

}  // namespace paracord
