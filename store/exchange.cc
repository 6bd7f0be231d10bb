#include "store/exchange.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/mutant.h"
#include "common/parallel.h"
#include "common/status_macros.h"
#include "common/trace.h"
#include "config/data_plan.h"
#include "exchange/encoding.h"
#include "exchange/rows.h"
#include "store/gradient.h"

namespace paracord {
namespace {

struct PartitionPushed {
  Partition* partition;
  PartitionUpdate update;  // complete
  bool rejected = false;
};

struct Pushed {
  PlanBatch batch;
  std::vector<PartitionPushed> partitions;
};

absl::Status Refuse(uint32_t partition, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("partition ", partition, ": ", why));
}

// Joins the pieces of one partition, which must cover it exactly.
absl::StatusOr<absl::Cord> Assemble(uint32_t id, std::vector<PieceView>& pieces, uint64_t bytes) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const PieceView& a, const PieceView& b) { return a.offset < b.offset; });
  absl::Cord whole;
  for (PieceView& piece : pieces) {
    if (piece.data.empty()) return Refuse(id, "an empty piece");
    if (piece.offset != whole.size()) {
      return Refuse(id, absl::StrCat("a piece at offset ", piece.offset, " where ", whole.size(),
                                     " was expected"));
    }
    if (piece.data.size() > bytes - whole.size()) {
      return Refuse(id, absl::StrCat("pieces for more than its ", bytes, " bytes"));
    }
    whole.Append(std::move(piece.data));
  }
  if (whole.size() == bytes) return whole;
  return Refuse(id, absl::StrCat("pieces for ", whole.size(), " of ", bytes, " bytes"));
}

// Decodes and checks the rows that a peer names.
absl::StatusOr<RowIds> ReadRows(const Partition& partition, const RowSet& rows) {
  const uint32_t id = partition.facts().id;
  const RowLayout& layout = partition.rows();
  if (layout.rows == 0) return Refuse(id, "rows of a variable that has no axis 0");
  absl::StatusOr<RowIds> ids = DecodeRows(rows);
  if (!ids.ok()) return Refuse(id, std::string(ids.status().message()));
  const uint64_t end = layout.begin + layout.rows;
  const auto refuse = [&](uint64_t row) {
    return Refuse(
        id, absl::StrCat("row ", row, " is not one of its rows [", layout.begin, ", ", end, ")"));
  };
  // They are ascending.
  if (!ids->empty() && ids->front() < layout.begin) return refuse(ids->front());
  if (!ids->empty() && ids->back() >= end) {
    return refuse(*std::lower_bound(ids->begin(), ids->end(), end));
  }
  return ids;
}

// The elements that the gradient of a push has.
uint64_t ElementsOf(const Partition& partition, const std::optional<RowIds>& rows) {
  return rows.has_value() ? rows->size() * partition.rows().elements
                          : partition.facts().bytes / sizeof(float);
}

std::string WhereNotFinite(const Partition& partition, const PartitionUpdate& update) {
  if (!update.rows.has_value()) return "a gradient that is not finite";
  const uint64_t element = update.gradient.FirstNotFinite();
  return absl::StrCat("row ", (*update.rows)[element / partition.rows().elements],
                      " has a gradient that is not finite");
}

absl::Status ReadGradient(const PartitionPush& push, std::vector<PieceView>& pieces,
                          PartitionPushed& pushed) {
  const Partition& partition = *pushed.partition;
  const uint32_t id = partition.facts().id;
  PartitionUpdate& update = pushed.update;
  ASSIGN_OR_RETURN(absl::Cord bytes, Assemble(id, pieces, push.bytes()));
  absl::StatusOr<Gradient> gradient =
      Gradient::Read(push.encoding(), ElementsOf(partition, update.rows), std::move(bytes));
  if (!gradient.ok()) return Refuse(id, std::string(gradient.status().message()));
  update.gradient = *std::move(gradient);
  if (!update.gradient.Finite()) {
    pushed.rejected = MUTANT("rejected_by_one_ps");  // a mutant: the worker does not check, either
    if (!pushed.rejected) return Refuse(id, WhereNotFinite(partition, update));
  }
  return absl::OkStatus();
}

absl::Status CheckRows(const PartitionPush& push, bool rejected, PartitionPushed& pushed) {
  const Partition& partition = *pushed.partition;
  const uint32_t id = partition.facts().id;
  ASSIGN_OR_RETURN(RowIds rows, ReadRows(partition, push.rows()));
  if (rejected && !rows.empty()) return Refuse(id, "rows in a rejected batch");
  if (!partition.LeavesOtherRowsAlone()) {
    return Refuse(id,
                  "rows alone, where the job's optimizer or a constraint also changes the others; "
                  "\"update\": \"lazy\" of the table has the others left alone");
  }
  if (!IsDense(push.encoding())) {
    return Refuse(id, absl::StrCat("encoding ", static_cast<int>(push.encoding()),
                                   " is not one of rows, which are float32, bf16 or f16"));
  }
  pushed.update.rows = std::move(rows);
  return absl::OkStatus();
}

absl::StatusOr<PartitionPushed> CheckEntry(const Content& content, const PartitionPush& push,
                                           bool rejected) {
  Partition* partition = content.Find(push.partition());
  if (partition == nullptr) return Refuse(push.partition(), "it is not held here");
  const Partition::Facts& facts = partition->facts();
  if (!facts.trained) return Refuse(facts.id, "it is not trained");
  if (rejected && push.bytes() != 0) return Refuse(facts.id, "a gradient in a rejected batch");
  PartitionPushed pushed{partition, {}, rejected};
  if (push.has_rows()) RETURN_IF_ERROR(CheckRows(push, rejected, pushed));
  if (!push.has_rows() && push.bytes() != 0 && partition->lazy()) {
    return Refuse(facts.id, "its rows are updated lazily, and the push does not name them");
  }
  const std::optional<RowIds>& rows = pushed.update.rows;
  if (push.bytes() != 0 || (rows.has_value() && !rows->empty())) {
    const absl::Status fits =
        Gradient::CheckBytes(push.encoding(), ElementsOf(*partition, rows), push.bytes());
    if (!fits.ok()) {
      return Refuse(
          facts.id,
          absl::StrCat(std::string(fits.message()),
                       rows.has_value() ? absl::StrCat(" for ", rows->size(), " rows") : ""));
    }
  }
  return pushed;
}

// What is entered behind the job's end would be counted, and no coordinator could go on from it.
absl::Status CheckBeforeEnd(const Content& content, const BatchId& batch) {
  uint64_t place = 0;
  const bool far = __builtin_mul_overflow(batch.epoch(), BatchesPerEpoch(content.plan), &place) ||
                   __builtin_add_overflow(
                       place, BatchInEpoch(content.plan, batch.split(), batch.batch()), &place);
  if (!far && place < content.batches_end) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "batch ", batch.batch(), " of split ", batch.split(), " of epoch ", batch.epoch() + 1,
      " is behind the end of the job, which has ", content.batches_end.load(), " batches"));
}

absl::StatusOr<Pushed> CheckPush(const Content& content, DecodedRequest& request) {
  const ExchangeRequest& header = request.header;
  Pushed pushed;
  ASSIGN_OR_RETURN(pushed.batch, FindBatch(content.plan, header.batch()));
  RETURN_IF_ERROR(CheckBeforeEnd(content, header.batch()));

  std::map<uint32_t, std::vector<PieceView>> pieces;
  for (PieceView& piece : request.pieces) pieces[piece.partition].push_back(std::move(piece));
  std::set<uint32_t> named;
  for (const PartitionPush& push : header.push()) {
    if (!named.insert(push.partition()).second) {
      return Refuse(push.partition(), "named twice");
    }
    ASSIGN_OR_RETURN(PartitionPushed entry, CheckEntry(content, push, header.rejected()));
    if (push.bytes() != 0) {
      RETURN_IF_ERROR(ReadGradient(push, pieces[push.partition()], entry));
      pieces.erase(push.partition());
    }
    pushed.partitions.push_back(std::move(entry));
  }
  if (!pieces.empty()) return Refuse(pieces.begin()->first, "pieces without an entry for them");
  if (named.size() != content.trained) {
    for (const auto& partition : content.partitions) {
      if (partition->facts().trained && !named.contains(partition->facts().id)) {
        return Refuse(partition->facts().id, "the push leaves it out");
      }
    }
  }
  return pushed;
}

struct PartitionPulled {
  const Partition* partition;
  const PartitionPull* pull;
  std::optional<RowIds> rows{};  // absent: all
};

struct Checked {
  std::optional<Pushed> push;
  std::vector<PartitionPulled> pulls;
};

absl::StatusOr<std::vector<PartitionPulled>> CheckPulls(const Content& content,
                                                        const ExchangeRequest& header) {
  std::vector<PartitionPulled> pulls;
  std::set<uint32_t> named;
  for (const PartitionPull& pull : header.pull()) {
    const Partition* const partition = content.Find(pull.partition());
    if (partition == nullptr) return Refuse(pull.partition(), "it is not held here");
    if (!named.insert(pull.partition()).second) {
      return Refuse(pull.partition(), "pulled twice");
    }
    if (!IsDense(pull.encoding())) {
      return Refuse(pull.partition(), absl::StrCat("encoding ", static_cast<int>(pull.encoding()),
                                                   " is not one of values"));
    }
    PartitionPulled& pulled = pulls.emplace_back(PartitionPulled{partition, &pull});
    if (pull.has_rows()) {
      ASSIGN_OR_RETURN(pulled.rows, ReadRows(*partition, pull.rows()));
    }
  }
  return pulls;
}

// The header of the request must live as long.
absl::StatusOr<Checked> Check(const Content& content, DecodedRequest& request) {
  Checked checked;
  ASSIGN_OR_RETURN(checked.pulls, CheckPulls(content, request.header));
  if (request.header.has_batch()) {
    ASSIGN_OR_RETURN(checked.push, CheckPush(content, request));
  } else if (request.header.push_size() != 0 || request.header.rejected() ||
             !request.pieces.empty()) {
    return absl::InvalidArgumentError("a push without a batch");
  }
  return checked;
}

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

// The values of rows, copied while no push can change them.
void PullRows(const PartitionPulled& pulled, PartitionState& state,
              std::vector<PieceView>& pieces) {
  const Partition& partition = *pulled.partition;
  const Encoding encoding = pulled.pull->encoding();
  const uint64_t elements = ElementsOf(partition, pulled.rows);
  if (elements == 0) return state.set_updates(partition.PullRows({}, {}));
  PulledCopy copy(elements * ElementBytes(encoding), partition.pinned());
  state.set_bytes(copy.bytes());
  if (encoding == ENCODING_FLOAT32) {
    const std::span<float> values(reinterpret_cast<float*>(copy.data()), elements);
    state.set_updates(partition.PullRows(*pulled.rows, values));
  } else {
    const auto values = std::make_unique_for_overwrite<float[]>(elements);
    state.set_updates(partition.PullRows(*pulled.rows, {values.get(), elements}));
    EncodeDense(encoding, {values.get(), elements}, copy.data());
  }
  pieces.push_back({partition.facts().id, 0, CordOf(std::move(copy))});
}

void Pull(const PartitionPulled& pulled, PartitionState& state, std::vector<PieceView>& pieces) {
  if (pulled.rows.has_value()) return PullRows(pulled, state, pieces);
  const Partition& partition = *pulled.partition;
  const PartitionPull& pull = *pulled.pull;
  ChunkRefs values;
  const uint64_t updates = partition.Pull(values);
  state.set_updates(updates);
  if (pull.has_have_updates() && pull.have_updates() == updates) return;
  const uint64_t element_bytes = ElementBytes(pull.encoding());
  state.set_bytes(partition.facts().bytes / sizeof(float) * element_bytes);
  const size_t first = pieces.size();
  uint64_t offset = 0;
  for (const ChunkRef& chunk : values) {
    pieces.push_back({partition.facts().id, offset, {}});
    offset += chunk.values().size() * element_bytes;
  }
  if (pull.encoding() == ENCODING_FLOAT32) {
    for (size_t i = 0; i < values.size(); ++i) {
      pieces[first + i].data = CordOf(PulledChunk(std::move(values[i]), partition.pinned()));
    }
  } else {
    std::vector<PulledCopy> copies;
    for (const ChunkRef& chunk : values) {
      copies.emplace_back(chunk.values().size() * element_bytes, partition.pinned());
    }
    ParallelFor(values.size(), [&](size_t i) {
      EncodeDense(pull.encoding(), values[i].values(), copies[i].data());
      pieces[first + i].data = CordOf(std::move(copies[i]));
    });
  }
}

// Counts one push in Content::pushes while it lives.
class Pushing {
 public:
  explicit Pushing(const Content& content) : pushes_(content.pushes) { ++pushes_; }
  ~Pushing() { --pushes_; }
  Pushing(const Pushing&) = delete;
  Pushing& operator=(const Pushing&) = delete;

 private:
  std::atomic<int>& pushes_;
};

}  // namespace

absl::StatusOr<Parts> RunExchange(const Content& content, DecodedRequest request,
                                  ExchangeCounters& counters, const PushFence& fence) {
  FAILPOINT("ps.push.received");
  std::optional<Pushing> pushing;
  if (request.header.has_batch()) pushing.emplace(content);
  const int64_t received = TraceBegin();
  absl::StatusOr<Checked> checked = Check(content, request);
  TraceEnd("check", received);
  if (!checked.ok()) {
    if (request.header.has_batch()) ++counters.refused;
    return checked.status();
  }
  FAILPOINT("ps.push.validated");

  ExchangeReply reply;
  std::map<uint32_t, PartitionState*> states;
  const auto state_of = [&](uint32_t id) {
    PartitionState*& state = states[id];
    if (state == nullptr) {
      // Its address is stable: repeated messages are held by pointer.
      state = reply.add_partitions();
      state->set_partition(id);
    }
    return state;
  };
  if (const std::optional<Pushed>& pushed = checked->push) {
    const TraceSpan span("apply");
    for (const PartitionPushed& entry : pushed->partitions) {
      const Partition::PushResult result =
          entry.partition->Push(pushed->batch, entry.rejected, entry.update, fence);
      if (result.outcome == PUSH_NONE) {
        return absl::AbortedError("a newer generation began while the push was under way");
      }
      if (result.outcome == PUSH_ALREADY_APPLIED) ++counters.duplicates;
      PartitionState* state = state_of(entry.partition->facts().id);
      state->set_outcome(result.outcome);
      state->set_next(result.next);
      state->set_updates(result.updates);
    }
    FAILPOINT("ps.push.applied");
  }
  pushing.reset();
  const TraceSpan span("pull");
  std::vector<PieceView> pieces;
  for (const PartitionPulled& pulled : checked->pulls) {
    Pull(pulled, *state_of(pulled.partition->facts().id), pieces);
  }
  return EncodeExchange(reply, std::move(pieces));
}

}  // namespace paracord
