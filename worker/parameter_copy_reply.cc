// Checks what a ps answers to an exchange, and takes it over into the worker's copy.
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
                                       const DecodedReply& reply) {
  if (!order.state.has_value() || !reply.pieces.empty()) {
    return absl::InternalError(absl::StrCat("ps:", ps,
                                            order.state.has_value()
                                                ? " sends values and says that they are not there"
                                                : " lets wait who asked for no state"));
  }
  std::vector<bool> told(parts_[ps].size(), false);
  for (const PartitionState& state : reply.header.partitions()) {
    const Part* const part = FindPart(ps, state.partition());
    if (part == nullptr) {
      return absl::InternalError(absl::StrCat("ps:", ps, " answers for partition ",
                                              state.partition(), ", which it was not asked for"));
    }
    told[static_cast<size_t>(part - parts_[ps].data())] = true;
  }
  for (size_t i = 0; order.batch.has_value() && i < told.size(); ++i) {
    if (!parts_[ps][i].trained || told[i]) continue;
    return absl::InternalError(absl::StrCat("ps:", ps, " does not say what became of the push to ",
                                            "partition ", parts_[ps][i].id));
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
  std::vector<uint64_t> missing(parts_[ps].size(), 0);   // by place in parts_[ps]
  std::vector<bool> answered(parts_[ps].size(), false);  // the same
  for (const PartitionState& state : reply.header.partitions()) {
    const Part* const part = FindPart(ps, state.partition());
    const uint64_t whole =
        part == nullptr ? 0
                        : PulledRange(*part, order).elements * ElementBytes(PullOf(*part, order));
    if (part == nullptr || (state.bytes() != 0 && state.bytes() != whole)) {
      return absl::InternalError(absl::StrCat("ps:", ps, " answers for partition ",
                                              state.partition(), " with ", state.bytes(),
                                              " bytes, which it was not asked for"));
    }
    const auto place = static_cast<size_t>(part - parts_[ps].data());
    // Nothing else is current.
    answered[place] =
        state.bytes() == whole ||
        (!part->table && part->have == PullOf(*part, order) && part->updates == state.updates());
    missing[place] = state.bytes();
  }
  const auto silent = std::find(answered.begin(), answered.end(), false);
  if (silent != answered.end()) {
    return absl::InternalError(absl::StrCat(
        "ps:", ps, " sends nothing of partition ",
        parts_[ps][static_cast<size_t>(silent - answered.begin())].id, ", which is not current"));
  }
  std::vector<std::span<float>> places;  // of the pieces
  for (const PieceView& piece : reply.pieces) {
    const Part* const part = FindPart(ps, piece.partition);
    if (part == nullptr || piece.part != Piece::VALUES) {
      return absl::InternalError(
          absl::StrCat("ps:", ps, " sends bytes of partition ", piece.partition));
    }
    const uint64_t element = ElementBytes(PullOf(*part, order));
    uint64_t& left = missing[static_cast<size_t>(part - parts_[ps].data())];
    // One after another: no two of them are written to one place at once.
    const auto [first, elements] = PulledRange(*part, order);
    if (piece.data.size() > left || piece.offset != elements * element - left ||
        piece.data.size() % element != 0) {
      return absl::InternalError(
          absl::StrCat("ps:", ps, " sends bytes out of place of partition ", part->id));
    }
    left -= piece.data.size();
    places.push_back(PulledArray(*part, order)
                         .subspan(first + piece.offset / element, piece.data.size() / element));
  }
  const bool whole = std::all_of(missing.begin(), missing.end(), [](uint64_t m) { return m == 0; });
  if (!whole) return absl::InternalError(absl::StrCat("ps:", ps, " sent only part of its values"));
  ParallelFor(places.size(), [&](size_t i) {
    const PieceView& piece = reply.pieces[i];
    DecodeDense(PullOf(*FindPart(ps, piece.partition), order), piece.data, places[i]);
  });
  return std::move(reply.header);
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
    Part* const part = FindPart(ps, state.partition());
    if (part->trained && state.has_squares()) outcome.told.push_back(state);
    if (order.batch.has_value() && part->trained) {
      outcome.next = std::min(outcome.next, state.next());
      outcome.gap = outcome.gap || state.outcome() == PUSH_GAP;
      outcome.partly = outcome.partly || state.outcome() == PUSH_PARTLY;
      if (state.outcome() == PUSH_APPLIED || state.outcome() == PUSH_TAKEN) {
        outcome.applied = true;
        const uint64_t read = part->read_updates[order.buffer];
        const uint64_t later = std::min(state.entered(), state.updates());
        if (part->have.has_value() && state.updates() - later > read) {
          outcome.staleness = std::max(outcome.staleness, state.updates() - later - read - 1);
        }
        if (!order.rejected) part->residual.swap(part->rest);
      } else if (state.outcome() == PUSH_ALREADY_APPLIED && repeated && !order.rejected) {
        part->residual.clear();
      }
    }
    if (outcome.waits || part->state_only || (state.bytes() == 0 && !part->table)) continue;
    part->have = PullOf(*part, order);
    part->updates = state.updates();
  }
  return outcome;
}

}  // namespace paracord
