#include "tensor/cuda/staging.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "common/log.h"

namespace paracord::cuda {
namespace {

constexpr size_t kStagingAlignment = 256;
constexpr size_t kChunkMin = 1 << 20;
constexpr size_t kAllMax = size_t{1}
                           << 30;  // page-locked memory is lost to the rest of the machine

}  // namespace

Staging::~Staging() {
  FreeChunks();
  for (const auto& [memory, range] : ranges_) {
    if (range.ours) (void)runtime_.PageUnlockHost(memory);
  }
}

void Staging::FreeChunks() {
  for (const Chunk& chunk : chunks_) (void)runtime_.FreeHost(chunk.memory);
  chunks_.clear();
  all_ = 0;
}

void* Staging::Take(size_t bytes) {
  bytes = (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
  if (chunks_.empty() || chunks_.back().bytes - chunks_.back().used < bytes) {
    const size_t size = std::max({bytes, kChunkMin, wanted_, all_});
    if (size > kAllMax - std::min(kAllMax, all_)) return nullptr;
    const absl::StatusOr<void*> memory = runtime_.AllocateHost(size);
    if (!memory.ok()) return nullptr;
    chunks_.push_back({static_cast<char*>(*memory), size, 0});
    all_ += size;
  }
  Chunk& chunk = chunks_.back();
  void* const at = chunk.memory + chunk.used;
  chunk.used += bytes;
  return at;
}

void Staging::Reset() {
  if (chunks_.size() > 1) {  // a single chunk from now on
    size_t used = 0;
    for (const Chunk& chunk : chunks_) used += chunk.used;
    wanted_ = used;
    FreeChunks();
  }
  if (!chunks_.empty()) chunks_.back().used = 0;
}

void Staging::PageLock(const void* memory, size_t bytes) {
  const auto* const begin = static_cast<const char*>(memory);
  if (const auto found = ranges_.find(begin); found != ranges_.end()) return;
  // Locks whole pages only: memory on a shared page would be page-locked in part, and copies would
  // fail.
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  if (reinterpret_cast<uintptr_t>(memory) % page != 0) {
    ranges_[begin] = {bytes, false, false};
    return;
  }
  const absl::Status page_locked = runtime_.PageLockHost(memory, bytes);
  const bool already = absl::IsAlreadyExists(page_locked);  // page-locked, but not by an engine
  if (!page_locked.ok() && !already && !std::exchange(complained_, true)) {
    Logger("device").Warn("memory is not page-locked, so that copies of it take longer: {}",
                          std::string(page_locked.message()));
  }
  ranges_[begin] = {bytes, page_locked.ok() || already, page_locked.ok()};
}

bool Staging::IsPageLocked(const void* memory, size_t bytes) const {
  const auto* const begin = static_cast<const char*>(memory);
  auto found = ranges_.upper_bound(begin);
  if (found == ranges_.begin()) return false;
  --found;
  return found->second.page_locked && begin + bytes <= found->first + found->second.bytes;
}

}  // namespace paracord::cuda
