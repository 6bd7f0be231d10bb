#include "worker/parameter_copy.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exchange_codec.h"
#include "common/finite.h"
#include "common/protocol.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

uint64_t Elements(const VariableSpec& variable) {
  uint64_t elements = 1;
  for (const uint64_t dim : variable.shape()) elements *= dim;
  return elements;
}

uint64_t RowBytes(const VariableSpec& variable) {
  const uint64_t rows = variable.shape_size() == 0 ? 1 : variable.shape(0);
  return rows == 0 ? 0 : Elements(variable) / rows * sizeof(float);
}

}  // namespace

ParameterCopy::ParameterCopy(const Session& session, std::span<const VariableSpec> variables)
    : session_(session),
      variables_(variables.begin(), variables.end()),
      parts_(static_cast<size_t>(session.ps_size())) {
  for (const VariableSpec& variable : variables_) values_.emplace_back(Elements(variable));
  for (const std::vector<float>& array : values_) value_spans_.emplace_back(array);
  RenewGradients();
  for (const PartitionSpec& partition : session.partitions()) {
    if (partition.variable() >= variables_.size() || partition.ps() >= parts_.size()) continue;
    const VariableSpec& variable = variables_[partition.variable()];
    const uint64_t row_bytes = RowBytes(variable);
    Part part;
    part.id = partition.id();
    part.variable = partition.variable();
    part.offset = partition.row_begin() * row_bytes;
    part.bytes = (partition.row_end() - partition.row_begin()) * row_bytes;
    part.trained = variable.trainable();
    parts_[partition.ps()].push_back(part);
  }
}

void ParameterCopy::RenewGradients() {
  gradients_ = std::make_shared<GradientArrays>();
  gradient_spans_.clear();
  for (const VariableSpec& variable : variables_) {
    gradients_->emplace_back(variable.trainable() ? Elements(variable) : 0);
  }
  for (auto& array : *gradients_) gradient_spans_.emplace_back(array);
}

Parts ParameterCopy::Request(uint32_t ps, const std::string& worker, const BatchId* batch,
                             bool rejected) const {
  ExchangeRequest header;
  Fence& fence = *header.mutable_fence();
  fence.set_run_id(session_.run_id());
  fence.set_generation(session_.generation());
  fence.set_boot_id(session_.ps(static_cast<int>(ps)).boot_id());
  fence.set_protocol(kProtocol);
  header.set_worker(worker);
  if (batch != nullptr) *header.mutable_batch() = *batch;
  header.set_rejected(rejected);
  std::vector<PieceView> pieces;
  for (const Part& part : parts_[ps]) {
    PartitionPull& pull = *header.add_pull();
    pull.set_partition(part.id);
    if (part.have) pull.set_have_updates(part.updates);
    if (batch == nullptr || !part.trained) continue;
    PartitionPush& push = *header.add_push();
    push.set_partition(part.id);
    if (rejected) continue;
    push.set_bytes(part.bytes);
    const char* const bytes =
        reinterpret_cast<const char*>((*gradients_)[part.variable].data()) + part.offset;
    pieces.push_back(
        {part.id, 0,
         absl::MakeCordFromExternal(absl::string_view(bytes, part.bytes), [held = gradients_] {})});
  }
  return EncodeExchange(header, std::move(pieces));
}

ParameterCopy::Part* ParameterCopy::FindPart(uint32_t ps, uint32_t id) {
  for (Part& part : parts_[ps]) {
    if (part.id == id) return &part;
  }
  return nullptr;
}

absl::StatusOr<ExchangeOutcome> ParameterCopy::TakeReply(uint32_t ps, bool pushed,
                                                         const absl::Cord& bytes) {
  ASSIGN_OR_RETURN(const DecodedReply reply, DecodeExchangeReply(bytes));
  ExchangeOutcome outcome;
  outcome.next = std::numeric_limits<uint32_t>::max();
  std::vector<uint64_t> missing;  // by place in parts_[ps]
  missing.resize(parts_[ps].size(), 0);
  for (const PartitionState& state : reply.header.partitions()) {
    Part* const part = FindPart(ps, state.partition());
    if (part == nullptr || (state.bytes() != 0 && state.bytes() != part->bytes)) {
      return absl::InternalError(absl::StrCat("ps:", ps, " answers for partition ",
                                              state.partition(), " with ", state.bytes(),
                                              " bytes, which it was not asked for"));
    }
    if (pushed && part->trained) {
      outcome.next = std::min(outcome.next, state.next());
      outcome.gap = outcome.gap || state.outcome() == PUSH_GAP;
      if (state.outcome() == PUSH_APPLIED) {
        outcome.applied = true;
        if (part->have && state.updates() > part->updates) {
          outcome.staleness = std::max(outcome.staleness, state.updates() - part->updates - 1);
        }
      }
    }
    if (state.bytes() != 0) {
      missing[static_cast<size_t>(part - parts_[ps].data())] = state.bytes();
      part->have = true;
      part->updates = state.updates();
    }
  }
  for (const PieceView& piece : reply.pieces) {
    Part* const part = FindPart(ps, piece.partition);
    const uint64_t size = piece.data.size();
    if (part == nullptr || piece.offset > part->bytes || size > part->bytes - piece.offset) {
      return absl::InternalError(
          absl::StrCat("ps:", ps, " sends bytes outside of partition ", piece.partition));
    }
    missing[static_cast<size_t>(part - parts_[ps].data())] -= size;
    char* to =
        reinterpret_cast<char*>(values_[part->variable].data()) + part->offset + piece.offset;
    for (const absl::string_view chunk : piece.data.Chunks()) {
      std::memcpy(to, chunk.data(), chunk.size());
      to += chunk.size();
    }
  }
  const bool whole = std::all_of(missing.begin(), missing.end(), [](uint64_t m) { return m == 0; });
  if (!whole) return absl::InternalError(absl::StrCat("ps:", ps, " sent only part of its values"));
  return outcome;
}

const VariableSpec* ParameterCopy::NonFiniteGradient() const {
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (!AllFinite((*gradients_)[v])) return &variables_[v];
  }
  return nullptr;
}

}  // namespace paracord
