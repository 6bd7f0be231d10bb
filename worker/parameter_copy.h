// A worker's copy of the parameters, with the version of each partition. Request builds the message
// of an exchange to a ps and says where the reply's values belong; TakeReply puts the values of the
// reply into the copy. Made anew for each session, because a version counts updates in a single
// life of a ps. Used on the event loop; the executor reads values while no exchange may write them,
// and uses gradients(). No I/O.
//
// Of a table, the copy has only the rows that the last exchange brought, in the order of the ids.
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

// The memory that values lie in. The pages of kShared memory can be locked, so that a GPU copies
// from them by itself (keras/device_copy.h); kOrdinary memory may have large pages. Each array
// begins at a cache line, so that a PJRT plug-in for the processor can read the array in place.
enum class ValuesIn { kOrdinary, kShared };

// The gradients of a push that were sent before the exchange.
struct StagedGradients {
  std::string id;               // a random name of the push; the exchange sends it, too
  std::vector<bool> variables;  // index: variable; true: its gradient was sent
  std::vector<uint32_t> calls;  // index: ps; how many calls had gradients
};

// The request of an exchange to one ps, and what is needed to receive the reply.
struct OutgoingExchange {
  Parts parts;
  uint64_t reply_bytes_max = 0;
  // Returns where values of the reply are to be received; nullptr for values that are not float32
  // or that the request does not ask for. May be called on any thread while the copy exists.
  PiecePlaceFn place;
};

class ParameterCopy {
 public:
  // `devices`: how many batches are computed side by side. The number of gradient buffers is
  // `devices`, but at least two, so that a batch can be computed during an exchange.
  ParameterCopy(const Session& session, std::span<const VariableSpec> variables,
                const TransferOptions& transfer = {}, ValuesIn memory = ValuesIn::kOrdinary,
                size_t devices = 1);
  ParameterCopy(const ParameterCopy&) = delete;

  const PartitionLayout& layout() const { return layout_; }
  GradientBuffers& gradients() { return gradients_; }
  bool has_tables() const { return has_tables_; }
  std::span<const std::span<const float>> values() const { return value_spans_; }
  // Returns the rows of tables that values() has; null: values() has no rows of tables.
  const std::shared_ptr<PulledRows>& pulled() const { return pulled_; }
  // Returns memory for rows of tables that an exchange brings for these batches; null: no tables.
  std::shared_ptr<PulledRows> Expect(const std::vector<SharedRows>& batches);
  // `incoming`, from Expect, has been received: puts its rows in place of the rows in values().
  // Null: values() has no rows of tables from now on.
  void TakeRows(std::shared_ptr<PulledRows> incoming);
  // A batch is about to be computed with the values. `buffer` will have the batch's gradients.
  void BeginBatch(uint32_t buffer);

  // Builds the request to a ps. The gradients in the request share the memory of their buffer.
  // `staged`: the gradients that were sent before, which the request leaves out; nullptr: none.
  OutgoingExchange Request(uint32_t ps, const std::string& worker, const ExchangeOrder& order,
                           const StagedGradients* staged = nullptr);
  // Returns the message that brings the encoded gradients of these variables to a ps before the
  // exchange. `id`: StagedGradients::id. The message is empty if the ps has no partition of them.
  Parts StageRequest(uint32_t ps, const std::string& worker, const std::string& id, uint32_t buffer,
                     std::span<const size_t> variables) const;
  // Puts the values and versions of a reply into the copy. `valid` says whether the reply's memory
  // may still be read (Link::replies_valid). UNAVAILABLE: valid() was false after reading, so the
  // reply is lost. Any other error names what is wrong with the reply; the copy may then lack some
  // of the reply's values. `repeated`: the request was sent more than once, so that "already
  // applied" may be about this worker's own push.
  absl::StatusOr<ExchangeOutcome> TakeReply(
      uint32_t ps, const ExchangeOrder& order, bool repeated, const absl::Cord& reply,
      const std::function<bool()>& valid = [] { return true; });
  // Drops the residuals of the partitions of `ps`, which may have applied the last push or not.
  void ForgetResiduals(uint32_t ps);
  // To be called if a reply of `ps` was lost, and may have overwritten some values: the next
  // exchange pulls all values of `ps`.
  void ForgetValues(uint32_t ps);

 private:
  // The version of a partition's values.
  struct Version {
    std::optional<Encoding> encoding;    // in which the values came; nullopt: no values are here
    uint64_t updates = 0;                // how many updates the values have had in the ps
    std::vector<uint64_t> read_updates;  // index: buffer; `updates` at its last BeginBatch
  };

  ExchangeRequest Header(uint32_t ps, const std::string& worker) const;
  void FillPull(const PartitionReplica& replica, const ExchangeOrder& order, PartitionPull& pull,
                std::vector<PieceView>& pieces) const;
  Encoding PullEncoding(const PartitionReplica& replica, bool exact) const;
  std::span<float> Pulled(const PartitionReplica& replica, PulledRows* incoming);
  uint64_t PulledBytes(const PartitionReplica& replica, const ExchangeOrder& order);
  PiecePlaceFn PlacesOf(uint32_t ps, const ExchangeOrder& order);
  uint64_t ReplyBytesMax(uint32_t ps, const ExchangeOrder& order);
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
  std::shared_ptr<PulledRows> pulled_, spare_;   // spare_: memory for the next Expect
  std::vector<std::span<const float>> value_spans_;
};

}  // namespace paracord
