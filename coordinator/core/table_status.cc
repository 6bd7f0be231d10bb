#include "coordinator/core/table_status.h"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
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
  for (const HotId& hot : one.hot()) *sum.add_hot() = hot;
}

// The most requested ids of all partitions, as signed numbers like those of an export (an id of -12
// reads -12). Ids are text because JSON readers round numbers beyond 2^53.
nlohmann::json HotIdsJson(const TableCounts& sum) {
  constexpr size_t kShown = 5;
  std::vector<HotId> hot(sum.hot().begin(), sum.hot().end());
  std::ranges::stable_sort(hot, std::ranges::greater(), &HotId::share);
  hot.resize(std::min(hot.size(), kShown));
  nlohmann::json shown = nlohmann::json::array();
  for (const HotId& one : hot) {
    shown.push_back({{"id", absl::StrCat(static_cast<int64_t>(one.id()))}, {"share", one.share()}});
  }
  return shown;
}

}  // namespace

nlohmann::json TablesJson(std::span<const VariableSpec> variables, const PsTracker& tracker) {
  std::map<uint32_t, TableCounts> sums;        // key: variable
  std::map<uint32_t, TableRates::Rate> rates;  // key: variable
  const std::vector<PartitionSpec>& layout = tracker.layout();
  for (uint32_t i = 0; i < tracker.size(); ++i) {
    const Ps& ps = tracker.all()[i];
    for (const PartitionDescription& partition : ps.description.partitions()) {
      if (!partition.has_table() || partition.id() >= layout.size()) continue;
      if (layout[partition.id()].ps() != i) continue;  // a second holder has the same rows
      const uint32_t variable = layout[partition.id()].variable();
      AddCounts(partition.table(), sums[variable]);
      rates[variable].pulled += ps.rates.Of(partition.id()).pulled;
      rates[variable].pushed += ps.rates.Of(partition.id()).pushed;
    }
  }
  nlohmann::json tables;
  for (uint32_t v = 0; v < variables.size(); ++v) {
    if (!IsGrowing(variables[v])) continue;
    const TableCounts& sum = sums[v];
    tables[variables[v].name()] = {{"rows", sum.rows()},
                                   {"bytes", sum.bytes()},
                                   {"admitted", sum.admitted()},
                                   {"expired", sum.expired()},
                                   {"evicted", sum.evicted()},
                                   {"dropped", sum.dropped()},
                                   {"pulled_rows", sum.pulled()},
                                   {"pushed_rows", sum.pushed()},
                                   {"pulled_rows_per_second", rates[v].pulled},
                                   {"pushed_rows_per_second", rates[v].pushed},
                                   {"hot_ids", HotIdsJson(sum)}};
  }
  return tables;
}

}  // namespace paracord
