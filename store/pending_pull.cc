#include "store/pending_pull.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "common/parallel.h"
#include "common/status_macros.h"
#include "common/trace.h"
#include "exchange/encoding.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

// Returns a Cord over the values, which keeps the chunk referenced.
absl::Cord CordOf(PulledChunk chunk) {
  const std::span<const float> values = chunk.chunk().values();
  const absl::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return absl::MakeCordFromExternal(bytes, [chunk = std::move(chunk)](absl::string_view) {});
}

absl::Cord CordOf(PulledCopy copy) {
  const absl::string_view bytes(copy.data(), copy.bytes());
  return absl::MakeCordFromExternal(bytes, [copy = std::move(copy)](absl::string_view) {});
}

// The values of some rows of a table, or of all, in copies of whole rows of about kPieceBytes. Each
// is of one moment, and all are of the state that is wanted.
absl::Status ReadRows(const CheckedWant& wanted, uint64_t count, Partition::AtState at,
                      PinnedReservation& reserved, PartitionState& state,
                      std::vector<PieceView>& pieces) {
  const Partition& partition = *wanted.partition;
  const uint32_t id = wanted.want.partition;
  const Rows& rows = wanted.want.rows;
  const Encoding encoding = wanted.want.encoding;
  const uint64_t row = partition.row_elements();
  const uint64_t row_bytes = row * ElementBytes(encoding);
  const size_t at_once = std::max<uint64_t>(kPieceBytes / std::max<uint64_t>(row_bytes, 1), 1);
  state.set_bytes(count * row_bytes);
  std::vector<float> decoded;
  for (size_t first = 0; first < count; first += at_once) {
    const size_t some = std::min<size_t>(at_once, count - first);
    PulledCopy copy(some * row_bytes, partition.pinned(), &reserved);
    std::span<float> values(reinterpret_cast<float*>(copy.data()), some * row);
    if (encoding != ENCODING_FLOAT32) {
      decoded.resize(values.size());
      values = decoded;
    }
    ASSIGN_OR_RETURN(const uint64_t updates,
                     rows.has_value()
                         ? partition.PullRowsAt(at, std::span(*rows).subspan(first, some), values)
                         : partition.PullRangeAt(at, first, values));
    if (first == 0) state.set_updates(updates);
    if (encoding != ENCODING_FLOAT32) EncodeDense(encoding, values, copy.data());
    pieces.push_back({id, first * row_bytes, CordOf(std::move(copy))});
  }
  return absl::OkStatus();
}

absl::Status ReadValues(const CheckedWant& wanted, Partition::AtState at,
                        PinnedReservation& reserved, PartitionState& state,
                        std::vector<PieceView>& pieces) {
  const Partition& partition = *wanted.partition;
  const Encoding encoding = wanted.want.encoding;
  ChunkRefs values;
  ASSIGN_OR_RETURN(const uint64_t updates, partition.PullAt(at, values));
  state.set_updates(updates);
  if (wanted.want.state_only) return absl::OkStatus();
  if (wanted.want.rows.has_value()) {
    return ReadRows(wanted, wanted.want.rows->size(), at, reserved, state, pieces);
  }
  if (wanted.want.known_version == updates) return absl::OkStatus();
  if (partition.is_table()) {
    return ReadRows(wanted, partition.facts().shape[0], at, reserved, state, pieces);
  }
  const uint64_t element_bytes = ElementBytes(encoding);
  state.set_bytes(partition.facts().bytes / sizeof(float) * element_bytes);
  const size_t first = pieces.size();
  uint64_t offset = 0;
  for (const ChunkRef& chunk : values) {
    pieces.push_back({partition.facts().id, offset, {}});
    offset += chunk.values().size() * element_bytes;
  }
  if (encoding == ENCODING_FLOAT32) {
    for (size_t i = 0; i < values.size(); ++i) {
      pieces[first + i].data = CordOf(PulledChunk(std::move(values[i]), partition.pinned()));
    }
  } else {
    std::vector<PulledCopy> copies;
    for (const ChunkRef& chunk : values) {
      copies.emplace_back(chunk.values().size() * element_bytes, partition.pinned());
    }
    ParallelFor(values.size(), [&](size_t i) {
      EncodeDense(encoding, values[i].values(), copies[i].data());
      pieces[first + i].data = CordOf(std::move(copies[i]));
    });
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t RowBytes(const PartitionSet& content, const ExchangeRequest& header) {
  uint64_t bytes = 0;
  for (const PartitionPull& pull : header.pull()) {
    const Partition* const partition = content.Find(pull.partition());
    if (partition == nullptr || !partition->is_table() || !IsDense(pull.encoding())) continue;
    if (pull.state_only()) continue;
    const uint64_t rows = pull.has_rows() ? std::min(pull.rows().count(), pull.rows().bytes())
                                          : partition->facts().shape[0];
    const uint64_t row = partition->row_elements() * ElementBytes(pull.encoding());
    uint64_t of_pull = 0;
    if (__builtin_mul_overflow(rows, row, &of_pull) ||
        __builtin_add_overflow(bytes, of_pull, &bytes)) {
      return std::numeric_limits<uint64_t>::max();
    }
  }
  return bytes;
}

PartitionState& PendingPull::StateOf(uint32_t partition) {
  PartitionState*& state = states_[partition];
  if (state == nullptr) {
    state = reply_.header.add_partitions();
    state->set_partition(partition);
  }
  return *state;
}

uint64_t PendingPull::bytes() const {
  constexpr uint64_t kState = sizeof(PartitionState) + 64;  // with its entry in states_
  uint64_t bytes = wants_.size() * sizeof(CheckedWant) + states_.size() * kState;
  for (const CheckedWant& wanted : wants_) {
    if (wanted.want.rows.has_value()) bytes += wanted.want.rows->size() * sizeof(uint64_t);
  }
  return bytes;
}

void PendingPull::TellSquares(uint64_t generation) {
  for (const CheckedWant& wanted : wants_) {
    const auto squares = wanted.partition->SquaresOfMean(generation);
    if (!squares.has_value()) continue;
    PartitionState& state = StateOf(wanted.partition->facts().id);
    state.set_squares(squares->squares);
    state.set_squares_round(squares->round);
  }
}

DecodedReply PendingPull::AnswerWithout(const Partition::Lack& lack) {
  reply_.header.set_waits(true);
  reply_.header.set_norms_wanted(lack.norms && lack.lanes.empty());
  for (const uint32_t lane : lack.lanes) reply_.header.add_missing(lane);
  return std::move(reply_);
}

absl::StatusOr<DecodedReply> PendingPull::Answer(Partition::AtState state) {
  const TraceSpan span("pull");
  PinnedReservation reserved = std::move(reserved_);  // what remains of it is freed here
  for (const CheckedWant& wanted : wants_) {
    PartitionState& said = StateOf(wanted.partition->facts().id);
    const uint64_t pushed = said.outcome() == PUSH_NONE ? UINT64_MAX : said.updates();
    RETURN_IF_ERROR(ReadValues(wanted, state, reserved, said, reply_.pieces));
    if (said.updates() > pushed) said.set_entered(said.updates() - pushed);
  }
  return std::move(reply_);
}

}  // namespace paracord
