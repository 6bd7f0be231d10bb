#include "worker/table_rows.h"

#include <algorithm>
#include <iterator>

#include "data/batch_plan.h"

namespace paracord {

SharedRows RowsOfAll(std::span<const SharedRows> batches) {
  if (batches.empty()) return nullptr;
  if (batches.size() == 1) return batches[0];
  const auto all = std::make_shared<TableRows>();
  all->ids = batches[0]->ids;
  for (const SharedRows& batch : batches.subspan(1)) {
    for (size_t v = 0; v < all->ids.size(); ++v) {
      std::vector<uint64_t> both;
      std::ranges::set_union(all->ids[v], batch->ids[v], std::back_inserter(both));
      all->ids[v] = std::move(both);
    }
  }
  return all;
}

void GatherRows(std::span<const uint64_t> pulled, std::span<const float> values,
                std::span<const uint64_t> ids, std::vector<float>& to) {
  const size_t width = pulled.empty() ? 0 : values.size() / pulled.size();
  to.clear();
  to.reserve(ids.size() * width);
  size_t at = 0;
  for (const uint64_t id : ids) {
    while (pulled[at] < id) ++at;
    const auto row = values.subspan(at * width, width);
    to.insert(to.end(), row.begin(), row.end());
  }
}

void RowsAhead::Add(const BatchId& batch, SharedRows rows) {
  std::erase_if(known_, [&](const auto& known) { return SameBatch(known.first, batch); });
  known_.emplace_back(batch, std::move(rows));
  if (known_.size() > kBatches) known_.pop_front();
}

SharedRows RowsAhead::Find(const BatchId& batch) const {
  const auto known =
      std::ranges::find_if(known_, [&](const auto& each) { return SameBatch(each.first, batch); });
  return known == known_.end() ? nullptr : known->second;
}

}  // namespace paracord
