#include "store/store.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/failpoint.h"
#include "common/parallel.h"
#include "common/status_macros.h"
#include "common/trace.h"
#include "exchange/encoding.h"
#include "proto/protocol.h"
#include "store/step_check.h"

namespace paracord {
namespace {

// A Cord that points to the values and keeps the reference to them.
absl::Cord CordOf(PulledChunk chunk) {
  const std::span<const float> values = chunk.chunk().values();
  const absl::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return absl::MakeCordFromExternal(bytes, [chunk = std::move(chunk)](absl::string_view) {});
}

absl::Cord CordOf(PulledCopy copy) {
  const absl::string_view bytes(copy.data(), copy.bytes());
  return absl::MakeCordFromExternal(bytes, [copy = std::move(copy)](absl::string_view) {});
}

// The values of some rows of a table, or of all, in copies of whole rows of about kPieceBytes, each
// of one moment.
void PullRows(const CheckedWant& wanted, uint64_t count, PinnedReservation& reserved,
              PartitionState& state, std::vector<PieceView>& pieces) {
  const Partition& partition = *wanted.partition;
  const auto& [id, rows, encoding, have] = wanted.want;
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
    const uint64_t updates = rows.has_value()
                                 ? partition.PullRows(std::span(*rows).subspan(first, some), values)
                                 : partition.PullRange(first, values);
    if (first == 0) state.set_updates(updates);
    if (encoding != ENCODING_FLOAT32) EncodeDense(encoding, values, copy.data());
    pieces.push_back({id, first * row_bytes, CordOf(std::move(copy))});
  }
}

void Pull(const CheckedWant& wanted, PinnedReservation& reserved, PartitionState& state,
          std::vector<PieceView>& pieces) {
  const Partition& partition = *wanted.partition;
  const Encoding encoding = wanted.want.encoding;
  ChunkRefs values;
  const uint64_t updates = partition.Pull(values);
  state.set_updates(updates);
  if (wanted.want.rows.has_value()) {
    return PullRows(wanted, wanted.want.rows->size(), reserved, state, pieces);
  }
  if (wanted.want.have_updates == updates) return;
  if (partition.is_table()) {
    return PullRows(wanted, partition.facts().shape[0], reserved, state, pieces);
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
}

// Counts one push in Content::pushes until it ends.
class Pushing {
 public:
  // null: it is none.
  explicit Pushing(std::atomic<int>* pushes) : pushes_(pushes) {
    if (pushes_ != nullptr) ++*pushes_;
  }
  ~Pushing() { End(); }
  Pushing(const Pushing&) = delete;
  Pushing& operator=(const Pushing&) = delete;

  void End() {
    if (std::atomic<int>* const pushes = std::exchange(pushes_, nullptr)) --*pushes;
  }

 private:
  std::atomic<int>* pushes_;
};

}  // namespace

uint64_t RowBytes(const Content& content, const ExchangeRequest& header) {
  uint64_t bytes = 0;
  for (const PartitionPull& pull : header.pull()) {
    const Partition* const partition = content.Find(pull.partition());
    if (partition == nullptr || !partition->is_table() || !IsDense(pull.encoding())) continue;
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

void Store::Apply(StepRequest request, const PushFence& fence, const Reply& reply,
                  PinnedReservation reserved) const {
  reply(Run(std::move(request), fence, std::move(reserved)));
}

void Store::Exchange(DecodedRequest request, const PushFence& fence, const EncodedReply& reply,
                     PinnedReservation reserved) const {
  FAILPOINT("ps.push.received");
  const bool pushes = request.header.has_batch();
  absl::StatusOr<StepRequest> step = ReadStep(std::move(request));
  if (!step.ok()) {
    if (pushes) ++counters_.refused;
    return reply(step.status());
  }
  Apply(
      *std::move(step), fence,
      [reply](absl::StatusOr<DecodedReply> applied) {
        if (!applied.ok()) return reply(applied.status());
        reply(EncodeExchange(applied->header, std::move(applied->pieces)));
      },
      std::move(reserved));
}

absl::StatusOr<DecodedReply> Store::Run(StepRequest request, const PushFence& fence,
                                        PinnedReservation reserved) const {
  const bool pushes = request.step.has_value();
  Pushing pushing(pushes ? &content_.pushes : nullptr);
  const int64_t received = TraceBegin();
  const absl::StatusOr<CheckedStep> step = CheckStep(content_, std::move(request));
  TraceEnd("check", received);
  if (!step.ok()) {
    if (pushes) ++counters_.refused;
    return step.status();
  }
  FAILPOINT("ps.push.validated");

  DecodedReply reply;
  std::map<uint32_t, PartitionState*> states;
  const auto state_of = [&](const Partition& partition) {
    PartitionState*& state = states[partition.facts().id];
    if (state == nullptr) {
      // Its address is stable: repeated messages are held by pointer.
      state = reply.header.add_partitions();
      state->set_partition(partition.facts().id);
    }
    return state;
  };
  if (step->batch.has_value()) {
    const TraceSpan span("apply");
    const double begun = FigureSeconds();
    for (const CheckedUpdate& entry : step->updates) {
      const Outcome outcome =
          entry.partition->Push(*step->batch, entry.rejected, entry.update, fence);
      if (outcome.outcome == PUSH_NONE) {
        ++counters_.stale;
        return absl::AbortedError("a newer generation began while the push was under way");
      }
      if (outcome.outcome == PUSH_APPLIED) ++counters_.applied;
      if (outcome.outcome == PUSH_ALREADY_APPLIED) ++counters_.duplicates;
      if (outcome.outcome == PUSH_GAP) ++counters_.gaps;
      PartitionState* state = state_of(*entry.partition);
      state->set_outcome(outcome.outcome);
      state->set_next(outcome.next);
      state->set_updates(outcome.updates);
    }
    counters_.apply_seconds.Observe(FigureSeconds() - begun);
    FAILPOINT("ps.push.applied");
  }
  pushing.End();
  const TraceSpan span("pull");
  for (const CheckedWant& wanted : step->wants) {
    Pull(wanted, reserved, *state_of(*wanted.partition), reply.pieces);
  }
  return reply;
}

}  // namespace paracord
