#include "store/dense_partition.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "common/parallel.h"
#include "common/status_macros.h"
#include "store/norm_constraint.h"
#include "store/round_gate.h"

namespace paracord {

void FillSlots(const Optimizer& optimizer, PartitionContents& contents) {
  for (const SlotSpec& slot : optimizer.slots) {
    contents.slots.emplace_back(contents.value.elements());
    Block& block = contents.slots.back();
    block.Fill(slot.initial);
    for (size_t i = 0; slot.of_value && i < block.chunks().size(); ++i) {
      std::ranges::copy(contents.value.chunks()[i].values(),
                        block.chunks()[i].mutable_values().begin());
    }
  }
}

namespace {

// Installs a chunk from Block::Writable, which may be the present chunk.
void Replace(Block& block, size_t i, ChunkRef chunk, PinnedBytes& pinned) {
  if (block.chunks()[i] != chunk) pinned.Replaced(block.chunks()[i]);
  block.Replace(i, std::move(chunk));
}

}  // namespace

DensePartition::DensePartition(Facts facts, const Optimizer& optimizer, PartitionContents contents,
                               std::shared_ptr<PinnedBytes> pinned,
                               const std::optional<RoundsOptions>& rounds)
    : Partition(std::move(facts), std::move(pinned)),
      slots_(this->facts().trained ? optimizer.slots : std::vector<SlotSpec>()),
      optimizer_(optimizer),
      contents_(std::move(contents)),
      rounds_(rounds.has_value()
                  ? std::make_unique<PartitionRounds>(
                        *rounds, RoundSum::Shape{.elements = this->facts().bytes / sizeof(float)})
                  : nullptr) {
  if (rounds.has_value() && rounds->keeps_before) before_.emplace();
}

// A partition that is destroyed was replaced as a whole, with all of its chunks.
DensePartition::~DensePartition() {
  for (const ChunkRef& chunk : contents_.value.chunks()) pinned()->Replaced(chunk);
}

uint64_t DensePartition::resident_bytes() const { return facts().bytes * (1 + slots_.size()); }

bool DensePartition::SetLearningRate(const LearningRate& rate, const PushFence& fence) {
  MutexLock lock(mu_);
  if (fence.over()) return false;
  optimizer_.learning_rate = rate;
  return true;
}

Outcome DensePartition::Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                             const PushFence& fence) {
  if (rounds_ != nullptr) return PushLane(batch, rejected, update, fence);
  MutexLock lock(mu_);
  if (fence.over()) return {};
  const PartitionLedger::Entry entry = contents_.ledger.Enter(batch, rejected);
  if (entry.outcome == PUSH_APPLIED && !rejected) TakeStep(update);
  return {entry.outcome, entry.next, contents_.updates};
}

Outcome DensePartition::PushLane(const PlanBatch& batch, bool rejected,
                                 const PartitionUpdate& update, const PushFence& fence) {
  std::unique_ptr<RoundSum::Buffer> fresh;
  if (!rejected && !update.none()) fresh = rounds_->MakeBuffer();
  MutexLock lock(mu_);
  if (fence.over()) return {};
  const PartitionLedger::Entry entry =
      rounds_->Take(fence.generation(), batch, rejected, update, contents_.ledger, fresh);
  const bool taken = entry.outcome == PUSH_TAKEN || entry.outcome == PUSH_APPLIED;
  if (taken && !rejected && before_.has_value()) before_->Drop();
  if (entry.outcome == PUSH_APPLIED) ApplyRound();
  return {entry.outcome, entry.next, contents_.updates};
}

void DensePartition::ApplyRound() {
  if (before_.has_value()) before_->Keep(contents_.value, contents_.updates);
  if (rounds_->Enter(contents_.ledger)) {
    if (!rounds_->MeanIsFinite()) contents_.healthy = false;
    TakeStep(rounds_->Mean());
  }
  rounds_->Next();
}

bool DensePartition::TakeNorms(const RoundNorms& norms, const PushFence& fence) {
  if (rounds_ == nullptr) return false;
  MutexLock lock(mu_);
  if (fence.over() || !rounds_->Clip(fence.generation(), norms)) return false;
  ApplyRound();
  return true;
}

std::optional<Partition::MeanSquares> DensePartition::SquaresOfMean(uint64_t generation) const {
  if (rounds_ == nullptr) return {};
  MutexLock lock(mu_);
  return rounds_->SquaresOfMean(generation);
}

void DensePartition::TakeStep(const PartitionUpdate& update) {
  const uint64_t step = contents_.steps++;
  if (update.none()) return;
  const UpdateScalars scalars = ScalarsAt(optimizer_, step);
  const Gradient& gradient = update.gradient;
  bool finite = true;
  if (gradient.sparse() && ZeroGradientChangesNothing(optimizer_)) {
    finite = ApplySparse(scalars, gradient);
  } else {
    finite = ApplyDense(scalars, gradient);
  }
  if (optimizer_.norm.has_value()) Constrain();
  if (!finite) contents_.healthy = false;
  ++contents_.updates;
}

std::vector<Block*> DensePartition::Blocks() {
  std::vector<Block*> blocks = {&contents_.value};
  for (Block& slot : contents_.slots) blocks.push_back(&slot);
  return blocks;
}

ChunkRef DensePartition::WritableOf(const Block& block, size_t i) {
  const bool keeps = before_.has_value() && &block == &contents_.value;
  return keeps ? before_->Writable(block, i) : block.Writable(i);
}

bool DensePartition::ApplyDense(const UpdateScalars& scalars, const Gradient& gradient) {
  const std::vector<Block*> blocks = Blocks();
  const size_t chunks = contents_.value.chunks().size();
  std::vector<std::vector<ChunkRef>> out(blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (size_t i = 0; i < chunks; ++i) out[b].push_back(WritableOf(*blocks[b], i));
  }
  const uint64_t elements = contents_.value.elements();
  std::atomic<bool> finite = true;
  ParallelFor((elements + kPartElements - 1) / kPartElements, [&](size_t part) {
    const uint64_t begin = part * kPartElements;
    const uint64_t end = std::min(begin + kPartElements, elements);
    Gradient::Reader reader(gradient, begin, end - begin);
    alignas(64) std::array<float, kFloatsAtOnce> buffer;
    for (uint64_t at = begin; at < end; at += kFloatsAtOnce) {
      const size_t chunk = at / kChunkElements;
      const auto in = [&](size_t b) {
        return blocks[b]->chunks()[chunk].values().data() + at % kChunkElements;
      };
      const auto to = [&](size_t b) {
        return out[b][chunk].mutable_values().data() + at % kChunkElements;
      };
      const std::span<float> room = std::span(buffer).first(std::min(kFloatsAtOnce, end - at));
      UpdateArrays arrays{.gradient = reader.Next(room), .value_in = in(0), .value_out = to(0)};
      for (size_t s = 0; s + 1 < blocks.size(); ++s) {
        arrays.slots_in[s] = in(s + 1);
        arrays.slots_out[s] = to(s + 1);
      }
      if (!UpdateElements(optimizer_, scalars, arrays)) finite = false;
    }
  });
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (size_t i = 0; i < chunks; ++i) Replace(*blocks[b], i, std::move(out[b][i]), *pinned());
  }
  return finite;
}

// In place but for chunks that a reader holds.
void DensePartition::Constrain() {
  Block& value = contents_.value;
  std::vector<ChunkRef> out;
  std::vector<std::span<float>> spans;
  for (size_t i = 0; i < value.chunks().size(); ++i) {
    out.push_back(WritableOf(value, i));
    const std::span<const float> in = value.chunks()[i].values();
    spans.push_back(out.back().mutable_values());
    if (spans.back().data() != in.data()) std::ranges::copy(in, spans.back().begin());
  }
  ScaleToNorm(*optimizer_.norm, facts().shape, spans);
  for (size_t i = 0; i < out.size(); ++i) Replace(value, i, std::move(out[i]), *pinned());
}

bool DensePartition::ApplySparse(const UpdateScalars& scalars, const Gradient& gradient) {
  std::atomic<bool> finite = true;
  ParallelFor(contents_.value.chunks().size(), [&](size_t i) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (!ApplyEntries(i, scalars, gradient.EntriesIn(i * kChunkElements, kChunkElements))) {
      finite = false;
    }
  });
  return finite;
}

// Updates only the elements of a sparse gradient: gathers them, updates them as usual, puts them
// back.
bool DensePartition::ApplyEntries(size_t index, const UpdateScalars& scalars,
                                  Gradient::Entries entries) {
  if (entries.indices.empty()) return true;
  constexpr size_t kAtOnce = 1024;
  std::array<std::array<float, kAtOnce>, 1 + kSlotsMax> gathered;
  const std::vector<Block*> blocks = Blocks();
  std::vector<ChunkRef> out;
  for (const Block* block : blocks) {
    out.push_back(WritableOf(*block, index));
    const std::span<const float> in = block->chunks()[index].values();
    const std::span<float> fresh = out.back().mutable_values();
    if (fresh.data() != in.data()) std::ranges::copy(in, fresh.begin());
  }
  bool finite = true;
  const uint64_t first = index * kChunkElements;
  for (size_t done = 0; done < entries.indices.size(); done += kAtOnce) {
    const size_t count = std::min(kAtOnce, entries.indices.size() - done);
    const std::span<const uint32_t> indices = entries.indices.subspan(done, count);
    UpdateArrays arrays{.gradient = entries.values.subspan(done, count),
                        .value_in = gathered[0].data(),
                        .value_out = gathered[0].data()};
    for (size_t b = 0; b < blocks.size(); ++b) {
      const std::span<const float> from = out[b].values();
      for (size_t i = 0; i < count; ++i) gathered[b][i] = from[indices[i] - first];
      if (b == 0) continue;
      arrays.slots_in[b - 1] = arrays.slots_out[b - 1] = gathered[b].data();
    }
    finite = UpdateElements(optimizer_, scalars, arrays) && finite;
    for (size_t b = 0; b < blocks.size(); ++b) {
      const std::span<float> to = out[b].mutable_values();
      for (size_t i = 0; i < count; ++i) to[indices[i] - first] = gathered[b][i];
    }
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    Replace(*blocks[b], index, std::move(out[b]), *pinned());
  }
  return finite;
}

absl::StatusOr<uint64_t> DensePartition::PullAt(AtState state, ChunkRefs& values) const {
  MutexLock lock(mu_);
  if (rounds_ != nullptr) {
    const bool kept = before_.has_value() && before_->kept();
    ASSIGN_OR_RETURN(const bool before, rounds_->IsBefore(facts(), state, kept));
    if (before) values = before_->values();
    if (before) return before_->updates();
  }
  values = contents_.value.chunks();
  return contents_.updates;
}

DensePartition::Image DensePartition::TakeImage() const {
  MutexLock lock(mu_);
  return ImageHeld();
}

DensePartition::Image DensePartition::ImageHeld() const {
  Image image{CountsNow(), contents_.value.chunks(), {}};
  for (const Block& slot : contents_.slots) image.slots.push_back(slot.chunks());
  return image;
}

absl::StatusOr<Partition::Lack> DensePartition::LackOf(const DataPlan& plan, uint64_t state) const {
  MutexLock lock(mu_);
  if (rounds_ == nullptr) return Lack{MissingLanes(contents_.ledger, plan, state)};
  return rounds_->LackOf(facts(), state, before_.has_value() && before_->kept());
}

DensePartition::Counts DensePartition::CountsNow() const {
  Counts counts{
      .ledger = contents_.ledger, .updates = contents_.updates, .healthy = contents_.healthy};
  counts.learning_rate = NewestRate(optimizer_.learning_rate, contents_.steps);
  if (rounds_ == nullptr) return counts;
  counts.state = rounds_->state();
  counts.serves_before = before_.has_value() && before_->kept();
  return counts;
}

DensePartition::Counts DensePartition::GetCounts() const {
  MutexLock lock(mu_);
  return CountsNow();
}

absl::Status DensePartition::ReferAt(uint64_t state, PartitionImage& image,
                                     std::function<void()> referred) {
  if (rounds_ == nullptr) return Partition::ReferAt(state, image, std::move(referred));
  MutexLock lock(mu_);
  return rounds_->ReferAt(facts(), state, image, std::move(referred));
}

void DensePartition::ForgetImage() {
  if (rounds_ == nullptr) return;
  MutexLock lock(mu_);
  rounds_->ForgetImage();
}

namespace {

// Memory for a copy. Its pages are touched here and not under a partition's lock.
ChunkRefs FreshChunks(uint64_t elements) {
  constexpr size_t kPageFloats = 4096 / sizeof(float);
  ChunkRefs chunks = Block(elements).chunks();
  for (const ChunkRef& chunk : chunks) {
    const std::span<float> values = chunk.mutable_values();
    for (size_t i = 0; i < values.size(); i += kPageFloats) values[i] = 0;
  }
  return chunks;
}

class DenseImage : public PartitionImage {
 public:
  DenseImage(const DensePartition& partition, bool copied) : partition_(partition) {
    const uint64_t elements = partition.facts().bytes / sizeof(float);
    for (size_t b = 0; copied && b < 1 + partition.slots().size(); ++b) {
      room_.push_back(FreshChunks(elements));
    }
  }

  void Refer() override { image_ = partition_.TakeImage(); }
  void ReferHeld() override ABSL_NO_THREAD_SAFETY_ANALYSIS { image_ = partition_.ImageHeld(); }
  void Copy() override {
    if (room_.empty()) return;
    MoveTo(room_[0], image_.value);
    for (size_t s = 0; s < image_.slots.size(); ++s) MoveTo(room_[s + 1], image_.slots[s]);
  }
  const Partition::Counts& counts() const override { return image_; }
  std::vector<TensorInfo> tensors() const override {
    const std::string& name = partition_.facts().name;
    std::vector<TensorInfo> tensors;
    tensors.push_back({.name = name, .shape = partition_.facts().shape});
    for (const SlotSpec& slot : partition_.slots()) {
      tensors.push_back(
          {.name = SlotTensorName(name, slot.name), .shape = partition_.facts().shape});
    }
    return tensors;
  }
  PartitionMetadata metadata() const override {
    return {.updates = image_.updates, .healthy = image_.healthy, .table = {}};
  }
  absl::Status Write(const AppendFn& append) override {
    RETURN_IF_ERROR(Append(append, image_.value));
    for (ChunkRefs& slot : image_.slots) RETURN_IF_ERROR(Append(append, slot));
    return absl::OkStatus();
  }

 private:
  static void MoveTo(ChunkRefs& room, ChunkRefs& chunks) {
    for (size_t i = 0; i < chunks.size(); ++i) {
      std::ranges::copy(chunks[i].values(), room[i].mutable_values().begin());
      chunks[i] = std::move(room[i]);
    }
  }
  // Releases each chunk after writing it, so that training need not copy the chunk on write.
  static absl::Status Append(const AppendFn& append, ChunkRefs& chunks) {
    for (ChunkRef& chunk : chunks) {
      const std::span<const float> values = chunk.values();
      RETURN_IF_ERROR(append({reinterpret_cast<const char*>(values.data()), values.size_bytes()}));
      chunk = ChunkRef();
    }
    return absl::OkStatus();
  }

  const DensePartition& partition_;
  std::vector<ChunkRefs> room_;  // chunks of the values and each slot, or empty
  DensePartition::Image image_;
};

}  // namespace

std::unique_ptr<PartitionImage> DensePartition::NewImage(bool copied,
                                                         const ImageOrder& /*order*/) const {
  return std::make_unique<DenseImage>(*this, copied);
}

}  // namespace paracord
