#include "keras/device_copy.h"

#include <optional>

#include "common/shared_memory.h"
#include "common/status_macros.h"

namespace paracord {

absl::StatusOr<DeviceCopy::Slot*> DeviceCopy::Grow(size_t slot, size_t floats) {
  if (slot >= slots_.size()) slots_.resize(slot + 1);
  Slot& at = slots_[slot];
  if (at.data == nullptr || at.size < floats) {
    at.data.reset();  // frees the smaller array before allocating a larger one
    ASSIGN_OR_RETURN(at.data, ops_.Allocate(static_cast<int64_t>(floats)));
    at.size = floats;
  }
  return &at;
}

absl::StatusOr<const float*> DeviceCopy::Upload(size_t slot, std::span<const float> host) {
  if (ops_.host_memory()) return host.data();
  ASSIGN_OR_RETURN(Slot* const at, Grow(slot, host.size()));
  ops_.Upload(static_cast<int64_t>(host.size()), host.data(), at->data.get());
  return at->data.get();
}

absl::StatusOr<const float*> DeviceCopy::Expect(size_t slot, std::span<const float> host) {
  if (ops_.host_memory()) return host.data();
  ASSIGN_OR_RETURN(Slot* const at, Grow(slot, host.size()));
  PageLock(host.data());
  at->expected = host;
  return at->data.get();
}

void DeviceCopy::Send(size_t slot) {
  if (slot >= slots_.size() || slots_[slot].expected.empty()) return;
  Slot& at = slots_[slot];
  ops_.UploadBeside(static_cast<int64_t>(at.expected.size()), at.expected.data(), at.data.get());
  at.expected = {};
}

// Shared segments stay mapped until the process ends; the device may lock their pages for good.
void DeviceCopy::PageLock(const float* host) {
  const std::optional<std::span<const char>> segment = FindSharedSegment(host);
  if (segment.has_value()) ops_.PageLock(segment->data(), segment->size());
}

absl::StatusOr<float*> DeviceCopy::Reserve(size_t slot, std::span<float> host) {
  if (ops_.host_memory()) return host.data();
  ASSIGN_OR_RETURN(Slot* const at, Grow(slot, host.size()));
  PageLock(host.data());
  at->host = host;
  return at->data.get();
}

absl::StatusOr<float*> DeviceCopy::Keep(size_t slot, size_t floats) {
  ASSIGN_OR_RETURN(Slot* const at, Grow(slot, floats));
  at->host = {};
  return at->data.get();
}

void DeviceCopy::Download(size_t slot, bool awaited) {
  if (slot >= slots_.size() || slots_[slot].host.empty()) return;
  Slot& at = slots_[slot];
  const auto n = static_cast<int64_t>(at.host.size());
  if (awaited) {
    ops_.DownloadAwaited(n, at.data.get(), at.host.data(), slot);
  } else {
    ops_.Download(n, at.data.get(), at.host.data());
  }
  at.host = {};
}

int64_t DeviceCopy::bytes() const {
  int64_t bytes = 0;
  for (const Slot& slot : slots_) bytes += static_cast<int64_t>(slot.size * sizeof(float));
  return bytes;
}

absl::StatusOr<std::span<const float>> ReadBack(Ops& ops, int64_t n, const float* device,
                                                std::vector<float>& copy) {
  const auto size = static_cast<size_t>(n);
  if (ops.host_memory()) return std::span(device, size);
  copy.resize(size);
  ops.Download(n, device, copy.data());
  RETURN_IF_ERROR(ops.Finish());
  return std::span<const float>(copy);
}

}  // namespace paracord
