#include "store/exchange.h"

#include <algorithm>
#include <atomic>
#include <map>
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
#include "store/gradient.h"

namespace paracord {
namespace {

struct PartitionPushed {
  Partition* partition;
  Gradient gradient;  // complete, or empty if there is none
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

absl::Status ReadGradient(const PartitionPush& push, std::vector<PieceView>& pieces,
                          PartitionPushed& pushed) {
  const Partition::Facts& facts = pushed.partition->facts();
  ASSIGN_OR_RETURN(absl::Cord bytes, Assemble(facts.id, pieces, push.bytes()));
  absl::StatusOr<Gradient> gradient =
      Gradient::Read(push.encoding(), facts.bytes / sizeof(float), std::move(bytes));
  if (!gradient.ok()) return Refuse(facts.id, std::string(gradient.status().message()));
  pushed.gradient = *std::move(gradient);
  if (!pushed.gradient.Finite()) {
    pushed.rejected = MUTANT("rejected_by_one_ps");  // a mutant: the worker does not check, either
    if (!pushed.rejected) return Refuse(facts.id, "a gradient that is not finite");
  }
  return absl::OkStatus();
}

absl::StatusOr<PartitionPushed> CheckEntry(const Content& content, const PartitionPush& push,
                                           bool rejected) {
  Partition* partition = content.Find(push.partition());
  if (partition == nullptr) return Refuse(push.partition(), "it is not held here");
  const Partition::Facts& facts = partition->facts();
  if (!facts.trained) return Refuse(facts.id, "it is not trained");
  if (rejected && push.bytes() != 0) return Refuse(facts.id, "a gradient in a rejected batch");
  if (push.bytes() != 0) {
    const absl::Status fits =
        Gradient::CheckBytes(push.encoding(), facts.bytes / sizeof(float), push.bytes());
    if (!fits.ok()) return Refuse(facts.id, std::string(fits.message()));
  }
  return PartitionPushed{partition, {}, rejected};
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

absl::Status CheckPulls(const Content& content, const ExchangeRequest& header) {
  std::set<uint32_t> named;
  for (const PartitionPull& pull : header.pull()) {
    if (content.Find(pull.partition()) == nullptr) {
      return Refuse(pull.partition(), "it is not held here");
    }
    if (!named.insert(pull.partition()).second) {
      return Refuse(pull.partition(), "pulled twice");
    }
    if (!IsDense(pull.encoding())) {
      return Refuse(pull.partition(), absl::StrCat("encoding ", static_cast<int>(pull.encoding()),
                                                   " is not one of values"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Pushed>> Check(const Content& content, DecodedRequest& request) {
  RETURN_IF_ERROR(CheckPulls(content, request.header));
  if (request.header.has_batch()) {
    ASSIGN_OR_RETURN(Pushed pushed, CheckPush(content, request));
    return std::optional<Pushed>(std::move(pushed));
  }
  if (request.header.push_size() != 0 || request.header.rejected() || !request.pieces.empty()) {
    return absl::InvalidArgumentError("a push without a batch");
  }
  return std::optional<Pushed>();
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

void Pull(const Partition& partition, const PartitionPull& pull, PartitionState& state,
          std::vector<PieceView>& pieces) {
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
  absl::StatusOr<std::optional<Pushed>> pushed = Check(content, request);
  TraceEnd("check", received);
  if (!pushed.ok()) {
    if (request.header.has_batch()) ++counters.refused;
    return pushed.status();
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
  if (pushed->has_value()) {
    const TraceSpan span("apply");
    for (const PartitionPushed& entry : (*pushed)->partitions) {
      const Partition::PushResult result =
          entry.partition->Push((*pushed)->batch, entry.rejected, entry.gradient, fence);
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
  for (const PartitionPull& pull : request.header.pull()) {
    const Partition* partition = content.Find(pull.partition());
    Pull(*partition, pull, *state_of(pull.partition()), pieces);
  }
  return EncodeExchange(reply, std::move(pieces));
}

}  // namespace paracord
