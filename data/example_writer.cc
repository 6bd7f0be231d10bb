#include "data/example_writer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/tf_example.h"

namespace paracord {
namespace {

using nlohmann::json;

// Records read together, fewer if large.
constexpr uint64_t kRecordsAtOnce = 256, kValuesMax = uint64_t{1} << 20;

// A key in a job of this format: a kind of column, whose specs name their input or output under
// `group`.
struct Kind {
  const char* key;
  const char* group;
  std::vector<Column> Batch::*columns;
};
constexpr Kind kKinds[] = {{"features", "input", &Batch::inputs},
                           {"label", "output", &Batch::targets},
                           {"weight", "output", &Batch::weights}};

std::string NameOf(const Kind& kind, const Column& column) {
  if (column.name.empty()) return kind.key;
  return kind.columns == &Batch::weights ? absl::StrCat(kind.key, "/", column.name) : column.name;
}

uint64_t ValuesOf(const Column& column) {
  uint64_t size = 1;
  for (const uint64_t dim : column.shape) size *= dim;
  return size;
}

// The inputs written as int64, because of a number beyond float32's precision.
using WholeInputs = std::set<std::string>;

// Adds to `whole` the inputs to be written as int64; returns whether any was added.
bool FindWhole(const Batch& batch, WholeInputs& whole) {
  bool found = false;
  for (const Column& column : batch.inputs) {
    if (!column.exact.empty()) found = whole.insert(column.name).second || found;
  }
  return found;
}

absl::Status WholeColumns(const Batch& batch, const WholeInputs& whole,
                          std::map<std::string, std::vector<int64_t>>& numbers) {
  for (const Column& column : batch.inputs) {
    if (!whole.contains(column.name)) continue;
    const auto is_part = [](float value) { return value != std::trunc(value); };
    auto bad = std::ranges::find_if(column.values, is_part) - column.values.begin();
    if (const auto unknown = WholeNumbers(column, numbers[column.name])) {
      bad = std::min(bad, static_cast<std::ptrdiff_t>(*unknown));
    }
    if (static_cast<size_t>(bad) == column.values.size()) continue;
    const size_t example = static_cast<size_t>(bad) * batch.examples / column.values.size();
    return absl::InvalidArgumentError(
        absl::StrCat(Where(batch, example), ": input \"", column.name, "\" is ",
                     column.values[static_cast<size_t>(bad)],
                     " here, and elsewhere a whole number beyond 2^24; "
                     "a list of an example holds either integers or floats"));
  }
  return absl::OkStatus();
}

void AddExample(const Batch& batch, size_t example,
                const std::map<std::string, std::vector<int64_t>>& whole, ExampleBuilder& builder) {
  for (const Kind& kind : kKinds) {
    for (const Column& column : batch.*kind.columns) {
      const auto n = static_cast<size_t>(ValuesOf(column));
      const std::string name = NameOf(kind, column);
      const auto numbers = kind.columns == &Batch::inputs ? whole.find(column.name) : whole.end();
      if (column.text) {
        builder.Texts(name, std::span(column.strings).subspan(example * n, n));
      } else if (numbers != whole.end()) {
        builder.Ints(name, std::span(numbers->second).subspan(example * n, n));
      } else {
        builder.Floats(name, std::span(column.values).subspan(example * n, n));
      }
    }
  }
}

}  // namespace

absl::StatusOr<json> ExamplesSpec(const Batch& schema, const std::string& path) {
  json spec = {{"format", "tfrecord"}, {"files", path}};
  std::set<std::string> names;
  for (const Kind& kind : kKinds) {
    for (const Column& column : schema.*kind.columns) {
      json feature = {{"name", NameOf(kind, column)}};
      if (!names.insert(feature["name"]).second) {
        return absl::InvalidArgumentError(absl::StrCat("two features would be called \"",
                                                       feature["name"].get<std::string>(), "\""));
      }
      if (!column.shape.empty()) feature["shape"] = column.shape;
      if (column.text) feature["dtype"] = "string";
      if (!column.name.empty()) feature[kind.group] = column.name;
      spec[kind.key].push_back(std::move(feature));
    }
  }
  return spec;
}

absl::StatusOr<bool> WriteExamples(const DataSource& source, WholeInputs& whole,
                                   TfRecordWriter& writer) {
  uint64_t values = 1;
  for (const Kind& kind : kKinds) {
    for (const Column& column : source.schema().*kind.columns) values += ValuesOf(column);
  }
  const uint64_t at_once = std::clamp<uint64_t>(kValuesMax / values, 1, kRecordsAtOnce);
  Batch batch;
  ExampleBuilder builder;
  std::map<std::string, std::vector<int64_t>> numbers;
  for (uint64_t record = 0; record < source.records();) {
    std::vector<uint64_t> some;
    while (some.size() < at_once && record < source.records()) some.push_back(record++);
    RETURN_IF_ERROR(source.Read(some, batch));
    const std::string bad = FirstNotFinite(batch);
    if (!bad.empty()) return absl::InvalidArgumentError(bad);
    if (FindWhole(batch, whole)) return false;
    RETURN_IF_ERROR(WholeColumns(batch, whole, numbers));
    for (size_t example = 0; example < batch.examples; ++example) {
      AddExample(batch, example, numbers, builder);
      RETURN_IF_ERROR(writer.Append(builder.Take()));
    }
  }
  return true;
}

}  // namespace paracord
