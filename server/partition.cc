#include "server/partition.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "common/mutant.h"
#include "common/parallel.h"
#include "server/float_reader.h"

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

Partition::Partition(Facts facts, const Optimizer& optimizer, PartitionContents contents)
    : facts_(std::move(facts)), optimizer_(optimizer), contents_(std::move(contents)) {}

uint64_t Partition::resident_bytes() const {
  return facts_.bytes * (1 + (facts_.trained ? optimizer_.slots.size() : 0));
}

Partition::PushResult Partition::Push(const PlanBatch& batch, bool rejected,
                                      const absl::Cord& gradient) {
  MutexLock lock(mu_);
  const uint64_t step = contents_.ledger.applied();
  const PartitionLedger before =
      MUTANT("ledger_after_reply") ? contents_.ledger : PartitionLedger();
  const PartitionLedger::Entry entry = contents_.ledger.Enter(batch, rejected);
  if (entry.outcome == PUSH_APPLIED && !rejected && !gradient.empty()) Apply(step, gradient);
  if (MUTANT("ledger_after_reply")) contents_.ledger = before;
  return {entry.outcome, entry.next, contents_.updates};
}

void Partition::Apply(uint64_t step, const absl::Cord& gradient) {
  const UpdateScalars scalars = ScalarsAt(optimizer_, step);
  std::atomic<bool> finite = true;
  ParallelFor(contents_.value.chunks().size(), [&](size_t i) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (!ApplyChunk(i, scalars, gradient)) finite = false;
  });
  if (!finite) contents_.healthy = false;
  ++contents_.updates;
}

bool Partition::ApplyChunk(size_t index, const UpdateScalars& scalars, const absl::Cord& whole) {
  Block& value = contents_.value;
  const std::span<const float> value_in = value.chunks()[index].values();
  ChunkRef value_out = value.Writable(index);
  std::array<const float*, kSlotsMax> slots_in{};
  std::array<ChunkRef, kSlotsMax> slots_out;
  for (size_t s = 0; s < contents_.slots.size(); ++s) {
    slots_in[s] = contents_.slots[s].chunks()[index].values().data();
    slots_out[s] = contents_.slots[s].Writable(index);
  }
  const absl::Cord bytes =
      whole.Subcord(index * kChunkElements * sizeof(float), value_in.size_bytes());
  FloatReader gradient(bytes);
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
  value.Replace(index, std::move(value_out));
  for (size_t s = 0; s < contents_.slots.size(); ++s) {
    contents_.slots[s].Replace(index, std::move(slots_out[s]));
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
