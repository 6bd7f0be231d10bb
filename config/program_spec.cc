#include "config/program_spec.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/utf8.h"
#include "config/limits.h"

namespace paracord {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr uint64_t kStepMaxS = 24 * 3600;

// Whether a path stays inside the folder that the child gets.
bool IsInside(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) return false;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

void ReadCommand(JsonFields& fields, std::vector<std::string>& out) {
  const json* command = fields.FindValue("command");
  const auto wrong = [&] {
    fields.Problem("command", R"(must be a list of strings, such as ["python3", "train.py"])");
  };
  if (command == nullptr || !command->is_array() || command->empty()) return wrong();
  for (const json& word : *command) {
    if (!word.is_string() || word.get_ref<const std::string&>().find('\0') != std::string::npos) {
      return wrong();
    }
    out.push_back(word.get<std::string>());
  }
  if (out[0].empty()) wrong();
}

// A program's relative path names one of `files`, which the child finds in its folder; any other
// relative path is resolved against the job file's folder, like all paths of a job.
void PlaceCommand(const BaseDirectory& base, ProgramSpec& spec) {
  if (!base.has_value() || spec.command.empty()) return;
  std::string& program = spec.command[0];
  if (program.starts_with('/') || program.find('/') == std::string::npos) return;
  if (spec.files.contains(fs::path(program).lexically_normal().string())) return;
  program = PathIn(base->string(), program);
}

// Reads the text of one of `files`, which travels as JSON.
void ReadText(const std::string& name, Files& files_of, const BaseDirectory& base, size_t& left,
              JsonFields& fields, std::map<std::string, std::string>& out) {
  const std::string path = PathIn(base->string(), name);
  absl::StatusOr<std::string> text = files_of.ReadWhole(path);
  if (!text.ok()) return fields.Problem("files", std::string(text.status().message()));
  if (Utf8Prefix(*text) < text->size()) {
    return fields.Problem("files", absl::StrCat(path, ": is no text in UTF-8"));
  }
  if (text->size() > left) {
    return fields.Problem("files", absl::StrCat("hold more than ", kJobBytesMax / 2,
                                                " bytes; a job is for programs, not for data"));
  }
  left -= text->size();
  out[name] = *std::move(text);
}

void ReadFiles(JsonFields& fields, Files* files_of, const BaseDirectory& base,
               std::map<std::string, std::string>& out) {
  const json* value = fields.FindValue("files");
  if (value == nullptr) return;
  const bool list = value->is_array() && files_of != nullptr;
  if (!list && !value->is_object()) {
    return fields.Problem("files", R"(must be a list of paths, such as ["train.py"])");
  }
  size_t left = kJobBytesMax / 2;
  for (const auto& [key, entry] : value->items()) {
    const std::string name = !list ? key : entry.is_string() ? entry.get<std::string>() : "";
    if (!IsInside(name)) {
      fields.Problem("files", absl::StrCat(JsonExcerpt(list ? entry : json(key)),
                                           " must be a path below the job file's folder, "
                                           "without . and .."));
    } else if (list) {
      ReadText(name, *files_of, base, left, fields, out);
    } else if (!entry.is_string()) {
      fields.Problem("files", absl::StrCat("\"", name, "\" must be the file's text"));
    } else {
      out[name] = entry.get<std::string>();
    }
  }
}

constexpr std::string_view kKinds[] = {"process", "stablehlo"};

ProgramSpec ReadSpec(const json& model, Files* files_of, const BaseDirectory& base,
                     Problems& problems) {
  JsonFields fields(model, "model", problems);
  ProgramSpec spec;
  std::string kind;
  fields.OneOf("program", kKinds, kind);
  ReadCommand(fields, spec.command);
  ReadFiles(fields, files_of, base, spec.files);
  fields.Integer("step_s", 1, kStepMaxS, spec.step_s);
  fields.ReportUnknown();
  PlaceCommand(base, spec);
  return spec;
}

// Returns the JSON of a program file. Only a file read here is checked to be a program file; an
// inline object is left to the program's reader.
json ReadDocument(JsonFields& fields, Files* files_of, const BaseDirectory& base) {
  const json* value = fields.FindValue("file");
  if (value != nullptr && value->is_object()) return *value;
  if (value == nullptr || files_of == nullptr || !value->is_string()) {
    fields.Problem("file", R"(must be the path of a program file, such as "model.program")");
    return nullptr;
  }
  const std::string path = PathIn(base->string(), value->get<std::string>());
  absl::StatusOr<std::string> text = files_of->ReadWhole(path);
  if (!text.ok()) {
    fields.Problem("file", std::string(text.status().message()));
    return nullptr;
  }
  absl::StatusOr<json> document = ParseJson(*text, kJobBytesMax, kJobDepthMax);
  if (document.ok() && IsProgramFile(*document)) return *std::move(document);
  const std::string why = document.ok() ? "its JSON has no format and modules"
                                        : std::string(document.status().message());
  fields.Problem("file", absl::StrCat(path, ": is no program file as paracord.keras.export and ",
                                      "paracord.jax.export write it: ", why));
  return nullptr;
}

json InlineStableHlo(const json& model, Files* files_of, const BaseDirectory& base,
                     Problems& problems) {
  JsonFields fields(model, "model", problems);
  std::string kind;
  fields.OneOf("program", kKinds, kind);
  json document = ReadDocument(fields, files_of, base);
  fields.ReportUnknown();
  return StableHloModel(std::move(document));
}

}  // namespace

bool IsProgram(const json& model) { return model.is_object() && model.contains("program"); }

bool IsStableHlo(const json& model) { return IsProgram(model) && model["program"] == "stablehlo"; }

bool IsProgramFile(const json& document) {
  return document.is_object() && document.contains("format") && document.contains("modules");
}

json StableHloModel(json document) {
  return {{"program", "stablehlo"}, {"file", std::move(document)}};
}

json InlineProgram(const json& model, Files* files_of, const BaseDirectory& base,
                   Problems& problems) {
  const size_t before = problems.lines().size();
  if (IsStableHlo(model)) {
    json inlined = InlineStableHlo(model, files_of, base, problems);
    return problems.lines().size() > before ? json() : inlined;
  }
  const ProgramSpec spec = ReadSpec(model, files_of, base, problems);
  if (problems.lines().size() > before) return nullptr;
  return {{"program", "process"},
          {"command", spec.command},
          {"files", spec.files},
          {"step_s", spec.step_s}};
}

absl::StatusOr<ProgramSpec> ReadProgramSpec(const json& model) {
  Problems problems;
  ProgramSpec spec = ReadSpec(model, nullptr, std::nullopt, problems);
  if (problems.empty() && IsStableHlo(model)) problems.Add("model.program", "is no process");
  if (!problems.empty()) return problems.ToStatus();
  return spec;
}

}  // namespace paracord
