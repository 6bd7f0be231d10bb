// paracord init: a first job from a model and its data.
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/job_guess.h"
#include "cli/keras_file.h"
#include "common/json_text.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "config/flags.h"
#include "config/job_file.h"
#include "config/json_fields.h"
#include "config/limits.h"
#include "data/file_glob.h"
#include "objects/all_files.h"

namespace paracord {
namespace {

struct InitFlags {
  std::string model, out = "job.json";
  std::vector<std::string> data;
  std::string more;  // the argument without a flag
  std::optional<std::string> label;
};

absl::StatusOr<nlohmann::json> ReadModelFile(Files& files, const std::string& path) {
  std::string text;
  if (IsKerasFileName(path)) {
    ASSIGN_OR_RETURN(text, KerasModelText(files, path));
  } else {
    ASSIGN_OR_RETURN(text, files.ReadWhole(path));
  }
  absl::StatusOr<nlohmann::json> model = ParseJson(text, kJobBytesMax, kJobDepthMax);
  if (model.ok()) return model;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", std::string(model.status().message()),
                   "; a model is a .keras file or what model.to_json() returns"));
}

// Makes paths below the job's folder relative, so that the folder may be moved.
void MakeRelative(const std::string& folder, nlohmann::ordered_json& value) {
  if (value.is_string()) {
    const std::string path = value.get<std::string>();
    const std::string prefix = folder == "/" ? folder : folder + "/";
    if (absl::StartsWith(path, prefix)) value = path.substr(prefix.size());
  } else if (value.is_structured()) {
    for (nlohmann::ordered_json& each : value) MakeRelative(folder, each);
  }
}

absl::Status Init(const InitFlags& flags, std::ostream& err) {
  AllFiles files;
  const std::string model = AbsolutePath(flags.model), out = AbsolutePath(flags.out);
  std::error_code error;
  if (std::filesystem::exists(out, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--out ", flags.out, ": is there already, and is left as it is: give --out another name"));
  }
  GuessOf of;
  of.label = flags.label;
  ASSIGN_OR_RETURN(of.model, ReadModelFile(files, model));
  std::vector<std::string> patterns;
  for (const std::string& path : flags.data) patterns.push_back(AbsolutePath(path));
  if (!flags.more.empty()) patterns.insert(patterns.begin(), AbsolutePath(flags.more));
  for (const std::string& pattern : patterns) {
    ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandGlob(files, pattern));
    of.data.insert(of.data.end(), paths.begin(), paths.end());
  }
  ASSIGN_OR_RETURN(GuessedJob guessed, GuessJob(files, of));
  nlohmann::ordered_json job;
  job["model"] = model;
  job.update(guessed.job);
  MakeRelative(std::filesystem::path(out).parent_path().string(), job);
  RETURN_IF_ERROR(files.CreateExclusive(out, TextOf(job, 2) + "\n"));
  for (const std::string& guess : guessed.guesses) err << ForTerminal(guess) << "\n";
  err << "wrote " << flags.out << "; `paracord validate` says of it:\n";
  return absl::OkStatus();
}

}  // namespace

int RunInit(Args args, std::ostream& out, std::ostream& err) {
  InitFlags own;
  Flags flags("paracord init",
              "Writes a first job for a model and its data, says what it has guessed, and "
              "validates it.");
  flags.Positional("MODEL", "the model, as model.keras or as what model.to_json() gives",
                   &own.model);
  flags.OptionalPositional("DATA", "a file of data (csv or npy), or a pattern of files", &own.more);
  flags.Strings("data", "FILE",
                "more files of data; those with test or valid in their names are "
                "for tests",
                &own.data);
  flags.String("label", "COLUMN", "the column that the model learns to predict", &own.label);
  flags.String("out", "FILE", "the job's file, which must not be there yet", &own.out);
  const auto code = flags.ParseOrExit(args, "paracord init", out, err);
  if (code.has_value()) return *code;
  if (own.more.empty() && own.data.empty()) {
    return Fail("init", "needs files of data", ExitCode::kConfiguration, err);
  }
  const absl::Status status = Init(own, err);
  if (!status.ok()) return Fail("init", status.message(), ExitCode::kConfiguration, err);
  const std::vector<std::string> job = {own.out};
  return RunValidate(job, out, err);
}

}  // namespace paracord
