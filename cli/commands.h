// The commands of `paracord`: each takes the arguments after its name and gives the exit code.
#pragma once

#include <ostream>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "common/exit_code.h"

namespace paracord {

using Args = std::span<const std::string>;

// Prints why `command` fails, and gives its exit code.
int Fail(const std::string& command, absl::string_view why, ExitCode code, std::ostream& err);

int RunTrain(Args args);
int RunLaunch(Args args);
// Reads a job and, if there is one, a cluster, opens the data, builds the model, and prints what
// would run or everything that is wrong. Changes nothing, dials nobody. What is wrong comes last:
// the rest may be long.
int RunValidate(Args args, std::ostream& out, std::ostream& err);
int RunStatus(Args args, std::ostream& out, std::ostream& err);
int RunEvaluate(Args args, std::ostream& out, std::ostream& err);
int RunExport(Args args, std::ostream& out, std::ostream& err);
int RunCheckpoint(Args args, std::ostream& out, std::ostream& err);
int RunConvert(Args args, std::ostream& out, std::ostream& err);
// Asks a daemon how it is; for probes.
int RunHealth(Args args, std::ostream& out, std::ostream& err);
// Becomes a daemon; returns only if it cannot.
int RunRun(Args args, std::ostream& out, std::ostream& err);
// Writes manifests for a cluster manager.
int RunRender(Args args, std::ostream& out, std::ostream& err);
int RunCompute(Args args, std::ostream& out, std::ostream& err);

}  // namespace paracord
