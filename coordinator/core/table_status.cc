#include "coordinator/core/table_status.h"

#include <map>
#include <vector>

#include "config/partitions.h"

namespace paracord {
namespace {

void AddCounts(const TableCounts& one, TableCounts& sum) {
  sum.set_rows(sum.rows() + one.rows());
  sum.set_bytes(sum.bytes() + one.bytes());
  sum.set_admitted(sum.admitted() + one.admitted());
  sum.set_expired(sum.expired() + one.expired());
  sum.set_evicted(sum.evicted() + one.evicted());
  sum.set_dropped(sum.dropped() + one.dropped());
  sum.set_pulled(sum.pulled() + one.pulled());
  sum.set_pushed(sum.pushed() + one.pushed());
}

}  // namespace

nlohmann::json TablesJson(std::span<const VariableSpec> variables, const PsTracker& tracker) {
  std::map<uint32_t, TableCounts> sums;  // by variable
  const std::vector<PartitionSpec>& layout = tracker.layout();
  for (const Ps& ps : tracker.all()) {
    for (const PartitionDescription& partition : ps.description.partitions()) {
      if (!partition.has_table() || partition.id() >= layout.size()) continue;
      AddCounts(partition.table(), sums[layout[partition.id()].variable()]);
    }
  }
  nlohmann::json tables;
  for (uint32_t v = 0; v < variables.size(); ++v) {
    if (!IsGrowing(variables[v])) continue;
    const TableCounts& sum = sums[v];
    tables[variables[v].name()] = {{"rows", sum.rows()},          {"bytes", sum.bytes()},
                                   {"admitted", sum.admitted()},  {"expired", sum.expired()},
                                   {"evicted", sum.evicted()},    {"dropped", sum.dropped()},
                                   {"pulled_rows", sum.pulled()}, {"pushed_rows", sum.pushed()}};
  }
  return tables;
}

}  // namespace paracord
