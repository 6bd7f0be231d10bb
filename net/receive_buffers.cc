#include "net/receive_buffers.h"

#include <sys/mman.h>

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace paracord {
namespace {

constexpr size_t kKeptMax = 64;  // unused buffers kept, unless a share sets the limit

struct Pool {
  Mutex mu;
  std::vector<char*> free ABSL_GUARDED_BY(mu);  // each counts in the share
  std::shared_ptr<MemoryShare> share ABSL_GUARDED_BY(mu) =
      std::make_shared<MemoryShare>(kKeptMax * kReceiveBufferBytes);
};

Pool& ThePool() {
  static Pool* const pool = new Pool;  // never destroyed: buffers are returned until the very end
  return *pool;
}

}  // namespace

void KeepReceiveBuffersIn(std::shared_ptr<MemoryShare> share) {
  Pool& pool = ThePool();
  std::vector<char*> free;
  {
    MutexLock lock(pool.mu);
    free.swap(pool.free);
    pool.share->Subtract(free.size() * kReceiveBufferBytes);
    pool.share = std::move(share);
  }
  for (char* const buffer : free) GiveReceiveBuffer(buffer);
}

char* TakeReceiveBuffer() {
  Pool& pool = ThePool();
  {
    MutexLock lock(pool.mu);
    if (!pool.free.empty()) {
      char* const buffer = pool.free.back();
      pool.free.pop_back();
      pool.share->Subtract(kReceiveBufferBytes);
      return buffer;
    }
  }
  // Mapped directly, to return the whole buffer to the kernel when it is not kept: an allocator
  // would hold on to fragments.
  void* const fresh = mmap(nullptr, kReceiveBufferBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(fresh);
}

void GiveReceiveBuffer(char* buffer) {
  Pool& pool = ThePool();
  {
    MutexLock lock(pool.mu);
    if (pool.share->Reserve(kReceiveBufferBytes)) {
      pool.free.push_back(buffer);
      return;
    }
  }
  munmap(buffer, kReceiveBufferBytes);
}

absl::Cord CordOfReceiveBuffer(char* buffer, size_t bytes) {
  return absl::MakeCordFromExternal(absl::string_view(buffer, bytes), [](absl::string_view held) {
    GiveReceiveBuffer(const_cast<char*>(held.data()));
  });
}

}  // namespace paracord
