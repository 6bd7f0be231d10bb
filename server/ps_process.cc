#include "server/ps_process.h"

#include <utility>

#include "common/shared_memory.h"
#include "net/shared_network.h"

namespace paracord {
namespace {

constexpr int64_t kTrimMs = 1000;

}  // namespace

void PsFlags::AddTo(Flags& flags) {
  flags.Switch("shared-memory",
               "serve workers on this host through shared memory (on; =false: the network alone)",
               &shared_memory);
  flags.Integer(
      "in-flight-mb", "N",
      "MiB of requests that arrive or are answered, half as much of early gradients beside", 1,
      1 << 20, &in_flight_mb);
  flags.Integer("pinned-mb", "N",
                "MiB of replaced or converted values that slow readers hold; above it exchanges "
                "wait for them",
                1, 1 << 20, &pinned_mb);
}

std::shared_ptr<MemoryBudget> PsFlags::Memory(uint64_t limit, uint64_t parts) const {
  MemoryBudget::Caps caps;
  caps.requests = static_cast<uint64_t>(in_flight_mb) << 20;
  caps.replies = static_cast<uint64_t>(pinned_mb) << 20;
  caps.staged = caps.requests / 2;  // requests need room beside staged gradients
  return std::make_shared<MemoryBudget>(limit, caps, parts);
}

void PsFlags::Set(PsOptions& options) const {
  options.pinned_bytes_max = static_cast<uint64_t>(pinned_mb) << 20;
}

absl::StatusOr<std::unique_ptr<Listener>> OfferSharedMemory(
    ParameterServer& ps, std::shared_ptr<RequestBudget> request_budget, Credentials* credentials) {
  Access access;
  if (credentials != nullptr) {
    const auto keys = credentials->Current();
    access = Access({.cluster = keys->own->cluster, .role = PeerRole::kWorker, .index = {}});
  }
  return SharedNetwork::Offer(ps.boot_id(), ps, std::move(request_budget),
                              SharedConnection::kReplyPatienceMs, access);
}

void KeepTrimming(EventLoop& loop, Executor& lane) {
  loop.PostAfter(kTrimMs, [&loop, &lane] {
    lane.Run(TrimSharedMemory, [&loop, &lane] { KeepTrimming(loop, lane); });
  });
}

}  // namespace paracord
