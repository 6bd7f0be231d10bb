// What a process with a ParameterServer does around it: flags, memory limits, shared memory for
// workers on this host, and the return of unused memory to the kernel. Used by the main functions
// of the ps and of a node.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/event_loop.h"
#include "common/executor.h"
#include "common/memory_budget.h"
#include "config/flags.h"
#include "net/request_budget.h"
#include "security/credentials.h"
#include "server/parameter_server.h"

namespace paracord {

struct PsFlags {
  bool shared_memory = true;
  int64_t in_flight_mb = static_cast<int64_t>(MemoryBudget::Caps().requests >> 20);
  int64_t pinned_mb = static_cast<int64_t>(MemoryBudget::Caps().replies >> 20);

  void AddTo(Flags& flags);  // this object must outlive `flags`
  // Returns a budget by the flags. `limit` is one of `parts` equal parts of the process's
  // --memory-limit.
  std::shared_ptr<MemoryBudget> Memory(uint64_t limit, uint64_t parts = 1) const;
  // Sets PsOptions::pinned_bytes_max.
  void Set(PsOptions& options) const;
};

// Lets processes on this host, of this user or root, that know the boot id of `ps` call the ps over
// shared memory. With `credentials` the calls count as a worker's; null: there is no certificate.
// UNAVAILABLE: no socket could be opened.
absl::StatusOr<std::unique_ptr<Listener>> OfferSharedMemory(
    ParameterServer& ps, std::shared_ptr<RequestBudget> request_budget, Credentials* credentials);

// Every second, on the executor `lane`, gives the kernel back shared memory that no reply has used
// for a second.
void KeepTrimming(EventLoop& loop, Executor& lane);

}  // namespace paracord
