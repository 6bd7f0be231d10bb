#include "cli/left_out.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paracord {

std::vector<Column> LeftOut::Fill(std::vector<Column> outputs, const Batch& examples,
                                  uint64_t first, size_t count) {
  const std::vector<uint64_t>& there = examples.records;
  if (there.empty() || there.size() >= count) return outputs;
  for (uint64_t record = first; record < first + count; ++record) {
    if (std::ranges::find(there, record) != there.end()) continue;
    if (count_++ == 0) first_ = examples.source->Where(record);
  }
  for (Column& output : outputs) {
    const size_t each = output.values.size() / there.size();
    std::vector<float> values(count * each, NAN);
    for (size_t i = 0; i < there.size(); ++i) {
      std::copy_n(output.values.data() + i * each, each,
                  values.data() + static_cast<size_t>(there[i] - first) * each);
    }
    output.values = std::move(values);
  }
  return outputs;
}

absl::StatusOr<std::vector<std::string>> LeftOut::Fields(const DataSource& source,
                                                         std::span<const uint64_t> records,
                                                         std::span<const std::string> names) const {
  absl::StatusOr<std::vector<std::string>> all = source.Fields(records, names);
  if (all.ok() || count_ == 0) return all;
  all = std::vector<std::string>();
  for (const uint64_t record : records) {
    auto own = source.Fields({&record, 1}, names).value_or(std::vector<std::string>());
    own.resize(names.size());
    all->insert(all->end(), own.begin(), own.end());
  }
  return all;
}

std::string LeftOut::Line() const {
  if (count_ == 0) return "";
  return absl::StrCat(count_, count_ == 1 ? " record" : " records",
                      " could not be read, and the predictions there are NaN, first of ", first_);
}

}  // namespace paracord
