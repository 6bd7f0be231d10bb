// A worker's copy of the parameters, with the version of each partition. Request builds the message
// of an exchange to a ps and says where the reply's values belong; TakeReply takes the reply over.
// Belongs to a session, because versions count updates in a single life of each ps. Used on the
// event loop; the executor reads values while no exchange may write them. No I/O.
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

// The memory that values lie in. The pages of kShared memory can be locked, so that a GPU copies
// them by itself (keras/device_copy.h); kOrdinary memory may have large pages. In both, each array
// begins at a cache line, so that a PJRT plug-in for the processor can read the array in place.
enum class ValuesIn { kOrdinary, kShared };

// The gradients of a push that were sent before the exchange.
struct StagedGradients {
  std::string id;               // drawn for the push; the exchange names it to the ps
  std::vector<bool> variables;  // index: variable; true: its gradient was sent
  std::vector<uint32_t> calls;  // index: ps; the number of calls with gradients
};

// An exchange with one ps, ready to be sent.
struct OutgoingExchange {
  Parts parts;
  uint64_t reply_bytes_max = 0;
  // Returns where values of the reply are to be received; nullptr for values that are not float32
  // or that the request does not ask for. Used on any thread while the copy exists.
  PiecePlaceFn place;
};

class ParameterCopy {
 public:
  // `devices`: how many batches are computed side by side. Each batch has a buffer for its
  // gradients; there are at least two buffers, so that a batch can be computed during an exchange.
  ParameterCopy(const Session& session, std::span<const VariableSpec> variables,
                const TransferOptions& transfer = {}, ValuesIn memory = ValuesIn::kOrdinary,
                size_t devices = 1);
  ParameterCopy(const ParameterCopy&) = delete;

  const PartitionLayout& layout() const { return layout_; }
  GradientBuffers& gradients() { return gradients_; }
  bool has_tables() const { return has_tables_; }
  std::span<const std::span<const float>> values() const { return value_spans_; }
  // Returns the rows of tables in values(); null: values() has no rows of tables.
  const std::shared_ptr<PulledRows>& pulled() const { return pulled_; }
  // Returns memory for an exchange that brings the rows of these batches; null without tables.
  std::shared_ptr<PulledRows> Expect(const std::vector<SharedRows>& batches);
  // Makes the rows of Expect, once received, the rows in values(); null: values() loses its rows.
  void TakeRows(std::shared_ptr<PulledRows> incoming);
  // A batch is about to read the values; `buffer` will have the batch's gradients.
  void BeginBatch(uint32_t buffer);

  // Builds the request to a ps. The gradients in the request share the memory of their buffer.
  // `staged`: gradients that were sent before, which the request leaves out; nullptr: none were.
  OutgoingExchange Request(uint32_t ps, const std::string& worker, const ExchangeOrder& order,
                           const StagedGradients* staged = nullptr);
  // Returns the message that brings the encoded gradients of these variables to a ps before the
  // exchange, for StagedGradients::id; empty if the ps holds no partition of these variables.
  Parts StageRequest(uint32_t ps, const std::string& worker, const std::string& id, uint32_t buffer,
                     std::span<const size_t> variables) const;
  // Takes over the values and versions of a reply. UNAVAILABLE: valid() (Link::replies_valid) was
  // false after reading, so the reply is lost. Any other error names what is wrong with the reply;
  // the copy is then no longer whole, and the session has to end. `repeated`: the request was sent
  // more than once, so that "already applied" may be about this worker's own push.
  absl::StatusOr<ExchangeOutcome> TakeReply(
      uint32_t ps, const ExchangeOrder& order, bool repeated, const absl::Cord& reply,
      const std::function<bool()>& valid = [] { return true; });
  // It is unknown whether `ps` has applied the last push: drops the residuals of its partitions.
  void ForgetResiduals(uint32_t ps);
  // A reply of `ps` was lost, and may be partly written: the next exchange pulls all its values.
  void ForgetValues(uint32_t ps);

 private:
  // The version of a partition's values.
  struct Version {
    std::optional<Encoding> encoding;    // in which the values came; nullopt: no values are here
    uint64_t updates = 0;                // how many updates the values have had in the ps
    std::vector<uint64_t> read_updates;  // index: buffer; `updates` when its batch began
  };

  ExchangeRequest Header(uint32_t ps, const std::string& worker) const;
  void FillPull(const PartitionReplica& replica, const ExchangeOrder& order, PartitionPull& pull,
                std::vector<PieceView>& pieces) const;
  Encoding PullEncoding(const PartitionReplica& replica, bool exact) const;
  std::span<float> Pulled(const PartitionReplica& replica, PulledRows* incoming);
  uint64_t PulledBytes(const PartitionReplica& replica, const ExchangeOrder& order);
  PiecePlaceFn PlacesOf(uint32_t ps, const ExchangeOrder& order);
  uint64_t ReplyBytesMax(uint32_t ps, const ExchangeOrder& order);
  // Takes over the values of a reply, but not their versions.
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
