#include "worker/parameter_copy.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "common/aligned_memory.h"
#include "common/finite.h"
#include "common/half_float.h"
#include "common/parallel.h"
#include "config/partitions.h"
#include "exchange/codec.h"
#include "exchange/compression.h"
#include "exchange/encoding.h"
#include "exchange/rows.h"
#include "proto/protocol.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

uint64_t Rows(const VariableSpec& variable) {
  return variable.shape_size() == 0 ? 1 : variable.shape(0);
}

uint64_t Elements(const VariableSpec& variable) { return Rows(variable) * RowElements(variable); }

}  // namespace

ParameterCopy::ParameterCopy(const Session& session, std::span<const VariableSpec> variables,
                             const TransferOptions& transfer, ValuesIn memory, size_t devices)
    : session_(session),
      variables_(variables.begin(), variables.end()),
      transfer_(transfer),
      parts_(static_cast<size_t>(session.ps_size())),
      part_of_id_(parts_.size()),
      parts_of_(variables.size()),
      resource_(memory == ValuesIn::kShared ? SharedMemoryResource() : AlignedMemoryResource()),
      buffers_(std::max<size_t>(devices, 2)) {
  for (const VariableSpec& variable : variables_) {
    has_tables_ = has_tables_ || variable.has_table();
    value_spans_.emplace_back(
        values_.emplace_back(variable.has_table() ? 0 : Elements(variable), resource_));
  }
  for (const PartitionSpec& partition : session.partitions()) {
    if (partition.variable() >= variables_.size() || partition.ps() >= parts_.size()) continue;
    const uint64_t rows = Rows(variables_[partition.variable()]);
    if (partition.row_begin() > partition.row_end() || partition.row_end() > rows) continue;
    AddPart(partition.ps(), MakePart(partition));
    AddCopies(partition);
  }
  for (std::vector<Part>& parts : parts_) {
    for (Part& part : parts) {
      if (!part.state_only) parts_of_[part.variable].push_back(&part);
    }
  }
}

void ParameterCopy::AddPart(uint32_t ps, const Part& part) {
  if (part_of_id_[ps].emplace(part.id, parts_[ps].size()).second) parts_[ps].push_back(part);
}

// What is encoded for the first holder is sent to the others, too.
void ParameterCopy::AddCopies(const PartitionSpec& partition) {
  for (const uint32_t ps : partition.copies()) {
    if (ps >= parts_.size() || ps == partition.ps()) continue;
    has_copies_ = true;
    Part copy = *FindPart(partition.ps(), partition.id());
    copy.state_only = true;
    AddPart(ps, copy);
  }
}

ParameterCopy::Part ParameterCopy::MakePart(const PartitionSpec& partition) {
  const VariableSpec& variable = variables_[partition.variable()];
  Part part;
  part.id = partition.id();
  part.variable = partition.variable();
  part.row_begin = partition.row_begin();
  part.row_end = partition.row_end();
  part.row = RowElements(variable);
  part.table = variable.has_table();
  part.trained = variable.trainable();
  part.place = places_++;
  part.read_updates.resize(buffers_.size());
  // A moving statistic is pushed as it was observed, and may be of any size.
  if (variable.moving_average() > 0) return part;
  part.push = part.pull = transfer_.wire;
  if (part.table) return part;
  constexpr uint64_t kIndices = uint64_t{1} << 32;
  const auto kind = transfer_.compression.kind;
  if (kind == CompressionSpec::Kind::kInt8) part.push = ENCODING_INT8;
  if (kind == CompressionSpec::Kind::kTopK && RangeOf(part, nullptr).elements <= kIndices)
    part.push = ENCODING_TOP_K;
  return part;
}

uint64_t ParameterCopy::PushBytes(const Part& part, uint64_t elements) const {
  if (part.push == ENCODING_INT8) return Int8Bytes(elements);
  if (part.push == ENCODING_TOP_K) {
    return TopKCount(elements, transfer_.compression.ratio) * kTopKEntryBytes;
  }
  return elements * ElementBytes(part.push);
}

// The ids of a table that are the partition's.
std::span<const uint64_t> ParameterCopy::IdsOf(const Part& part, const TableRows* rows) {
  if (!part.table || rows == nullptr) return {};
  const std::vector<uint64_t>& ids = rows->ids[part.variable];
  if (rows->has_shards(part.variable)) {
    const std::vector<uint32_t>& shards = rows->shards[part.variable];
    const uint32_t first = shards[part.row_begin];
    return std::span(ids).subspan(first, shards[part.row_end] - first);
  }
  const auto begin = std::ranges::lower_bound(ids, part.row_begin);
  return {begin, std::lower_bound(begin, ids.end(), part.row_end)};
}

// Returns the partition's range in an array that has these rows of a table, or all of a variable.
ParameterCopy::Range ParameterCopy::RangeOf(const Part& part, const TableRows* rows) {
  if (!part.table) return {part.row_begin * part.row, (part.row_end - part.row_begin) * part.row};
  const std::span<const uint64_t> own = IdsOf(part, rows);
  if (own.empty()) return {};
  const uint64_t* const all = rows->ids[part.variable].data();
  return {static_cast<uint64_t>(own.data() - all) * part.row, own.size() * part.row};
}

// A further holder brings no values.
ParameterCopy::Range ParameterCopy::PulledRange(const Part& part, const ExchangeOrder& order) {
  if (part.state_only) return {};
  return RangeOf(part, order.incoming == nullptr ? nullptr : order.incoming->rows.get());
}

// Where the values of the partition's variable go.
std::span<float> ParameterCopy::PulledArray(const Part& part, const ExchangeOrder& order) {
  if (!part.table) return values_[part.variable];
  return order.incoming->values[part.variable];
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
  for (std::vector<Part>& parts : parts_) {
    for (Part& part : parts) part.read_updates[buffer] = part.updates;
  }
}

void ParameterCopy::PrepareGradients(uint32_t buffer, SharedRows rows) {
  auto& [sent, spans, of_tables, usable] = buffers_[buffer];
  if (!std::exchange(usable, true)) {
    sent = std::make_shared<Sent>();
    spans.clear();
    for (const VariableSpec& variable : variables_) {
      const bool whole = variable.trainable() && !variable.has_table();
      sent->gradients.emplace_back(whole ? Elements(variable) : 0);
    }
    for (Floats& array : sent->gradients) spans.emplace_back(array);
    sent->parts.resize(places_);
  }
  of_tables = std::move(rows);
  for (size_t v = 0; v < variables_.size() && of_tables != nullptr; ++v) {
    if (!variables_[v].has_table() || !variables_[v].trainable()) continue;
    sent->gradients[v].resize(of_tables->ids[v].size() * RowElements(variables_[v]));
    spans[v] = sent->gradients[v];
  }
}

bool ParameterCopy::GradientFinite(uint32_t buffer, size_t variable) const {
  return AllFinite(buffers_[buffer].spans[variable]);
}

// Elements [first, first + count) of those that begin at `start`; of ENCODING_TOP_K, all.
bool ParameterCopy::EncodePart(Part& part, Sent& sent, uint64_t start, uint64_t first,
                               uint64_t count) const {
  const std::span<const float> gradient =
      std::span<const float>(sent.gradients[part.variable]).subspan(start + first, count);
  Bytes& out = sent.parts[part.place];
  if (IsDense(part.push)) {
    char* const to = out.data() + first * ElementBytes(part.push);
    EncodeDense(part.push, gradient, to);
    return AllFiniteHalf({reinterpret_cast<const uint16_t*>(to), count},
                         part.push == ENCODING_BF16 ? kBf16Exponent : kF16Exponent);
  }
  AddResidual(gradient, std::span(part.residual).subspan(first, count),
              std::span(part.rest).subspan(first, count));
  if (part.push == ENCODING_TOP_K) return EncodeTopK(part.rest, out);
  return EncodeInt8(part.rest, out, first, count);
}

bool ParameterCopy::Encode(uint32_t buffer, size_t variable) {
  constexpr uint64_t kAtOnce = 256 << 10;  // elements
  static_assert(kAtOnce % kInt8Block == 0);
  struct Work {
    Part* part;
    uint64_t start;
    uint64_t first;
    uint64_t count;
  };
  Sent& sent = *buffers_[buffer].sent;
  std::vector<Work> works;
  for (Part* const part : parts_of_[variable]) {
    const auto [start, elements] = RangeOf(*part, buffers_[buffer].rows.get());
    if (!part->trained || part->push == ENCODING_FLOAT32 || elements == 0) continue;
    sent.parts[part->place].resize(PushBytes(*part, elements));
    if (!IsDense(part->push)) {
      part->residual.resize(elements);
      part->rest.resize(elements);
    }
    const uint64_t step = part->push == ENCODING_TOP_K ? elements : kAtOnce;
    for (uint64_t first = 0; first < elements; first += step) {
      works.push_back({part, start, first, std::min(step, elements - first)});
    }
  }
  std::atomic<bool> finite = true;
  ParallelFor(works.size(), [&](size_t i) {
    const Work& work = works[i];
    if (!EncodePart(*work.part, sent, work.start, work.first, work.count)) finite = false;
  });
  return finite;
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

// The whole of it, where it lies.
PieceView ParameterCopy::PieceOf(const Part& part, uint32_t buffer) const {
  const std::shared_ptr<Sent>& sent = buffers_[buffer].sent;
  const auto [first, elements] = RangeOf(part, buffers_[buffer].rows.get());
  const char* const at =
      part.push == ENCODING_FLOAT32
          ? reinterpret_cast<const char*>(sent->gradients[part.variable].data() + first)
          : sent->parts[part.place].data();
  const absl::string_view bytes(at, PushBytes(part, elements));
  return {part.id, 0, absl::MakeCordFromExternal(bytes, [held = sent] {})};
}

PartitionPush ParameterCopy::PushOf(const Part& part, const ExchangeOrder& order) const {
  PartitionPush push;
  push.set_partition(part.id);
  if (order.rejected) return push;
  const TableRows* const rows = buffers_[order.buffer].rows.get();
  push.set_bytes(PushBytes(part, RangeOf(part, rows).elements));
  push.set_encoding(part.push);
  return push;
}

// Names the rows of a table's push, whose ids go before their gradients.
void ParameterCopy::NamePushed(const Part& part, uint32_t buffer, RowSet& rows,
                               std::vector<PieceView>& pieces) const {
  NameRows(IdsOf(part, buffers_[buffer].rows.get()), part.id, Piece::PUSH_IDS, rows, pieces);
}

Parts ParameterCopy::StageRequest(uint32_t ps, const std::string& worker, const std::string& id,
                                  uint32_t buffer, std::span<const size_t> variables) const {
  std::vector<PieceView> pieces;
  for (const Part& part : parts_[ps]) {
    if (!part.trained || RangeOf(part, buffers_[buffer].rows.get()).elements == 0) continue;
    if (std::ranges::find(variables, part.variable) == variables.end()) continue;
    RowSet rows;
    if (part.table) NamePushed(part, buffer, rows, pieces);
    pieces.push_back(PieceOf(part, buffer));
  }
  if (pieces.empty()) return {};
  ExchangeRequest header = Header(ps, worker);
  header.mutable_staged()->set_id(id);
  header.mutable_staged()->set_bytes(PieceBytes(pieces));
  return EncodeExchange(header, std::move(pieces));
}

Parts ParameterCopy::Request(uint32_t ps, const std::string& worker, const ExchangeOrder& order,
                             const StagedGradients* staged) const {
  ExchangeRequest header = Header(ps, worker);
  if (order.batch.has_value()) *header.mutable_batch() = *order.batch;
  if (order.lanes > 1) header.set_lanes(order.lanes);
  header.set_rejected(order.rejected);
  header.set_rejection(order.rejection);
  header.set_proof(order.proof);
  if (order.state.has_value()) {
    header.set_state(*order.state);
    header.set_wait_ms(order.wait_ms);
    header.set_squares(has_copies_);
    if (order.norms.has_value()) *header.mutable_norms() = *order.norms;
  }
  if (staged != nullptr) {
    header.mutable_staged()->set_id(staged->id);
    header.mutable_staged()->set_calls(staged->calls[ps]);
  }
  std::vector<PieceView> pieces;
  for (const Part& part : parts_[ps]) {
    const Encoding wanted = PullOf(part, order);
    PartitionPull& pull = *header.add_pull();
    pull.set_partition(part.id);
    pull.set_encoding(wanted);
    if (part.state_only) {
      pull.set_state_only(true);
    } else if (part.table) {
      const TableRows* const rows =
          order.incoming == nullptr ? nullptr : order.incoming->rows.get();
      NameRows(IdsOf(part, rows), part.id, Piece::PULL_IDS, *pull.mutable_rows(), pieces);
    } else if (part.have == wanted) {
      pull.set_known_version(part.updates);
    }
    if (!order.batch.has_value() || !part.trained) continue;
    PartitionPush& push = *header.add_push() = PushOf(part, order);
    if (order.rejected) continue;
    std::vector<PieceView> own;
    if (part.table) NamePushed(part, order.buffer, *push.mutable_rows(), own);
    if (staged != nullptr && staged->variables[part.variable]) continue;
    std::ranges::move(own, std::back_inserter(pieces));
    if (!part.table || push.bytes() != 0) pieces.push_back(PieceOf(part, order.buffer));
  }
  return EncodeExchange(header, std::move(pieces));
}

ParameterCopy::Part* ParameterCopy::FindPart(uint32_t ps, uint32_t id) {
  const auto found = part_of_id_[ps].find(id);
  return found == part_of_id_[ps].end() ? nullptr : &parts_[ps][found->second];
}

Encoding ParameterCopy::PullOf(const Part& part, const ExchangeOrder& order) {
  return order.exact ? ENCODING_FLOAT32 : part.pull;
}

char* ParameterCopy::PlaceOf(uint32_t ps, const ExchangeOrder& order, uint32_t partition,
                             uint64_t offset, uint64_t bytes) {
  const Part* const part = FindPart(ps, partition);
  if (part == nullptr || PullOf(*part, order) != ENCODING_FLOAT32) return nullptr;
  const auto [first, elements] = PulledRange(*part, order);
  const uint64_t all = elements * sizeof(float);
  if (offset > all || bytes > all - offset || all == 0) return nullptr;
  return reinterpret_cast<char*>(PulledArray(*part, order).data() + first) + offset;
}

uint64_t ParameterCopy::ReplyBytesMax(uint32_t ps, const ExchangeOrder& order) const {
  constexpr uint64_t kAround = 256;  // what says of which partition and place it is, with room
  uint64_t bytes = 64 << 10;
  for (const Part& part : parts_[ps]) {
    const uint64_t values = PulledRange(part, order).elements * ElementBytes(PullOf(part, order));
    bytes += values + kAround * (2 + values / kPieceBytes);
  }
  return bytes;
}

void ParameterCopy::ForgetResiduals(uint32_t ps) {
  for (Part& part : parts_[ps]) part.residual.clear();
}

void ParameterCopy::ForgetValues(uint32_t ps) {
  for (Part& part : parts_[ps]) part.have.reset();
}

}  // namespace paracord
