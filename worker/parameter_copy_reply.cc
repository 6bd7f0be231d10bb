// Checks a reply of a ps and takes the reply over into the worker's copy.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/parallel.h"
#include "common/status_macros.h"
#include "exchange/codec.h"
#include "exchange/encoding.h"
#include "worker/parameter_copy.h"

namespace paracord {
namespace {

constexpr int kMissingMax = 16;  // lanes that a ps names

}  // namespace

// A reply without values, because a ps has not the state that was asked for, has the outcome of the
// push for each partition, and nothing else.
absl::Status ParameterCopy::CheckWaits(uint32_t ps, const ExchangeOrder& order,
                                       const DecodedReply& reply) const {
  if (!order.state.has_value() || !reply.pieces.empty()) {
    return absl::InternalError(absl::StrCat("ps:", ps,
                                            order.state.has_value()
                                                ? " sends values and says that they are not there"
                                                : " lets wait who asked for no state"));
  }
  const std::span<const PartitionReplica> asked = layout_.of_ps(ps);
  std::vector<bool> told(asked.size(), false);
  for (const PartitionState& state : reply.header.partitions()) {
    const PartitionReplica* const replica = layout_.Find(ps, state.partition());
    if (replica == nullptr) {
      return absl::InternalError(absl::StrCat("ps:", ps, " answers for partition ",
                                              state.partition(), ", which it was not asked for"));
    }
    told[static_cast<size_t>(replica - asked.data())] = true;
  }
  for (size_t i = 0; order.batch.has_value() && i < told.size(); ++i) {
    if (!asked[i].trained || told[i]) continue;
    return absl::InternalError(absl::StrCat("ps:", ps, " does not say what became of the push to ",
                                            "partition ", asked[i].id));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExchangeReply> ParameterCopy::TakeValues(uint32_t ps, const ExchangeOrder& order,
                                                        const absl::Cord& bytes) {
  ASSIGN_OR_RETURN(DecodedReply reply, DecodeExchangeReply(bytes));
  if (reply.header.waits()) {
    RETURN_IF_ERROR(CheckWaits(ps, order, reply));
    return std::move(reply.header);
  }
  const std::span<const PartitionReplica> asked = layout_.of_ps(ps);
  std::vector<uint64_t> missing(asked.size(), 0);  // index: `asked`; bytes still to come
  std::vector<bool> answered(asked.size(), false);
  for (const PartitionState& state : reply.header.partitions()) {
    const PartitionReplica* const replica = layout_.Find(ps, state.partition());
    const uint64_t whole = replica == nullptr ? 0 : PulledBytes(*replica, order);
    if (replica == nullptr || (state.bytes() != 0 && state.bytes() != whole)) {
      return absl::InternalError(absl::StrCat("ps:", ps, " answers for partition ",
                                              state.partition(), " with ", state.bytes(),
                                              " bytes, which it was not asked for"));
    }
    const auto place = static_cast<size_t>(replica - asked.data());
    const Version& own = versions_[replica->index];
    // A reply leaves out values only if the copy has them in this version and encoding.
    answered[place] = state.bytes() == whole ||
                      (!replica->table && own.encoding == PullEncoding(*replica, order.exact) &&
                       own.updates == state.updates());
    missing[place] = state.bytes();
  }
  const auto silent = std::find(answered.begin(), answered.end(), false);
  if (silent != answered.end()) {
    return absl::InternalError(absl::StrCat(
        "ps:", ps, " sends nothing of partition ",
        asked[static_cast<size_t>(silent - answered.begin())].id, ", which is not current"));
  }
  std::vector<std::span<float>> places;  // index: piece
  for (const PieceView& piece : reply.pieces) {
    const PartitionReplica* const replica = layout_.Find(ps, piece.partition);
    if (replica == nullptr || piece.part != Piece::VALUES) {
      return absl::InternalError(
          absl::StrCat("ps:", ps, " sends bytes of partition ", piece.partition));
    }
    const uint64_t element = ElementBytes(PullEncoding(*replica, order.exact));
    uint64_t& left = missing[static_cast<size_t>(replica - asked.data())];
    const std::span<float> values = Pulled(*replica, order.incoming.get());
    // Pieces do not overlap, so threads may decode pieces side by side.
    if (piece.data.size() > left || piece.offset != values.size() * element - left ||
        piece.data.size() % element != 0) {
      return absl::InternalError(
          absl::StrCat("ps:", ps, " sends bytes out of place of partition ", replica->id));
    }
    left -= piece.data.size();
    places.push_back(values.subspan(piece.offset / element, piece.data.size() / element));
  }
  const bool whole = std::all_of(missing.begin(), missing.end(), [](uint64_t m) { return m == 0; });
  if (!whole) return absl::InternalError(absl::StrCat("ps:", ps, " sent only part of its values"));
  ParallelFor(places.size(), [&](size_t i) {
    const PieceView& piece = reply.pieces[i];
    const PartitionReplica& replica = *layout_.Find(ps, piece.partition);
    DecodeDense(PullEncoding(replica, order.exact), piece.data, places[i]);
  });
  return std::move(reply.header);
}

// Takes over what a ps says of a push to a partition. The state of a further holder says nothing of
// the values, which come from the first holder.
void ParameterCopy::TakePush(const PartitionReplica& replica, const ExchangeOrder& order,
                             bool repeated, const PartitionState& state, ExchangeOutcome& outcome) {
  outcome.next = std::min(outcome.next, state.next());
  outcome.gap = outcome.gap || state.outcome() == PUSH_GAP;
  outcome.partly = outcome.partly || state.outcome() == PUSH_PARTLY;
  const bool applied = state.outcome() == PUSH_APPLIED || state.outcome() == PUSH_TAKEN;
  outcome.applied = outcome.applied || applied;
  if (replica.further_holder) return;
  const Version& own = versions_[replica.index];
  if (applied) {
    const uint64_t read = own.read_updates[order.buffer];
    const uint64_t later = std::min(state.entered(), state.updates());
    if (own.encoding.has_value() && state.updates() - later > read) {
      outcome.staleness = std::max(outcome.staleness, state.updates() - later - read - 1);
    }
    if (!order.rejected) gradients_.residuals().Applied(replica.index);
  } else if (state.outcome() == PUSH_ALREADY_APPLIED && repeated && !order.rejected) {
    gradients_.residuals().Forget(replica.index);
  }
}

absl::StatusOr<ExchangeOutcome> ParameterCopy::TakeReply(uint32_t ps, const ExchangeOrder& order,
                                                         bool repeated, const absl::Cord& reply,
                                                         const std::function<bool()>& valid) {
  const absl::StatusOr<ExchangeReply> header = TakeValues(ps, order, reply);
  if (!valid()) {
    return absl::UnavailableError(
        absl::StrCat("ps:", ps, " took back the memory of a reply before it was read"));
  }
  RETURN_IF_ERROR(header.status());
  ExchangeOutcome outcome;
  outcome.next = std::numeric_limits<uint32_t>::max();
  outcome.waits = header->waits();
  outcome.norms_wanted = header->waits() && header->norms_wanted();
  const int missing = std::min(header->missing_size(), kMissingMax);
  outcome.missing.assign(header->missing().begin(), header->missing().begin() + missing);
  std::ranges::sort(outcome.missing);
  for (const PartitionState& state : header->partitions()) {
    const PartitionReplica& replica = *layout_.Find(ps, state.partition());
    if (replica.trained && state.has_squares()) outcome.told.push_back({replica.variable, state});
    if (order.batch.has_value() && replica.trained) {
      TakePush(replica, order, repeated, state, outcome);
    }
    if (outcome.waits || replica.further_holder || (state.bytes() == 0 && !replica.table)) continue;
    versions_[replica.index].encoding = PullEncoding(replica, order.exact);
    versions_[replica.index].updates = state.updates();
  }
  return outcome;
}

}  // namespace paracord
