#include "server/partition.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "common/mutant.h"
#include "common/parallel.h"

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

// After Block::Writable, whose chunk may be the same.
void Replace(Block& block, size_t i, ChunkRef chunk, PinnedBytes& pinned) {
  if (block.chunks()[i] != chunk) pinned.Replaced(block.chunks()[i]);
  block.Replace(i, std::move(chunk));
}

}  // namespace

Partition::Partition(Facts facts, const Optimizer& optimizer, PartitionContents contents,
                     std::shared_ptr<PinnedBytes> pinned)
    : facts_(std::move(facts)),
      optimizer_(optimizer),
      pinned_(pinned != nullptr ? std::move(pinned) : std::make_shared<PinnedBytes>()),
      contents_(std::move(contents)) {}

// What replaces a whole partition replaces its chunks.
Partition::~Partition() {
  for (const ChunkRef& chunk : contents_.value.chunks()) pinned_->Replaced(chunk);
}

uint64_t Partition::resident_bytes() const {
  return facts_.bytes * (1 + slots());
}

Partition::PushResult Partition::Push(const PlanBatch& batch, bool rejected,
                                      const Gradient& gradient) {
  MutexLock lock(mu_);
  const uint64_t step = contents_.ledger.applied();
  const PartitionLedger before =
      MUTANT("ledger_after_reply") ? contents_.ledger : PartitionLedger();
  const PartitionLedger::Entry entry = contents_.ledger.Enter(batch, rejected);
  if (entry.outcome == PUSH_APPLIED && !rejected && !gradient.empty()) Apply(step, gradient);
  if (MUTANT("ledger_after_reply")) contents_.ledger = before;
  return {entry.outcome, entry.next, contents_.updates};
}

void Partition::Apply(uint64_t step, const Gradient& gradient) {
  const UpdateScalars scalars = ScalarsAt(optimizer_, step);
  const bool entries = gradient.sparse() && ZeroGradientChangesNothing(optimizer_);
  std::atomic<bool> finite = true;
  ParallelFor(contents_.value.chunks().size(), [&](size_t i) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const bool good =
        entries ? ApplyEntries(i, scalars, gradient.EntriesIn(i * kChunkElements, kChunkElements))
                : ApplyChunk(i, scalars, gradient);
    if (!good) finite = false;
  });
  if (!finite) contents_.healthy = false;
  ++contents_.updates;
}

bool Partition::ApplyChunk(size_t index, const UpdateScalars& scalars, const Gradient& whole) {
  Block& value = contents_.value;
  const std::span<const float> value_in = value.chunks()[index].values();
  ChunkRef value_out = value.Writable(index);
  std::array<const float*, kSlotsMax> slots_in{};
  std::array<ChunkRef, kSlotsMax> slots_out;
  for (size_t s = 0; s < contents_.slots.size(); ++s) {
    slots_in[s] = contents_.slots[s].chunks()[index].values().data();
    slots_out[s] = contents_.slots[s].Writable(index);
  }
  Gradient::Reader gradient(whole, index * kChunkElements, value_in.size());
  bool finite = true;
  alignas(64) std::array<float, kFloatsAtOnce> buffer;
  for (size_t done = 0; done < value_in.size();) {
    const size_t count = std::min(kFloatsAtOnce, value_in.size() - done);
    UpdateArrays arrays{.gradient = gradient.Next(std::span(buffer).first(count)),
                        .value_in = value_in.data() + done,
                        .value_out = value_out.mutable_values().data() + done};
    for (size_t s = 0; s < contents_.slots.size(); ++s) {
      arrays.slots_in[s] = slots_in[s] + done;
      arrays.slots_out[s] = slots_out[s].mutable_values().data() + done;
    }
    finite = Update(optimizer_, scalars, arrays) && finite;
    done += count;
  }
  Replace(value, index, std::move(value_out), *pinned_);
  for (size_t s = 0; s < contents_.slots.size(); ++s) {
    Replace(contents_.slots[s], index, std::move(slots_out[s]), *pinned_);
  }
  return finite;
}

// The elements that a sparse gradient has, and no others: gathered, updated as all are, put back.
bool Partition::ApplyEntries(size_t index, const UpdateScalars& scalars,
                             Gradient::Entries entries) {
  if (entries.indices.empty()) return true;
  constexpr size_t kAtOnce = 1024;
  std::array<std::array<float, kAtOnce>, 1 + kSlotsMax> gathered;
  std::vector<Block*> blocks = {&contents_.value};
  for (Block& slot : contents_.slots) blocks.push_back(&slot);
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
    finite = Update(optimizer_, scalars, arrays) && finite;
    for (size_t b = 0; b < blocks.size(); ++b) {
      const std::span<float> to = out[b].mutable_values();
      for (size_t i = 0; i < count; ++i) to[indices[i] - first] = gathered[b][i];
    }
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    Replace(*blocks[b], index, std::move(out[b]), *pinned_);
  }
  return finite;
}

uint64_t Partition::Pull(ChunkRefs& values) const {
  MutexLock lock(mu_);
  values = contents_.value.chunks();
  return contents_.updates;
}

Partition::Image Partition::TakeImage() const {
  MutexLock lock(mu_);
  Image image{.value = contents_.value.chunks(),
              .slots = {},
              .ledger = contents_.ledger,
              .updates = contents_.updates,
              .healthy = contents_.healthy};
  for (const Block& slot : contents_.slots) image.slots.push_back(slot.chunks());
  return image;
}

Partition::Counts Partition::GetCounts() const {
  MutexLock lock(mu_);
  return {contents_.ledger, contents_.updates, contents_.healthy};
}

}  // namespace paracord
