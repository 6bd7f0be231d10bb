#include "program/declaration.h"

#include "absl/strings/str_cat.h"
#include "common/one_line.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kAxesMax = 8;
constexpr uint64_t kAxisMax = uint64_t{1} << 40;

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

}  // namespace

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
  // In a program, trainable means updated by an optimizer; in a VariableSpec, updated at all.
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
  const json* const name = fields.FindValue("name");  // may be empty if there is a single output
  if (name != nullptr && !name->is_string()) fields.Problem("name", "must be a string");
  if (name != nullptr && name->is_string()) output.name = name->get<std::string>();
  std::vector<uint64_t> shape;
  if (ReadShape(fields, shape)) output.shape.assign(shape.begin(), shape.end());
  if (Elements(output.shape) <= 0) fields.Problem("shape", "has a dimension of 0");
  fields.ReportUnknown();
  return output;
}

void ReadList(JsonFields& fields, const std::string& key,
              const std::function<void(const json&, const std::string& path)>& read) {
  const json* list = fields.FindValue(key);
  if (list == nullptr) return;
  if (!list->is_array()) return fields.Problem(key, "must be a list");
  for (size_t i = 0; i < list->size(); ++i) {
    read((*list)[i], absl::StrCat(fields.PathOf(key), "[", i, "]"));
  }
}

std::string VariablesText(const std::vector<VariableSpec>& variables,
                          const std::function<std::string(size_t variable)>& more) {
  std::string text;
  for (size_t v = 0; v < variables.size(); ++v) {
    const VariableSpec& variable = variables[v];
    const Shape shape(variable.shape().begin(), variable.shape().end());
    absl::StrAppend(&text, "  ", OneLine(variable.name(), 200), " ", ShapeName(shape), " ",
                    variable.initializer().name());
    if (variable.moving_average() == kAssignedKeeps) {
      absl::StrAppend(&text, ", assigned");
    } else if (variable.moving_average() > 0) {
      absl::StrAppend(&text, ", moving average of ", variable.moving_average());
    } else if (!variable.trainable()) {
      absl::StrAppend(&text, ", not trained");
    }
    if (more != nullptr) absl::StrAppend(&text, more(v));
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string OutputsText(const std::vector<ProgramOutput>& outputs) {
  std::string text;
  for (const ProgramOutput& output : outputs) {
    absl::StrAppend(&text, "output \"", OneLine(output.name, 200), "\" ", ShapeName(output.shape),
                    "\n");
  }
  return text;
}

std::string ColumnText(const char* what, const std::string& name,
                       const std::vector<uint64_t>& shape, const char* dtype) {
  return absl::StrCat("  ", what, " \"", OneLine(name, 200), "\" ",
                      ShapeName({shape.begin(), shape.end()}), " ", dtype, "\n");
}

}  // namespace paracord
