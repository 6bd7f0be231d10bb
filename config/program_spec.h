// A job's model that is a program of the user: a command that a worker runs as a child process, and
// the files it needs, or a file of modules of StableHLO (program/program_file.h). All files become
// part of the job, so that every worker runs the same. Pure but for reading those files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_data.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

struct ProgramSpec {
  std::vector<std::string> command;          // at least the program's name
  std::map<std::string, std::string> files;  // text by relative path, without ".."
  uint32_t step_s = 300;                     // an answer that takes longer is none
};

// Whether a model is {"program": ...} rather than that of Keras.
bool IsProgram(const nlohmann::json& model);
// Whether it is {"program": "stablehlo", "file": ...}.
bool IsStableHlo(const nlohmann::json& model);
// Whether a JSON document may be a program file itself, which `paracord compute` takes as a model.
bool IsProgramFile(const nlohmann::json& document);
// The canonical model of such a document.
nlohmann::json StableHloModel(nlohmann::json document);

// The canonical form of such a model: `files`, a list of paths relative to `base`, becomes an
// object of their texts by these paths, and `file`, a path, the JSON of that program file; what is
// an object already stays as it is. `files_of` is null where no file may be read. Null, and
// problems, where something is wrong.
nlohmann::json InlineProgram(const nlohmann::json& model, Files* files_of,
                             const BaseDirectory& base, Problems& problems);

// INVALID_ARGUMENT unless the model is a program in a process, in its canonical form.
absl::StatusOr<ProgramSpec> ReadProgramSpec(const nlohmann::json& model);

}  // namespace paracord
