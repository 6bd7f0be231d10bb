// A worker's copy of the parameters with the version of each partition, and what travels between
// the copy and the ps: Request says what an exchange sends a ps and where the reply belongs,
// TakeReply takes the reply over. Belongs to one session, since versions are of one life of each
// ps. Used on the loop; the executor reads the values while no exchange is under way that may write
// them. No I/O.
//
// Of tables, the copy has the rows alone that steps need: those of the last exchange, whose values
// lie one after another by their ids.
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
  // `devices`: how many batches are computed side by side. There are buffers for their gradients,
  // and for those of two where one batch is computed while the other one is sent.
  ParameterCopy(const Session& session, std::span<const VariableSpec> variables,
                const TransferOptions& transfer = {}, ValuesIn memory = ValuesIn::kOrdinary,
                size_t devices = 1);
  ParameterCopy(const ParameterCopy&) = delete;

  const PartitionLayout& layout() const { return layout_; }
  GradientBuffers& gradients() { return gradients_; }
  bool has_tables() const { return has_tables_; }
  std::span<const std::span<const float>> values() const { return value_spans_; }
  // The rows of tables that the values have; null: none.
  const std::shared_ptr<PulledRows>& pulled() const { return pulled_; }
  // Expect returns what an exchange fills that wants the rows of these batches, or null if there
  // are no tables; TakeRows makes its rows those of the values.
  std::shared_ptr<PulledRows> Expect(const std::vector<SharedRows>& batches);
  void TakeRows(std::shared_ptr<PulledRows> incoming);
  // The values are about to be read for this buffer's gradients.
  void BeginBatch(uint32_t buffer);

  // Builds the request to a ps, whose gradients share the memory of their buffer. `staged`: what
  // was sent of the push before, which the request leaves out; nullptr: nothing was.
  OutgoingExchange Request(uint32_t ps, const std::string& worker, const ExchangeOrder& order,
                           const StagedGradients* staged = nullptr);
  // Returns the message that stages the gradients of these variables, encoded, for the push `id`;
  // empty if the ps holds nothing of them.
  Parts StageRequest(uint32_t ps, const std::string& worker, const std::string& id, uint32_t buffer,
                     std::span<const size_t> variables) const;
  // Takes over the values and versions that came back. UNAVAILABLE: the reply was no longer `valid`
  // (Link::replies_valid) after it had been read, and is lost. Another error says what is wrong
  // with it; the copy is then no longer whole and the session has to end. `repeated`: it was sent
  // before, so what it says was applied already may be its own.
  absl::StatusOr<ExchangeOutcome> TakeReply(
      uint32_t ps, const ExchangeOrder& order, bool repeated, const absl::Cord& reply,
      const std::function<bool()>& valid = [] { return true; });
  // Nobody knows what that ps made of the last push.
  void ForgetResiduals(uint32_t ps);
  // A reply of that ps was lost, and part of it may be in place.
  void ForgetValues(uint32_t ps);

 private:
  // The version of a partition's values.
  struct Version {
    std::optional<Encoding> encoding;  // in which the values came; none: there are no values
    uint64_t updates = 0;
    std::vector<uint64_t> read_updates;  // by buffer: the version that its batch was computed with
  };

  ExchangeRequest Header(uint32_t ps, const std::string& worker) const;
  void FillPull(const PartitionReplica& replica, const ExchangeOrder& order, PartitionPull& pull,
                std::vector<PieceView>& pieces) const;
  Encoding PullEncoding(const PartitionReplica& replica, bool exact) const;
  std::span<float> Pulled(const PartitionReplica& replica, PulledRows* incoming);
  uint64_t PulledBytes(const PartitionReplica& replica, const ExchangeOrder& order);
  PiecePlaceFn PlacesOf(uint32_t ps, const ExchangeOrder& order);
  uint64_t ReplyBytesMax(uint32_t ps, const ExchangeOrder& order);
  // The values, and nothing else of the copy.
  absl::StatusOr<ExchangeReply> TakeValues(uint32_t ps, const ExchangeOrder& order,
                                           const absl::Cord& reply);
  void TakePush(const PartitionReplica& replica, const ExchangeOrder& order, bool repeated,
                const PartitionState& state, ExchangeOutcome& outcome);
  absl::Status CheckWaits(uint32_t ps, const ExchangeOrder& order, const DecodedReply& reply) const;

  const Session session_;
  const std::vector<VariableSpec> variables_;
  const Encoding wire_;
  const PartitionLayout layout_;
  GradientBuffers gradients_;
  std::vector<Version> versions_;  // by PartitionReplica::index
  std::pmr::memory_resource* const resource_;
  bool has_tables_ = false;
  std::vector<std::pmr::vector<float>> values_;  // by variable; empty for tables
  std::shared_ptr<PulledRows> pulled_, spare_;
  std::vector<std::span<const float>> value_spans_;
};

}  // namespace paracord
