#include "data/row_source.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/skipping_source.h"

namespace paracord {
namespace {

// The columns of a kind (inputs, targets or weights) of a batch, walked record by record.
struct Walk {
  std::vector<float*> at;
  std::vector<std::string*> strings;
  std::vector<size_t> step;
  std::vector<std::vector<ExactInteger>> exact;  // exact numbers of the record

  Walk(const std::vector<Column>& schema, size_t examples, std::vector<Column>& columns) {
    columns.resize(schema.size());
    exact.resize(schema.size());
    for (size_t i = 0; i < schema.size(); ++i) {
      columns[i].name = schema[i].name;
      columns[i].shape = schema[i].shape;
      step.push_back(std::accumulate(schema[i].shape.begin(), schema[i].shape.end(), size_t{1},
                                     std::multiplies<>()));
      columns[i].text = schema[i].text;
      columns[i].exact.clear();
      columns[i].values.resize(schema[i].text ? 0 : examples * step.back());
      columns[i].strings.resize(schema[i].text ? examples * step.back() : 0);
      at.push_back(schema[i].text ? nullptr : columns[i].values.data());
      strings.push_back(schema[i].text ? columns[i].strings.data() : nullptr);
    }
  }
  // Takes over the large whole numbers of record `record` of the batch, and moves on to the next
  // record.
  void Next(size_t record, std::vector<Column>& columns) {
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] != nullptr) at[i] += step[i];
      if (strings[i] != nullptr) strings[i] += step[i];
      for (const ExactInteger& each : exact[i]) {
        columns[i].exact.push_back({record * step[i] + each.element, each.value});
      }
      exact[i].clear();
    }
  }
};

}  // namespace

absl::Status RowSource::Read(std::span<const uint64_t> records, Batch& batch) const {
  batch.examples = static_cast<uint32_t>(records.size());
  batch.source = this;
  batch.records.assign(records.begin(), records.end());
  Walk inputs(schema_.inputs, records.size(), batch.inputs);
  Walk targets(schema_.targets, records.size(), batch.targets);
  Walk weights(schema_.weights, records.size(), batch.weights);
  for (size_t i = 0; i < records.size(); ++i) {
    const uint64_t record = records[i];
    if (record >= this->records()) {
      return absl::OutOfRangeError(
          absl::StrCat("record ", record, ": there are only ", this->records(), " records"));
    }
    RETURN_IF_ERROR(
        ReadRow(record, {inputs.at, targets.at, weights.at, inputs.strings, inputs.exact}));
    inputs.Next(i, batch.inputs);
    targets.Next(i, batch.targets);
    weights.Next(i, batch.weights);
  }
  return absl::OkStatus();
}

void RowSource::Forgive(const DataSpec& spec) {
  Problems ignored;  // reported by OpenDataSource
  bad_records_ = BadRecordsSkipped(spec.options, ignored);
}

absl::Status RowSource::CheckFirst(uint64_t count) const {
  Batch batch;
  const uint64_t end = std::min(records(), count);
  const size_t at_once = CheckedAtOnce(schema_);
  std::vector<uint64_t> some;
  uint64_t bad = 0;
  for (uint64_t record = 0; record < end; ++record) {
    some.push_back(record);
    if (some.size() < at_once && record + 1 < end) continue;
    const absl::Status status = Read(some, batch);
    if (!status.ok() && bad_records_ == 0) return status;
    for (size_t i = 0; !status.ok() && i < some.size(); ++i) {
      const absl::Status one = Read({&some[i], 1}, batch);
      if (!one.ok() && ++bad > bad_records_) return one;
    }
    some.clear();
  }
  return absl::OkStatus();
}

std::vector<std::string> RowSource::Warnings() const {
  if (without_records_.empty()) return {};
  const size_t count = without_records_.size();
  return {absl::StrCat(count, count == 1 ? " file has" : " files have",
                       " no records and add nothing: ", without_records_[0],
                       count == 1 ? "" : ", ...")};
}

}  // namespace paracord
