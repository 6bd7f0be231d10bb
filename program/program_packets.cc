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
constexpr size_t kAxesMax = 8;
constexpr uint64_t kAxisMax = uint64_t{1} << 40;
constexpr size_t kInPacket = 2000;  // offsets of variables, well below what a socket takes

bool ReadShape(JsonFields& fields, std::vector<uint64_t>& shape) {
  const json* value = fields.FindValue("shape");
  bool good = value != nullptr && value->is_array() && value->size() <= kAxesMax;
  for (size_t i = 0; good && i < value->size(); ++i) {
    const json& axis = (*value)[i];
    good = axis.is_number_unsigned() && axis.get<uint64_t>() <= kAxisMax;
    if (good) shape.push_back(axis.get<uint64_t>());
  }
  if (!good) fields.Problem("shape", "must be a list of at most 8 sizes");
  return good;
}

// A name, or an object of the name and numbers.
void ReadInitializer(JsonFields& fields, Initializer& out) {
  const json* value = fields.FindValue("initializer");
  if (value == nullptr) return out.set_name("zeros");
  if (value->is_string()) return out.set_name(value->get<std::string>());
  if (!value->is_object() || !value->contains("name") || !(*value)["name"].is_string()) {
    return fields.Problem("initializer", R"(must be a name or {"name": ..., option: number})");
  }
  for (const auto& [key, option] : value->items()) {
    if (key == "name") {
      out.set_name(option.get<std::string>());
    } else if (option.is_number()) {
      (*out.mutable_options())[key] = option.get<double>();
    } else {
      fields.Problem("initializer",
                     absl::StrCat("has an option \"", OneLine(key, 80), "\" that is no number"));
    }
  }
}

DeclaredTable ReadTable(const json& value, const std::string& path, Problems& problems) {
  JsonFields fields(value, path, problems);
  DeclaredTable table;
  const json* columns = fields.FindValue("columns");
  bool good = columns != nullptr && columns->is_array() && !columns->empty();
  for (size_t i = 0; good && i < columns->size(); ++i) {
    good = (*columns)[i].is_string();
    if (good) table.columns.push_back((*columns)[i].get<std::string>());
  }
  if (!good) fields.Problem("columns", "must list the inputs of the data that have its ids");
  fields.Integer("capacity", 1, kAxisMax, table.capacity);
  fields.ReportUnknown();
  return table;
}

VariableSpec ReadVariable(const json& value, const std::string& path, Problems& problems,
                          std::optional<DeclaredTable>& table) {
  JsonFields fields(value, path, problems);
  VariableSpec variable;
  std::string name, constraint;
  fields.String("name", name);
  variable.set_name(name);
  std::vector<uint64_t> shape;
  ReadShape(fields, shape);
  variable.mutable_shape()->Assign(shape.begin(), shape.end());
  variable.set_dtype(FLOAT32);
  ReadInitializer(fields, *variable.mutable_initializer());
  double moving_average = 0;
  fields.Number("moving_average", 0, 1, moving_average);
  bool assigned = false;
  fields.Bool("assigned", assigned);
  if (assigned && moving_average > 0) fields.Problem("assigned", "excludes a moving_average");
  if (assigned) moving_average = kAssignedKeeps;
  variable.set_moving_average(moving_average);
  bool trainable = moving_average == 0;
  fields.Bool("trainable", trainable);
  // A program says by it what an optimizer updates, a VariableSpec what is updated at all.
  variable.set_trainable(trainable || moving_average > 0);
  static constexpr std::string_view kConstraints[] = {"non_neg"};
  if (fields.FindValue("constraint") != nullptr) {
    fields.OneOf("constraint", kConstraints, constraint);
    variable.set_constraint(constraint);
  }
  if (const json* const found = fields.FindValue("table"); found != nullptr) {
    table = ReadTable(*found, fields.PathOf("table"), problems);
    if (!trainable || shape.empty()) fields.Problem("table", "has rows, which are trained");
  }
  fields.ReportUnknown();
  return variable;
}

ProgramOutput ReadOutput(const json& value, const std::string& path, Problems& problems) {
  JsonFields fields(value, path, problems);
  ProgramOutput output;
  const json* const name = fields.FindValue("name");  // of the only one it may be empty
  if (name != nullptr && !name->is_string()) fields.Problem("name", "must be a string");
  if (name != nullptr && name->is_string()) output.name = name->get<std::string>();
  std::vector<uint64_t> shape;
  if (ReadShape(fields, shape)) output.shape.assign(shape.begin(), shape.end());
  if (Elements(output.shape) <= 0) fields.Problem("shape", "has a dimension of 0");
  fields.ReportUnknown();
  return output;
}

// Calls `read` with each element of a list and its path.
template <class Read>
void ReadList(JsonFields& fields, const std::string& key, const Read& read) {
  const json* list = fields.FindValue(key);
  if (list == nullptr) return;
  if (!list->is_array()) return fields.Problem(key, "must be a list");
  for (size_t i = 0; i < list->size(); ++i) {
    read((*list)[i], absl::StrCat(fields.PathOf(key), "[", i, "]"));
  }
}

// Reads which columns are wanted as int64: {"inputs": {"user": "int64"}}.
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

// Where spans lie, one after the other.
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

// Places the columns that are left of `wanted` for those of another type than float32, and takes
// them out there.
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
