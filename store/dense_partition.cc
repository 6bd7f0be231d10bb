#include "store/dense_partition.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/parallel.h"
#include "common/status_macros.h"
#include "store/norm_constraint.h"

namespace paracord {

void FillSlots(const Optimizer& optimizer, PartitionContents& contents, uint64_t rows) {
  for (const SlotSpec& slot : StoredSlots(optimizer)) {
    contents.slots.emplace_back(slot.of_rows ? rows : contents.value.elements());
    Block& block = contents.slots.back();
    block.Fill(slot.initial);
    for (size_t i = 0; slot.of_value && i < block.chunks().size(); ++i) {
      std::ranges::copy(contents.value.chunks()[i].values(),
                        block.chunks()[i].mutable_values().begin());
    }
  }
}

namespace {

// After Block::Writable, whose chunk may be the same.
void Replace(Block& block, size_t i, ChunkRef chunk, PinnedBytes& pinned) {
  if (block.chunks()[i] != chunk) pinned.Replaced(block.chunks()[i]);
  block.Replace(i, std::move(chunk));
}

RowLayout LayoutOf(const Partition::Facts& facts) {
  if (facts.shape.empty()) return {};
  RowLayout layout{
      .begin = facts.row_begin, .rows = facts.shape[0], .elements = 1, .one = facts.shape};
  layout.one[0] = 1;
  for (size_t i = 1; i < facts.shape.size(); ++i) layout.elements *= facts.shape[i];
  return layout;
}

}  // namespace

DensePartition::DensePartition(Facts facts, const Optimizer& optimizer, PartitionContents contents,
                               std::shared_ptr<PinnedBytes> pinned)
    : Partition(std::move(facts), std::move(pinned)),
      rows_(LayoutOf(this->facts())),
      lazy_(optimizer.lazy),
      leaves_rows_alone_(lazy_ || ZeroGradientChangesNothing(optimizer)),
      slots_(this->facts().trained ? StoredSlots(optimizer) : std::vector<SlotSpec>()),
      optimizer_(optimizer),
      contents_(std::move(contents)) {}

// A partition that ends was replaced as a whole, and all its chunks with it.
DensePartition::~DensePartition() {
  for (const ChunkRef& chunk : contents_.value.chunks()) pinned()->Replaced(chunk);
}

std::string DensePartition::WhyNotItsRows(const RowIds& ids) const {
  if (rows_.rows == 0) return "rows of a variable that has no axis 0";
  const uint64_t end = rows_.begin + rows_.rows;
  const auto outside = [&](uint64_t row) {
    return absl::StrCat("row ", row, " is not one of its rows [", rows_.begin, ", ", end, ")");
  };
  if (!ids.empty() && ids.front() < rows_.begin) return outside(ids.front());
  if (!ids.empty() && ids.back() >= end) {
    return outside(*std::lower_bound(ids.begin(), ids.end(), end));
  }
  return "";
}

std::vector<uint64_t> DensePartition::SlotShape(const SlotSpec& slot) const {
  return slot.of_rows ? std::vector<uint64_t>{rows_.rows} : facts().shape;
}

uint64_t DensePartition::resident_bytes() const {
  uint64_t bytes = facts().bytes;
  for (const SlotSpec& slot : slots_) {
    bytes += slot.of_rows ? rows_.rows * sizeof(float) : facts().bytes;
  }
  return bytes;
}

bool DensePartition::SetLearningRate(const LearningRate& rate, const PushFence& fence) {
  MutexLock lock(mu_);
  if (fence.over()) return false;
  optimizer_.learning_rate = rate;
  return true;
}

Outcome DensePartition::Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                             const PushFence& fence) {
  MutexLock lock(mu_);
  if (fence.over()) return {};
  const uint64_t step = contents_.ledger.applied();
  const PartitionLedger::Entry entry = contents_.ledger.Enter(batch, rejected);
  if (entry.outcome == PUSH_APPLIED && !rejected && !update.none()) Apply(step, update);
  return {entry.outcome, entry.next, contents_.updates};
}

void DensePartition::Apply(uint64_t step, const PartitionUpdate& update) {
  const UpdateScalars scalars = ScalarsAt(optimizer_, step);
  const Gradient& gradient = update.gradient;
  bool finite = true;
  if (update.rows.has_value()) {
    finite = ApplyRows(step, *update.rows, gradient);
  } else if (lazy_) {
    RowIds all(rows_.rows);
    std::iota(all.begin(), all.end(), rows_.begin);
    finite = ApplyRows(step, all, gradient);
  } else if (gradient.sparse() && ZeroGradientChangesNothing(optimizer_)) {
    finite = ApplySparse(scalars, gradient);
  } else {
    finite = ApplyDense(scalars, gradient);
  }
  if (optimizer_.norm.has_value() && !lazy_) Constrain();
  if (!finite) contents_.healthy = false;
  ++contents_.updates;
}

std::vector<Block*> DensePartition::Blocks() {
  std::vector<Block*> blocks = {&contents_.value};
  for (Block& slot : contents_.slots) blocks.push_back(&slot);
  return blocks;
}

bool DensePartition::ApplyDense(const UpdateScalars& scalars, const Gradient& gradient) {
  const std::vector<Block*> blocks = Blocks();
  const size_t chunks = contents_.value.chunks().size();
  std::vector<std::vector<ChunkRef>> out(blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (size_t i = 0; i < chunks; ++i) out[b].push_back(blocks[b]->Writable(i));
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
    out.push_back(value.Writable(i));
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

// The elements that a sparse gradient has, and no others: gathered, updated as all are, put back.
bool DensePartition::ApplyEntries(size_t index, const UpdateScalars& scalars,
                                  Gradient::Entries entries) {
  if (entries.indices.empty()) return true;
  constexpr size_t kAtOnce = 1024;
  std::array<std::array<float, kAtOnce>, 1 + kSlotsMax> gathered;
  const std::vector<Block*> blocks = Blocks();
  std::vector<ChunkRef> out;
  for (const Block* block : blocks) {
    out.push_back(block->Writable(index));
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

bool DensePartition::ApplyRows(uint64_t step, std::span<const uint64_t> ids,
                               const Gradient& gradient) {
  const std::vector<Block*> blocks = Blocks();
  if (ids.size() < rows_.rows) pushed_rows_ = true;
  return UpdateRows(optimizer_, step, rows_, ids, gradient, blocks, *pinned(), kept_.get());
}

uint64_t DensePartition::Pull(ChunkRefs& values) const {
  MutexLock lock(mu_);
  values = contents_.value.chunks();
  return contents_.updates;
}

uint64_t DensePartition::PullRows(std::span<const uint64_t> ids, std::span<float> values) const {
  MutexLock lock(mu_);
  GatherRows(contents_.value, rows_, ids, values);
  return contents_.updates;
}

DensePartition::Image DensePartition::TakeImage() const {
  MutexLock lock(mu_);
  Image image{
      {contents_.ledger, contents_.updates, contents_.healthy, {}}, contents_.value.chunks(), {}};
  for (const Block& slot : contents_.slots) image.slots.push_back(slot.chunks());
  return image;
}

DensePartition::Image DensePartition::TakeImage(std::shared_ptr<KeptPages>& kept) const {
  MutexLock lock(mu_);
  std::vector<ChunkRefs> blocks = {contents_.value.chunks()};
  for (const Block& slot : contents_.slots) blocks.push_back(slot.chunks());
  kept = kept_ = std::make_shared<KeptPages>(std::move(blocks));
  return {{contents_.ledger, contents_.updates, contents_.healthy, {}}, {}, {}};
}

void DensePartition::TakeKept(KeptPages& kept, size_t block, size_t chunk,
                              std::vector<float>& to) const {
  MutexLock lock(mu_);
  kept.Take(block, chunk, to);
}

void DensePartition::EndKept(const std::shared_ptr<KeptPages>& kept) const {
  MutexLock lock(mu_);
  if (kept_ == kept) kept_ = nullptr;
}

DensePartition::Counts DensePartition::GetCounts() const {
  MutexLock lock(mu_);
  return {contents_.ledger, contents_.updates, contents_.healthy, {}};
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
  DenseImage(const DensePartition& partition, bool copied)
      : partition_(partition), by_pages_(!copied && partition.images_by_pages()) {
    if (!copied) return;
    const uint64_t elements = partition.facts().bytes / sizeof(float);
    room_.push_back(FreshChunks(elements));
    for (const SlotSpec& slot : partition.slots()) {
      room_.push_back(FreshChunks(slot.of_rows ? partition.rows().rows : elements));
    }
  }

  ~DenseImage() override {
    if (kept_ != nullptr) partition_.EndKept(kept_);
  }
  DenseImage(const DenseImage&) = delete;
  DenseImage& operator=(const DenseImage&) = delete;

  void Take() override {
    image_ = by_pages_ ? partition_.TakeImage(kept_) : partition_.TakeImage();
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
          {.name = SlotTensorName(name, slot.name), .shape = partition_.SlotShape(slot)});
    }
    return tensors;
  }
  PartitionMetadata metadata() const override {
    return {.updates = image_.updates, .healthy = image_.healthy, .table = {}};
  }
  absl::Status Write(const AppendFn& append) override {
    if (by_pages_) return WriteKept(append);
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
  // Releases each chunk once it is written, so that training need not copy it on write.
  static absl::Status Append(const AppendFn& append, ChunkRefs& chunks) {
    for (ChunkRef& chunk : chunks) {
      const std::span<const float> values = chunk.values();
      RETURN_IF_ERROR(append({reinterpret_cast<const char*>(values.data()), values.size_bytes()}));
      chunk = ChunkRef();
    }
    return absl::OkStatus();
  }

  absl::Status WriteKept(const AppendFn& append) {
    std::vector<float> values;
    for (size_t block = 0; block < kept_->blocks(); ++block) {
      for (size_t chunk = 0; chunk < kept_->chunks(block); ++chunk) {
        partition_.TakeKept(*kept_, block, chunk, values);
        RETURN_IF_ERROR(
            append({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
      }
    }
    return absl::OkStatus();
  }

  const DensePartition& partition_;
  const bool by_pages_;
  std::vector<ChunkRefs> room_;  // of the values and each slot, or nothing
  DensePartition::Image image_;
  std::shared_ptr<KeptPages> kept_;  // has the chunks of an image by pages
};

}  // namespace

std::unique_ptr<PartitionImage> DensePartition::NewImage(bool copied,
                                                         const ImageOrder& /*order*/) const {
  return std::make_unique<DenseImage>(*this, copied);
}

}  // namespace paracord
