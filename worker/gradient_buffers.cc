#include "worker/gradient_buffers.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "common/finite.h"
#include "common/half_float.h"
#include "common/parallel.h"
#include "config/partitions.h"
#include "exchange/compression.h"
#include "exchange/encoding.h"
#include "exchange/rows.h"

namespace paracord {

GradientBuffers::GradientBuffers(const PartitionLayout& layout,
                                 std::span<const VariableSpec> variables,
                                 const TransferOptions& transfer, size_t buffers)
    : layout_(layout),
      variables_(variables),
      transfer_(transfer),
      encodings_(layout.partitions(), ENCODING_FLOAT32),
      buffers_(buffers),
      residuals_(layout.partitions()) {
  for (size_t v = 0; v < variables.size(); ++v) {
    for (const PartitionReplica& replica : layout.of_variable(v)) {
      encodings_[replica.index] = transfer.PushEncoding(replica);
    }
  }
}

void GradientBuffers::Prepare(uint32_t buffer, SharedRows rows) {
  auto& [sent, spans, of_tables, usable] = buffers_[buffer];
  if (!std::exchange(usable, true)) {
    sent = std::make_shared<Sent>();
    spans.clear();
    for (const VariableSpec& variable : variables_) {
      const bool whole = variable.trainable() && !variable.has_table();
      sent->gradients.emplace_back(whole ? ArrayElements(variable) : 0);
    }
    for (Floats& array : sent->gradients) spans.emplace_back(array);
    sent->encoded.resize(layout_.partitions());
  }
  of_tables = std::move(rows);
  for (size_t v = 0; v < variables_.size() && of_tables != nullptr; ++v) {
    if (!variables_[v].has_table() || !variables_[v].trainable()) continue;
    sent->gradients[v].resize(of_tables->ids[v].size() * RowElements(variables_[v]));
    spans[v] = sent->gradients[v];
  }
}

bool GradientBuffers::Finite(uint32_t buffer, size_t variable) const {
  return AllFinite(buffers_[buffer].spans[variable]);
}

// Encodes elements [first, first + count) of a partition that begins at `start` in its variable's
// gradient. ENCODING_TOP_K is of all elements at once.
bool GradientBuffers::EncodeRange(const PartitionReplica& replica, Sent& sent, uint64_t start,
                                  uint64_t first, uint64_t count) {
  const std::span<const float> gradient =
      std::span<const float>(sent.gradients[replica.variable]).subspan(start + first, count);
  const Encoding encoding = encodings_[replica.index];
  Bytes& out = sent.encoded[replica.index];
  if (IsDense(encoding)) {
    char* const to = out.data() + first * ElementBytes(encoding);
    EncodeDense(encoding, gradient, to);
    return AllFiniteHalf({reinterpret_cast<const uint16_t*>(to), count},
                         encoding == ENCODING_BF16 ? kBf16Exponent : kF16Exponent);
  }
  residuals_.Add(replica.index, first, gradient);
  if (encoding == ENCODING_TOP_K) return EncodeTopK(residuals_.pending(replica.index), out);
  return EncodeInt8(residuals_.pending(replica.index), out, first, count);
}

bool GradientBuffers::Encode(uint32_t buffer, size_t variable) {
  constexpr uint64_t kAtOnce = 256 << 10;  // elements
  static_assert(kAtOnce % kInt8Block == 0);
  struct Work {
    const PartitionReplica* replica;
    uint64_t start;
    uint64_t first;
    uint64_t count;
  };
  Sent& sent = *buffers_[buffer].sent;
  std::vector<Work> works;
  for (const PartitionReplica& replica : layout_.of_variable(variable)) {
    const auto [start, elements] = replica.RangeIn(buffers_[buffer].rows.get());
    const Encoding encoding = encodings_[replica.index];
    if (!replica.trained || encoding == ENCODING_FLOAT32 || elements == 0) continue;
    sent.encoded[replica.index].resize(transfer_.PushBytes(encoding, elements));
    if (!IsDense(encoding)) residuals_.Resize(replica.index, elements);
    const uint64_t step = encoding == ENCODING_TOP_K ? elements : kAtOnce;
    for (uint64_t first = 0; first < elements; first += step) {
      works.push_back({&replica, start, first, std::min(step, elements - first)});
    }
  }
  std::atomic<bool> finite = true;
  ParallelFor(works.size(), [&](size_t i) {
    const Work& work = works[i];
    if (!EncodeRange(*work.replica, sent, work.start, work.first, work.count)) finite = false;
  });
  return finite;
}

bool GradientBuffers::Has(const PartitionReplica& replica, uint32_t buffer) const {
  return replica.RangeIn(buffers_[buffer].rows.get()).elements != 0;
}

PieceView GradientBuffers::PieceOf(const PartitionReplica& replica, uint32_t buffer) const {
  const std::shared_ptr<Sent>& sent = buffers_[buffer].sent;
  const auto [first, elements] = replica.RangeIn(buffers_[buffer].rows.get());
  const char* const at =
      encodings_[replica.index] == ENCODING_FLOAT32
          ? reinterpret_cast<const char*>(sent->gradients[replica.variable].data() + first)
          : sent->encoded[replica.index].data();
  const absl::string_view bytes(at, transfer_.PushBytes(encodings_[replica.index], elements));
  return {replica.id, 0, absl::MakeCordFromExternal(bytes, [kept = sent] {})};
}

void GradientBuffers::Push(const PartitionReplica& replica, uint32_t buffer, bool staged,
                           PartitionPush& push, std::vector<PieceView>& pieces) const {
  const TableRows* const rows = buffers_[buffer].rows.get();
  push.set_bytes(transfer_.PushBytes(encodings_[replica.index], replica.RangeIn(rows).elements));
  push.set_encoding(encodings_[replica.index]);
  std::vector<PieceView> ids;
  if (replica.table) {
    NameRows(replica.IdsIn(rows), replica.id, Piece::PUSH_IDS, *push.mutable_rows(), ids);
  }
  if (staged) return;
  std::ranges::move(ids, std::back_inserter(pieces));
  if (!replica.table || push.bytes() != 0) pieces.push_back(PieceOf(replica, buffer));
}

}  // namespace paracord
