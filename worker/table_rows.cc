#include "worker/table_rows.h"

#include <algorithm>
#include <iterator>

#include "data/batch_plan.h"

namespace paracord {
namespace {

using RowIdList = std::vector<uint64_t>;

RowIdList UnionOf(std::span<const uint64_t> a, std::span<const uint64_t> b) {
  RowIdList both;
  std::ranges::set_union(a, b, std::back_inserter(both));
  return both;
}

// Adds the rows of a growing table in `other`, shard by shard.
void AddRowsOfSlots(TableRows& all, const TableRows& other, size_t variable) {
  RowIdList ids;
  std::vector<uint32_t> shards = {0};
  const auto of = [&](const TableRows& rows, size_t shard) {
    const std::vector<uint32_t>& begin = rows.shards[variable];
    return std::span(rows.ids[variable]).subspan(begin[shard], begin[shard + 1] - begin[shard]);
  };
  for (size_t shard = 0; shard + 1 < all.shards[variable].size(); ++shard) {
    std::ranges::set_union(of(all, shard), of(other, shard), std::back_inserter(ids));
    shards.push_back(static_cast<uint32_t>(ids.size()));
  }
  all.ids[variable] = std::move(ids);
  all.shards[variable] = std::move(shards);
}

}  // namespace

SharedRows RowsOfAll(std::span<const SharedRows> batches) {
  if (batches.empty()) return nullptr;
  if (batches.size() == 1) return batches[0];
  const auto all = std::make_shared<TableRows>();
  all->ids = batches[0]->ids;
  all->shards = batches[0]->shards;
  for (const SharedRows& batch : batches.subspan(1)) {
    for (size_t v = 0; v < all->ids.size(); ++v) {
      if (all->has_shards(v)) {
        AddRowsOfSlots(*all, *batch, v);
      } else {
        all->ids[v] = UnionOf(all->ids[v], batch->ids[v]);
      }
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
    while (pulled[at] != id) ++at;  // pulled rows have the same order
    const auto row = values.subspan(at * width, width);
    to.insert(to.end(), row.begin(), row.end());
  }
}

void RowsAhead::Add(const BatchId& batch, SharedRows rows) {
  std::erase_if(known_, [&](const auto& known) { return SameBatch(known.first, batch); });
  known_.emplace_back(batch, std::move(rows));
  if (known_.size() > batches_) known_.pop_front();
}

SharedRows RowsAhead::Find(const BatchId& batch) const {
  const auto known =
      std::ranges::find_if(known_, [&](const auto& each) { return SameBatch(each.first, batch); });
  return known == known_.end() ? nullptr : known->second;
}

}  // namespace paracord
