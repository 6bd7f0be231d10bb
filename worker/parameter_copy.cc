#include "worker/parameter_copy.h"

#include <algorithm>
#include <utility>

#include "common/aligned_memory.h"
#include "config/partitions.h"
#include "exchange/encoding.h"
#include "exchange/rows.h"
#include "proto/protocol.h"

namespace paracord {

ParameterCopy::ParameterCopy(const Session& session, std::span<const VariableSpec> variables,
                             const TransferOptions& transfer, ValuesIn memory, size_t devices)
    : session_(session),
      variables_(variables.begin(), variables.end()),
      transfer_(transfer),
      layout_(session_, variables_),
      gradients_(layout_, variables_, transfer, std::max<size_t>(devices, 2)),
      versions_(layout_.partitions()),
      resource_(memory == ValuesIn::kShared ? SharedMemoryResource() : AlignedMemoryResource()) {
  for (Version& version : versions_) version.read_updates.resize(std::max<size_t>(devices, 2));
  for (const VariableSpec& variable : variables_) {
    has_tables_ = has_tables_ || variable.has_table();
    value_spans_.emplace_back(
        values_.emplace_back(variable.has_table() ? 0 : ArrayElements(variable), resource_));
  }
}

std::shared_ptr<PulledRows> ParameterCopy::Expect(const std::vector<SharedRows>& batches) {
  if (!has_tables_) return nullptr;
  // The memory of the exchange before the last is used again, unless a late call still has it.
  std::shared_ptr<PulledRows> incoming = std::exchange(spare_, nullptr);
  if (incoming == nullptr || incoming.use_count() > 1) incoming = std::make_shared<PulledRows>();
  // use_count() orders nothing, but a copy that is dropped does: what the call that let go of the
  // memory wrote there comes before what is written now.
  std::shared_ptr<PulledRows>(incoming).reset();
  incoming->batches = batches;
  incoming->rows = RowsOfAll(batches);
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (v == incoming->values.size()) incoming->values.emplace_back(resource_);
    const uint64_t rows = incoming->rows == nullptr ? 0 : incoming->rows->ids[v].size();
    incoming->values[v].resize(rows * RowElements(variables_[v]));
  }
  return incoming;
}

void ParameterCopy::TakeRows(std::shared_ptr<PulledRows> incoming) {
  if (!has_tables_) return;
  spare_ = std::exchange(pulled_, std::move(incoming));
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (!variables_[v].has_table()) continue;
    value_spans_[v] = pulled_ == nullptr ? std::span<const float>() : pulled_->values[v];
  }
}

void ParameterCopy::BeginBatch(uint32_t buffer) {
  for (Version& version : versions_) version.read_updates[buffer] = version.updates;
}

// Returns where the values of a partition go that a pull brings: into `incoming` for rows of
// tables. A further holder brings none.
std::span<float> ParameterCopy::Pulled(const PartitionReplica& replica, PulledRows* incoming) {
  if (replica.further_holder || (replica.table && incoming == nullptr)) return {};
  const ElementRange range = replica.RangeIn(replica.table ? incoming->rows.get() : nullptr);
  const std::span<float> all =
      replica.table ? incoming->values[replica.variable] : values_[replica.variable];
  return all.subspan(range.first, range.elements);
}

Encoding ParameterCopy::PullEncoding(const PartitionReplica& replica, bool exact) const {
  return exact ? ENCODING_FLOAT32 : transfer_.PullEncoding(replica);
}

ExchangeRequest ParameterCopy::Header(uint32_t ps, const std::string& worker) const {
  ExchangeRequest header;
  Fence& fence = *header.mutable_fence();
  fence.set_run_id(session_.run_id());
  fence.set_generation(session_.generation());
  fence.set_boot_id(session_.ps(static_cast<int>(ps)).boot_id());
  fence.set_protocol(kProtocol);
  header.set_worker(worker);
  return header;
}

Parts ParameterCopy::StageRequest(uint32_t ps, const std::string& worker, const std::string& id,
                                  uint32_t buffer, std::span<const size_t> variables) const {
  std::vector<PieceView> pieces;
  for (const PartitionReplica& replica : layout_.of_ps(ps)) {
    if (!replica.trained || !gradients_.Has(replica, buffer)) continue;
    if (std::ranges::find(variables, replica.variable) == variables.end()) continue;
    PartitionPush unused;  // the exchange describes the push
    gradients_.Push(replica, buffer, /*staged=*/false, unused, pieces);
  }
  if (pieces.empty()) return {};
  ExchangeRequest header = Header(ps, worker);
  header.mutable_staged()->set_id(id);
  header.mutable_staged()->set_bytes(PieceBytes(pieces));
  return EncodeExchange(header, std::move(pieces));
}

OutgoingExchange ParameterCopy::Request(uint32_t ps, const std::string& worker,
                                        const ExchangeOrder& order, const StagedGradients* staged) {
  ExchangeRequest header = Header(ps, worker);
  if (order.batch.has_value()) *header.mutable_batch() = *order.batch;
  if (order.lanes > 1) header.set_lanes(order.lanes);
  header.set_rejected(order.rejected);
  header.set_rejection(order.rejection);
  header.set_proof(order.proof);
  if (order.state.has_value()) {
    header.set_state(*order.state);
    header.set_wait_ms(order.wait_ms);
    header.set_squares(layout_.has_copies());
    if (order.norms.has_value()) *header.mutable_norms() = *order.norms;
  }
  if (staged != nullptr) {
    header.mutable_staged()->set_id(staged->id);
    header.mutable_staged()->set_calls(staged->calls[ps]);
  }
  std::vector<PieceView> pieces;
  for (const PartitionReplica& replica : layout_.of_ps(ps)) {
    FillPull(replica, order, *header.add_pull(), pieces);
    if (!order.batch.has_value() || !replica.trained) continue;
    PartitionPush& push = *header.add_push();
    push.set_partition(replica.id);
    if (order.rejected) continue;
    gradients_.Push(replica, order.buffer, staged != nullptr && staged->variables[replica.variable],
                    push, pieces);
  }
  return {EncodeExchange(header, std::move(pieces)), ReplyBytesMax(ps, order), PlacesOf(ps, order)};
}

void ParameterCopy::FillPull(const PartitionReplica& replica, const ExchangeOrder& order,
                             PartitionPull& pull, std::vector<PieceView>& pieces) const {
  const Encoding wanted = PullEncoding(replica, order.exact);
  pull.set_partition(replica.id);
  pull.set_encoding(wanted);
  if (replica.further_holder) {
    pull.set_state_only(true);
  } else if (replica.table) {
    const TableRows* const rows = order.incoming == nullptr ? nullptr : order.incoming->rows.get();
    NameRows(replica.IdsIn(rows), replica.id, Piece::PULL_IDS, *pull.mutable_rows(), pieces);
  } else if (versions_[replica.index].encoding == wanted) {
    pull.set_known_version(versions_[replica.index].updates);
  }
}

PiecePlaceFn ParameterCopy::PlacesOf(uint32_t ps, const ExchangeOrder& order) {
  return [this, ps, exact = order.exact, incoming = order.incoming](
             uint32_t partition, uint64_t offset, uint64_t bytes) -> char* {
    const PartitionReplica* const replica = layout_.Find(ps, partition);
    if (replica == nullptr || PullEncoding(*replica, exact) != ENCODING_FLOAT32) return nullptr;
    const std::span<float> values = Pulled(*replica, incoming.get());
    const uint64_t all = values.size_bytes();
    if (offset > all || bytes > all - offset || all == 0) return nullptr;
    return reinterpret_cast<char*>(values.data()) + offset;
  };
}

uint64_t ParameterCopy::PulledBytes(const PartitionReplica& replica, const ExchangeOrder& order) {
  return Pulled(replica, order.incoming.get()).size() *
         ElementBytes(PullEncoding(replica, order.exact));
}

uint64_t ParameterCopy::ReplyBytesMax(uint32_t ps, const ExchangeOrder& order) {
  constexpr uint64_t kAround = 256;  // what says of which partition and place it is, with room
  uint64_t bytes = 64 << 10;
  for (const PartitionReplica& replica : layout_.of_ps(ps)) {
    const uint64_t values = PulledBytes(replica, order);
    bytes += values + kAround * (2 + values / kPieceBytes);
  }
  return bytes;
}

void ParameterCopy::ForgetResiduals(uint32_t ps) {
  for (const PartitionReplica& replica : layout_.of_ps(ps)) {
    if (!replica.further_holder) gradients_.residuals().Forget(replica.index);
  }
}

void ParameterCopy::ForgetValues(uint32_t ps) {
  for (const PartitionReplica& replica : layout_.of_ps(ps)) {
    if (!replica.further_holder) versions_[replica.index].encoding.reset();
  }
}

}  // namespace paracord
