#include "common/probe.h"

#include <map>

#include "common/mutex.h"

namespace paracord {
namespace {

struct Registry {
  Mutex mu;
  std::vector<const Probe*> probes ABSL_GUARDED_BY(mu);
};

Registry& TheRegistry() {
  static Registry& registry = *new Registry;  // never destroyed: probes may be hit at exit
  return registry;
}

}  // namespace

Probe::Probe(std::string_view name) : name_(name) {
  Registry& registry = TheRegistry();
  MutexLock lock(registry.mu);
  registry.probes.push_back(this);
}

std::vector<ProbeCount> ProbeCounts() {
  std::map<std::string_view, uint64_t> sums;
  {
    Registry& registry = TheRegistry();
    MutexLock lock(registry.mu);
    for (const Probe* probe : registry.probes) sums[probe->name()] += probe->hits();
  }
  std::vector<ProbeCount> counts;
  for (const auto& [name, hits] : sums) counts.push_back({name, hits});
  return counts;
}

}  // namespace paracord
