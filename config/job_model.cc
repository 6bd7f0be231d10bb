#include "config/job_model.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "config/limits.h"
#include "config/program_spec.h"

namespace paracord {
namespace {

using nlohmann::json;

// Says how to convert a Keras file for a program that cannot read Keras files.
std::string NeedsConverting(const std::string& path) {
  return absl::StrCat(path, ": only the paracord command reads files of Keras: write `paracord ",
                      "convert ", path, " --out model.json --weights weights.safetensors`, and ",
                      "name these as model and initial_weights");
}

// Reads the text of a model's file.
absl::StatusOr<std::string> ReadModelText(Files& files, const std::string& path,
                                          const ModelTextFn& model_text) {
  if (!IsKerasFileName(path)) return files.ReadWhole(path);
  if (model_text == nullptr) return absl::InvalidArgumentError(NeedsConverting(path));
  return model_text(files, path);
}

}  // namespace

bool IsKerasFileName(std::string_view path) {
  return path.ends_with(".keras") || path.ends_with(".h5") || path.ends_with(".hdf5");
}

json ReadModel(const json& document, Files* files, const BaseDirectory& base, Problems& problems,
               const ModelTextFn& model_text) {
  const auto found = document.find("model");
  if (found == document.end()) {
    problems.Add("model", "is missing");
    return nullptr;
  }
  if (IsProgram(*found)) return InlineProgram(*found, files, base, problems);
  if (found->is_object() && !found->empty()) return *found;
  if (files == nullptr || !found->is_string() || found->get_ref<const std::string&>().empty()) {
    problems.Add("model", absl::StrCat("must be ", files == nullptr ? "" : "a path or ",
                                       "the JSON of a Keras model, is ", JsonExcerpt(*found)));
    return nullptr;
  }
  const std::string path = PathIn(base->string(), found->get<std::string>());
  absl::StatusOr<std::string> text = ReadModelText(*files, path, model_text);
  if (!text.ok()) {
    problems.Add("model", std::string(text.status().message()));
    return nullptr;
  }
  const size_t first = text->find_first_not_of(" \t\r\n\xef\xbb\xbf");  // and a BOM
  if (first == std::string::npos || (*text)[first] != '{') {
    problems.Add("model",
                 absl::StrCat(path, ": is not what model.to_json() gives: that begins with {"));
    return nullptr;
  }
  absl::StatusOr<json> model = ParseJson(*text, kJobBytesMax, kJobDepthMax);
  if (!model.ok()) {
    problems.Add("model", absl::StrCat(path, ": ", model.status().message()));
    return nullptr;
  }
  if (IsProgram(*model)) {
    return InlineProgram(*model, files, std::filesystem::path(path).parent_path(), problems);
  }
  return *std::move(model);
}

void TakeKerasWeights(const json& document, const BaseDirectory& base, bool converts, Job& job,
                      Problems& problems) {
  std::optional<std::string>& file = job.initial_weights.file;
  const auto model = document.find("model");
  if (!file.has_value() && converts && model != document.end() && model->is_string() &&
      IsKerasFileName(model->get_ref<const std::string&>())) {
    file = PathIn(base->string(), model->get<std::string>());
  } else if (file.has_value() && IsKerasFileName(*file) && !converts) {
    problems.Add("initial_weights", NeedsConverting(*file));
  }
}

}  // namespace paracord
