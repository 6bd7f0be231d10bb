// A job's model that is a program of the user: a command that a worker runs as a child process,
// with the files that the command needs, or a file of StableHLO modules (program/program_file.h).
// The files become part of the job, so that every worker runs the same program. Pure but for
// reading the files.
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
  std::vector<std::string> command;  // the program's name and its arguments
  // The text of each file, by its relative path (without "..").
  std::map<std::string, std::string> files;
  uint32_t step_s = 300;  // the most seconds until the child answers
};

// Whether a model is {"program": ...} rather than JSON of Keras.
bool IsProgram(const nlohmann::json& model);
// Whether the model is {"program": "stablehlo", "file": ...}.
bool IsStableHlo(const nlohmann::json& model);
// Whether a document looks like a program file, which `paracord compute` also takes as a model.
bool IsProgramFile(const nlohmann::json& document);
// Returns the value of a job's key `model` for `document`, the JSON of a program file.
nlohmann::json StableHloModel(nlohmann::json document);

// Returns a model that is a program in the form that JobToJson writes. `files`, a list of paths
// relative to `base`, becomes an object of texts by path, and `file`, a path, becomes the JSON of
// the program file; both stay if they are objects already. `files_of` reads the files; if it is
// null, a path is a problem. Returns JSON's null after a problem.
nlohmann::json InlineProgram(const nlohmann::json& model, Files* files_of,
                             const BaseDirectory& base, Problems& problems);

// Reads a model in the form that InlineProgram returns. INVALID_ARGUMENT: the model is no program
// that runs as a process.
absl::StatusOr<ProgramSpec> ReadProgramSpec(const nlohmann::json& model);

}  // namespace paracord
