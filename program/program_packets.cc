#include "program/program_packets.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "config/partitions.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kBytesMax = uint64_t{1} << 46;
// Offsets of variables in a packet, well within a socket's limit.
constexpr size_t kInPacket = 2000;

// Reads the columns wanted as int64: {"inputs": {"user": "int64"}}.
void ReadDtypes(JsonFields& fields, ProgramHello& hello) {
  const json* value = fields.FindValue("dtypes");
  if (value == nullptr) return;
  const auto wrong = [&] {
    fields.Problem("dtypes", R"(must say float32 or int64 of columns, as in )"
                             R"({"inputs": {"user": "int64"}})");
  };
  if (!value->is_object()) return wrong();
  for (const auto& [kind, columns] : value->items()) {
    const bool known = kind == "inputs" || kind == "targets" || kind == "weights";
    if (!known || !columns.is_object()) return wrong();
    for (const auto& [name, dtype] : columns.items()) {
      if (dtype != "float32" && dtype != "int64") return wrong();
      if (dtype == "int64") hello.int64_columns.emplace(kind, name);
    }
  }
}

// Allocates consecutive offsets in the memory file.
class Places {
 public:
  uint64_t Add(uint64_t elements, uint64_t element_bytes = sizeof(float)) {
    const uint64_t offset = end_;
    const uint64_t most = (kBytesMax - end_) / element_bytes;
    if (elements > most) return fits_ = false, offset;
    end_ += (elements * element_bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (end_ > kBytesMax) fits_ = false, end_ = kBytesMax;
    return offset;
  }
  // A column of the data, or an output, of `batch` examples.
  uint64_t AddRows(uint64_t batch, const std::vector<uint64_t>& shape,
                   uint64_t element_bytes = sizeof(float)) {
    for (const uint64_t axis : shape) {
      if (axis != 0 && batch > kBytesMax / axis) return fits_ = false, end_;
      batch *= axis;
    }
    return Add(batch, element_bytes);
  }
  uint64_t end() const { return end_; }
  bool fits() const { return fits_; }

 private:
  uint64_t end_ = 0;
  bool fits_ = true;
};

// Places the columns of `wanted` with a type other than float32, and erases them from `wanted`.
absl::Status PlaceColumns(const char* kind, const std::vector<Column>& columns, uint32_t batch,
                          std::set<std::pair<std::string, std::string>>& wanted,
                          const std::set<std::string>& ids, Places& places,
                          std::vector<PlacedColumn>& out) {
  for (const Column& column : columns) {
    if (column.text) {
      return absl::InvalidArgumentError(
          absl::StrCat("data: column \"", column.name,
                       "\" is strings, and a program in a process is given numbers alone"));
    }
    const bool int64 = wanted.erase({kind, column.name}) > 0 || ids.contains(column.name);
    const uint64_t bytes = int64 ? sizeof(int64_t) : sizeof(float);
    out.push_back({places.AddRows(batch, column.shape, bytes), int64});
  }
  return absl::OkStatus();
}

json ColumnsJson(const std::vector<Column>& columns, const std::vector<PlacedColumn>& places) {
  json list = json::array();
  for (size_t i = 0; i < columns.size(); ++i) {
    list.push_back({{"name", columns[i].name},
                    {"shape", columns[i].shape},
                    {"offset", places[i].offset},
                    {"dtype", places[i].int64 ? "int64" : "float32"}});
  }
  return list;
}

bool Same(const VariableSpec& a, const VariableSpec& b) {
  return a.SerializeAsString() == b.SerializeAsString() ||
         (a.name() == b.name() && a.trainable() == b.trainable() &&
          a.moving_average() == b.moving_average() && a.constraint() == b.constraint() &&
          std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(), b.shape().end()));
}

}  // namespace

absl::StatusOr<bool> AddHello(const json& packet, ProgramHello& hello) {
  Problems problems;
  JsonFields fields(packet, "hello", problems);
  const json* version = fields.FindValue("hello");
  if (version == nullptr || *version != kProgramProtocol) {
    return absl::InvalidArgumentError(absl::StrCat("its first packet must be a hello of protocol ",
                                                   kProgramProtocol, ", is ",
                                                   OneLine(JsonExcerpt(packet), 200)));
  }
  bool more = false;
  fields.Bool("more", more);
  ReadList(fields, "variables", [&](const json& value, const std::string& path) {
    std::optional<DeclaredTable> table;
    hello.variables.push_back(ReadVariable(value, path, problems, table));
    if (table.has_value()) hello.tables[hello.variables.size() - 1] = *std::move(table);
  });
  ReadList(fields, "outputs", [&](const json& value, const std::string& path) {
    hello.outputs.push_back(ReadOutput(value, path, problems));
  });
  ReadList(fields, "batches", [&](const json& value, const std::string& path) {
    const bool good = value.is_number_unsigned() && value > 0 && value < (1 << 24);
    if (good) hello.batches.push_back(value.get<uint32_t>());
    if (!good) problems.Add(path, "must be a number of examples");
  });
  ReadList(fields, "metrics", [&](const json& value, const std::string& path) {
    const bool good = value.is_string() && IsName(value.get_ref<const std::string&>());
    if (good) hello.metrics.push_back(value.get<std::string>());
    if (!good) problems.Add(path, "must be a name");
  });
  ReadDtypes(fields, hello);
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  return more;
}

absl::Status CheckHello(const ProgramHello& hello) {
  RETURN_IF_ERROR(CheckVariables(hello.variables));
  const std::set<std::string> names(hello.metrics.begin(), hello.metrics.end());
  if (names.size() != hello.metrics.size()) {
    return absl::InvalidArgumentError("the program has two metrics of one name");
  }
  if (!hello.metrics.empty() && hello.metrics[0] != "loss") {
    return absl::InvalidArgumentError("the first metric that the program evaluates must be loss");
  }
  if (!hello.metrics.empty() && !hello.batches.empty()) {
    return absl::InvalidArgumentError(
        "the program evaluates batches itself, which may have any size, and can compute some sizes "
        "alone: let it predict, and the job name a loss and metrics");
  }
  return absl::OkStatus();
}

absl::Status CheckSameHello(const ProgramHello& before, const ProgramHello& now) {
  const auto refuse = [](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program was started again and has ", what, " than before"));
  };
  if (before.variables.size() != now.variables.size()) return refuse("another number of variables");
  for (size_t i = 0; i < before.variables.size(); ++i) {
    if (Same(before.variables[i], now.variables[i])) continue;
    return refuse(absl::StrCat("another variable ", before.variables[i].name()));
  }
  if (before.tables != now.tables) return refuse("other tables");
  if (before.batches != now.batches) return refuse("other batch sizes");
  if (before.metrics != now.metrics) return refuse("other metrics");
  if (before.int64_columns != now.int64_columns) return refuse("other types of columns");
  const auto same = [](const ProgramOutput& a, const ProgramOutput& b) {
    return a.name == b.name && a.shape == b.shape;
  };
  if (!std::equal(before.outputs.begin(), before.outputs.end(), now.outputs.begin(),
                  now.outputs.end(), same)) {
    return refuse("other outputs");
  }
  return absl::OkStatus();
}

absl::StatusOr<ProgramLayout> LayOut(const ProgramHello& hello, const Batch& schema, uint32_t batch,
                                     const TableRoom& tables) {
  ProgramLayout layout;
  layout.batch = batch;
  layout.rows = tables.rows;
  Places places;
  const auto place = [&](size_t v) {
    const VariableSpec& variable = hello.variables[v];
    std::vector<uint64_t> shape(variable.shape().begin(), variable.shape().end());
    if (layout.rows[v].has_value()) shape[0] = *layout.rows[v];
    return places.AddRows(1, shape);
  };
  const size_t count = hello.variables.size();
  for (size_t v = 0; v < count; ++v) layout.values.push_back(place(v));
  for (size_t v = 0; v < count; ++v) {
    layout.gradients.emplace_back();
    if (HasGradient(hello.variables[v])) layout.gradients.back() = place(v);
  }
  auto wanted = hello.int64_columns;
  const std::set<std::string> none;
  for (const auto& [kind, columns, ids, placed] :
       {std::tuple("inputs", &schema.inputs, &tables.inputs, &layout.inputs),
        std::tuple("targets", &schema.targets, &none, &layout.targets),
        std::tuple("weights", &schema.weights, &none, &layout.weights)}) {
    RETURN_IF_ERROR(PlaceColumns(kind, *columns, batch, wanted, *ids, places, *placed));
  }
  if (!wanted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program wants int64 of a column \"", OneLine(wanted.begin()->second, 200),
                     "\" that the data's ", wanted.begin()->first, " lack"));
  }
  for (const ProgramOutput& output : hello.outputs) {
    layout.outputs.push_back(places.AddRows(batch, {output.shape.begin(), output.shape.end()}));
  }
  if (!places.fits()) {
    return absl::InvalidArgumentError("the program's variables and batches take too much memory");
  }
  layout.bytes = std::max<uint64_t>(places.end(), kAlignment);
  return layout;
}

std::vector<json> LayoutPackets(const ProgramLayout& layout, const Batch& schema) {
  std::vector<json> packets;
  size_t v = 0;
  do {
    const size_t end = std::min(layout.values.size(), v + kInPacket);
    json values = json::array(), gradients = json::array(), rows = json::array();
    const auto or_null = [](const std::optional<uint64_t>& number) {
      return number.has_value() ? json(*number) : json();
    };
    for (; v < end; ++v) {
      values.push_back(layout.values[v]);
      gradients.push_back(or_null(layout.gradients[v]));
      rows.push_back(or_null(layout.rows[v]));
    }
    packets.push_back({{"layout", kProgramProtocol},
                       {"values", std::move(values)},
                       {"gradients", std::move(gradients)},
                       {"rows", std::move(rows)},
                       {"more", true}});
  } while (v < layout.values.size());
  json& last = packets.back();
  last["more"] = false;
  last["bytes"] = layout.bytes;
  last["batch"] = layout.batch;
  last["inputs"] = ColumnsJson(schema.inputs, layout.inputs);
  last["targets"] = ColumnsJson(schema.targets, layout.targets);
  last["weights"] = ColumnsJson(schema.weights, layout.weights);
  last["outputs"] = layout.outputs;
  return packets;
}

}  // namespace paracord
