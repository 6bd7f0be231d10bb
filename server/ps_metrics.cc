// The metrics of a ps, each read from its owner.
#include "server/parameter_server_impl.h"

namespace paracord {
namespace {

double Number(uint64_t value) { return static_cast<double>(value); }

void AddUpdates(const UpdateCounters& counters, MetricSet& metrics) {
  const char* const name = "paracord_ps_updates_total";
  const char* const help =
      "Updates of one partition that pushes brought, by what became of them; refused and stale "
      "count whole pushes.";
  const std::pair<const char*, uint64_t> outcomes[] = {{"applied", counters.applied},
                                                       {"duplicate", counters.duplicates},
                                                       {"gap", counters.gaps},
                                                       {"refused", counters.refused},
                                                       {"stale", counters.stale}};
  for (const auto& [outcome, count] : outcomes) {
    metrics.Counter(name, help, Number(count), {{"outcome", outcome}});
  }
  metrics.Add("paracord_ps_apply_seconds", "Time to apply all updates of a push.",
              counters.apply_seconds);
}

void AddExchanges(const ExchangeFigures& figures, MetricSet& metrics) {
  metrics.Add("paracord_ps_exchange_seconds",
              "Time from an exchange's last byte to its answer, which includes the updates, or "
              "until its pull waits for other workers.",
              figures.seconds);
  metrics.Add("paracord_ps_waited_seconds", "Time that pulls have waited for other workers.",
              figures.waited_seconds);
  metrics.Counter("paracord_ps_exchange_failures_total", "Exchanges answered with an error.",
                  Number(figures.failed));
  metrics.Counter("paracord_ps_received_bytes_total", "Bytes of exchanges that came.",
                  Number(figures.received_bytes));
  metrics.Counter("paracord_ps_sent_bytes_total", "Bytes of answers to exchanges.",
                  Number(figures.sent_bytes));
  metrics.Counter("paracord_ps_snapshot_failures_total", "Snapshots that could not be written.",
                  Number(figures.snapshots_failed));
}

void AddContent(const PartitionSet& content, MetricSet& metrics) {
  double unhealthy = 0, trained = 0;
  for (const auto& partition : content.partitions) {
    unhealthy += partition->GetCounts().healthy ? 0 : 1;
    trained += partition->facts().trained ? 1 : 0;
  }
  metrics.Gauge("paracord_ps_partitions", "Partitions held.", Number(content.partitions.size()));
  metrics.Gauge("paracord_ps_trained_partitions", "Partitions held that are trained.", trained);
  metrics.Gauge("paracord_ps_unhealthy_partitions", "Partitions with values that are not finite.",
                unhealthy);
}

void AddMemory(const MemoryBudget& memory, MetricSet& metrics) {
  for (const MemoryUse& use : memory.Uses()) {
    metrics.Gauge("paracord_ps_memory_bytes", "Memory, by what holds it.", Number(use.bytes),
                  {{"holder", use.holder}});
  }
}

}  // namespace

void ParameterServer::Impl::AddMetrics(MetricSet& metrics) const {
  std::shared_ptr<const PartitionSet> content;
  size_t parked = 0;
  bool draining = false, writing = false;
  {
    MutexLock lock(mu_);
    content = content_;
    parked = parked_->size();
    draining = draining_;
    writing = orders_.writing();
  }
  AddUpdates(figures_.updates, metrics);
  AddExchanges(figures_, metrics);
  if (content != nullptr) AddContent(*content, metrics);
  if (content != nullptr) CountTables(*content, *memory_);
  AddMemory(*memory_, metrics);
  metrics.Gauge("paracord_ps_waiting_exchanges", "Exchanges that wait for slow readers.",
                Number(parked));
  metrics.Gauge("paracord_ps_waiting_pulls", "Pulls that wait for other workers' pushes.",
                Number(waiting_->size()));
  metrics.Gauge("paracord_ps_draining", "1 while it leaves.", draining ? 1 : 0);
  metrics.Gauge("paracord_ps_writing_snapshot", "1 while it writes a snapshot.", writing ? 1 : 0);
  metrics.Gauge("paracord_ps_generation", "The generation that it obeys; 0: none yet.",
                Number(generation_));
}

}  // namespace paracord
