#include "program/program_file.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "config/json_fields.h"
#include "config/partitions.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint32_t kBatchMax = 1 << 24;
constexpr uint64_t kRowsMax = uint64_t{1} << 32;

ProgramColumn ReadColumn(const json& value, const std::string& path, Problems& problems) {
  JsonFields fields(value, path, problems);
  ProgramColumn column;
  const json* const name = fields.FindValue("name");  // may be empty if there is a single column
  if (name != nullptr && name->is_string()) column.name = name->get<std::string>();
  if (name == nullptr || !name->is_string()) fields.Problem("name", "must be a string");
  ReadShape(fields, column.shape);
  static constexpr std::string_view kTypes[] = {"float32", "int32", "int64"};
  std::string type = "float32";
  fields.OneOf("dtype", kTypes, type);
  if (type == "int32") column.type = ColumnType::kInt32;
  if (type == "int64") column.type = ColumnType::kInt64;
  fields.ReportUnknown();
  return column;
}

std::vector<std::string> NamesOf(const auto& things) {
  std::vector<std::string> names;
  for (const auto& thing : things) names.push_back(thing.name);
  return names;
}

// Reads modules; their arguments and results refer to names in the file.
class ModuleReader {
 public:
  ModuleReader(const ProgramFile& file, Problems& problems) : file_(file), problems_(problems) {
    for (const VariableSpec& variable : file.variables) variables_.push_back(variable.name());
    inputs_ = NamesOf(file.inputs);
    targets_ = NamesOf(file.targets);
    weights_ = NamesOf(file.weights);
    outputs_ = NamesOf(file.outputs);
  }

  ProgramModule Read(const json& value, const std::string& path) {
    JsonFields fields(value, path, problems_);
    ProgramModule module;
    static constexpr std::string_view kKinds[] = {"step", "predict"};
    std::string kind, code;
    fields.OneOf("kind", kKinds, kind);
    module.step = kind == "step";
    if (kind.empty()) fields.Problem("kind", "must be step or predict");
    fields.Integer("batch", 1, kBatchMax, module.batch);
    if (module.batch == 0) fields.Problem("batch", "must be a number of examples");
    fields.Integer("replicas", 1, kLanesMax, module.replicas);
    fields.String("code", code);
    if (code.empty() || !absl::Base64Unescape(code, &module.code)) {
      fields.Problem("code", "must be StableHLO in base64");
    }
    ReadList(fields, "arguments", [&](const json& one, const std::string& at) {
      module.arguments.push_back(ReadArgument(one, at));
    });
    ReadList(fields, "results", [&](const json& one, const std::string& at) {
      module.results.push_back(ReadResult(one, at));
    });
    fields.ReportUnknown();
    return module;
  }

 private:
  size_t Index(JsonFields& fields, const std::vector<std::string>& names) {
    const json* const name = fields.FindValue("name");
    const std::string text =
        name != nullptr && name->is_string() ? name->get<std::string>() : std::string();
    const auto found = std::find(names.begin(), names.end(), text);
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
    fields.Problem("name", absl::StrCat("\"", OneLine(text, 200), "\" is none that the file has"));
    return 0;
  }

  // Only a table's argument has a number of rows.
  void ReadRows(JsonFields& fields, ModuleArgument& argument) {
    const bool table = file_.tables.contains(argument.index);
    if (table) fields.Integer("rows", 1, kRowsMax, argument.rows);
    if (table && argument.rows == 0) fields.Problem("rows", "must say how many rows of the table");
  }

  ModuleArgument ReadArgument(const json& value, const std::string& path) {
    using Kind = ModuleArgument::Kind;
    JsonFields fields(value, path, problems_);
    static constexpr std::string_view kKinds[] = {"variable", "input", "target", "weight", "key"};
    std::string kind;
    fields.OneOf("kind", kKinds, kind);
    ModuleArgument argument;
    if (kind == "variable") {
      argument = {Kind::kVariable, Index(fields, variables_)};
      ReadRows(fields, argument);
    }
    if (kind == "input") argument = {Kind::kInput, Index(fields, inputs_)};
    if (kind == "target") argument = {Kind::kTarget, Index(fields, targets_)};
    if (kind == "weight") argument = {Kind::kWeight, Index(fields, weights_)};
    if (kind.empty()) fields.Problem("kind", "says what the argument is, and is missing");
    fields.ReportUnknown();
    return argument;
  }

  ModuleResult ReadResult(const json& value, const std::string& path) {
    using Kind = ModuleResult::Kind;
    JsonFields fields(value, path, problems_);
    static constexpr std::string_view kKinds[] = {"loss", "gradient", "output"};
    std::string kind;
    fields.OneOf("kind", kKinds, kind);
    ModuleResult result;
    if (kind == "gradient") result = {Kind::kGradient, Index(fields, variables_)};
    if (kind == "output") result = {Kind::kOutput, Index(fields, outputs_)};
    if (kind.empty()) fields.Problem("kind", "says what the result is, and is missing");
    fields.ReportUnknown();
    return result;
  }

  const ProgramFile& file_;
  Problems& problems_;
  std::vector<std::string> variables_, inputs_, targets_, weights_, outputs_;
};

// Checks that no table is passed twice: the second argument would be another array.
absl::Status CheckTablesOnce(const ProgramFile& file, const ProgramModule& module, size_t number) {
  std::set<size_t> seen;
  for (const ModuleArgument& argument : module.arguments) {
    const bool table =
        argument.kind == ModuleArgument::Kind::kVariable && file.tables.contains(argument.index);
    if (!table || seen.insert(argument.index).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("modules[", number, "] has the table ",
                                                   file.variables[argument.index].name(),
                                                   " as an argument twice"));
  }
  return absl::OkStatus();
}

// Checks that a module has every result of its kind exactly once.
absl::Status CheckResults(const ProgramFile& file, const ProgramModule& module, size_t number) {
  using Kind = ModuleResult::Kind;
  const auto refuse = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("modules[", number, "] ", what));
  };
  std::set<std::pair<Kind, size_t>> wanted;
  if (module.step) wanted.emplace(Kind::kLoss, 0);
  for (size_t v = 0; module.step && v < file.variables.size(); ++v) {
    if (HasGradient(file.variables[v])) wanted.emplace(Kind::kGradient, v);
  }
  for (size_t i = 0; !module.step && i < file.outputs.size(); ++i) wanted.emplace(Kind::kOutput, i);
  for (const ModuleResult& result : module.results) {
    if (wanted.erase({result.kind, result.index}) == 0) {
      return refuse("has a result twice, or one that is none of its kind's");
    }
  }
  for (const ModuleResult& result : module.results) {
    const bool table = result.kind == Kind::kGradient && file.tables.contains(result.index);
    if (!table || RowsOfTable(module, result.index) != 0) continue;
    return refuse(absl::StrCat("has the gradient of the table ",
                               file.variables[result.index].name(), ", which is no argument"));
  }
  if (wanted.empty()) return absl::OkStatus();
  const auto& [kind, index] = *wanted.begin();
  if (kind == Kind::kLoss) return refuse("is a step and has no loss");
  return refuse(
      absl::StrCat("lacks the ", kind == Kind::kGradient
                                     ? absl::StrCat("gradient of ", file.variables[index].name())
                                     : absl::StrCat("output \"", file.outputs[index].name, "\"")));
}

// Checks a module for several replicas. `single` are the batches of the steps for one.
absl::Status CheckReplicas(const ProgramFile& file, size_t number,
                           const std::set<uint32_t>& single) {
  const ProgramModule& module = file.modules[number];
  if (module.replicas == 1) return absl::OkStatus();
  const std::string which =
      absl::StrCat("modules[", number, "], for ", module.replicas, " replicas, ");
  if (!module.step) {
    return absl::InvalidArgumentError(absl::StrCat(which, "is a prediction, which one computes"));
  }
  if (!std::has_single_bit(module.replicas)) {
    return absl::InvalidArgumentError(
        absl::StrCat(which, "must be for a power of two of them, as many as a run has lanes"));
  }
  if (module.replicas != ReplicasOf(file)) {
    return absl::InvalidArgumentError(
        absl::StrCat(which, "is beside one for ", ReplicasOf(file), " replicas"));
  }
  if (!file.tables.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        which, "adds up gradients, and those of the table ",
        file.variables[file.tables.begin()->first].name(), " are of other rows on each replica"));
  }
  if (single.contains(module.batch)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      which, "lacks a step of ", module.batch,
      " examples for one replica, which computes the lanes of a round that has fewer"));
}

absl::Status CheckModules(const ProgramFile& file) {
  std::set<std::tuple<bool, uint32_t, uint32_t>> sizes;
  std::set<uint32_t> single;
  bool steps = false;
  for (size_t i = 0; i < file.modules.size(); ++i) {
    const ProgramModule& module = file.modules[i];
    RETURN_IF_ERROR(CheckTablesOnce(file, module, i));
    RETURN_IF_ERROR(CheckResults(file, module, i));
    steps |= module.step;
    if (module.step && module.replicas == 1) single.insert(module.batch);
    if (!sizes.emplace(module.step, module.batch, module.replicas).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "modules[", i, "] has the kind and the batch of ", module.batch, " of one before it"));
    }
  }
  if (!steps) return absl::InvalidArgumentError("modules: there is no step among them");
  for (size_t i = 0; i < file.modules.size(); ++i) RETURN_IF_ERROR(CheckReplicas(file, i, single));
  return absl::OkStatus();
}

absl::Status CheckNames(const char* what, std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": there are two \"", *twice, "\""));
}

}  // namespace

uint64_t RowsOfTable(const ProgramModule& module, size_t variable) {
  for (const ModuleArgument& argument : module.arguments) {
    const bool found =
        argument.kind == ModuleArgument::Kind::kVariable && argument.index == variable;
    if (found) return argument.rows;
  }
  return 0;
}

uint32_t ReplicasOf(const ProgramFile& file) {
  for (const ProgramModule& module : file.modules) {
    if (module.replicas > 1) return module.replicas;
  }
  return 1;
}

absl::StatusOr<ProgramFile> ReadProgramFile(const json& document) {
  Problems problems;
  JsonFields fields(document, "", problems);
  ProgramFile file;
  const json* const format = fields.FindValue("format");
  if (format == nullptr || *format != kProgramFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program file must have the format ", kProgramFormat, ", is ",
                     format == nullptr ? "without one" : OneLine(JsonExcerpt(*format), 100)));
  }
  fields.String("made_by", file.made_by);
  fields.String("stablehlo", file.stablehlo);
  ReadList(fields, "variables", [&](const json& value, const std::string& path) {
    std::optional<DeclaredTable> table;
    file.variables.push_back(ReadVariable(value, path, problems, table));
    if (table.has_value()) file.tables[file.variables.size() - 1] = *std::move(table);
  });
  for (const auto& [key, columns] : {std::pair("inputs", &file.inputs),
                                     {"targets", &file.targets},
                                     {"weights", &file.weights}}) {
    ReadList(fields, key, [&, columns = columns](const json& value, const std::string& path) {
      columns->push_back(ReadColumn(value, path, problems));
    });
  }
  ReadList(fields, "outputs", [&](const json& value, const std::string& path) {
    file.outputs.push_back(ReadOutput(value, path, problems));
  });
  ModuleReader modules(file, problems);
  ReadList(fields, "modules", [&](const json& value, const std::string& path) {
    file.modules.push_back(modules.Read(value, path));
  });
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  RETURN_IF_ERROR(CheckVariables(file.variables));
  RETURN_IF_ERROR(CheckNames("inputs", NamesOf(file.inputs)));
  RETURN_IF_ERROR(CheckNames("targets", NamesOf(file.targets)));
  RETURN_IF_ERROR(CheckNames("weights", NamesOf(file.weights)));
  RETURN_IF_ERROR(CheckNames("outputs", NamesOf(file.outputs)));
  RETURN_IF_ERROR(CheckModules(file));
  return file;
}

}  // namespace paracord
