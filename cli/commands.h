// The commands of `paracord`. Each takes the arguments after its name and returns the exit code.
#pragma once

#include <ostream>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "common/exit_code.h"

namespace paracord {

using Args = std::span<const std::string>;

// Prints to `err` why `command` fails, and returns `code` as a number.
int Fail(const std::string& command, absl::string_view why, ExitCode code, std::ostream& err);

int RunTrain(Args args);
int RunLaunch(Args args);
// Reads a job and, if given, a cluster, opens the data, builds the model, and prints the plan, as
// far as it can be made, and every problem. Problems come last, because the plan may be long.
// Changes nothing and calls no daemon.
int RunValidate(Args args, std::ostream& out, std::ostream& err);
// Writes a first job for a model and its data.
int RunInit(Args args, std::ostream& out, std::ostream& err);
int RunStatus(Args args, std::ostream& out, std::ostream& err);
// Asks a coordinator to spread the job over more or fewer ps.
int RunScale(Args args, std::ostream& out, std::ostream& err);
int RunEvaluate(Args args, std::ostream& out, std::ostream& err);
// Writes what a trained model predicts for records without labels.
int RunPredict(Args args, std::ostream& out, std::ostream& err);
int RunExport(Args args, std::ostream& out, std::ostream& err);
int RunCheckpoint(Args args, std::ostream& out, std::ostream& err);
int RunConvert(Args args, std::ostream& out, std::ostream& err);
// Asks a daemon whether it works, for a supervisor's health checks.
int RunHealth(Args args, std::ostream& out, std::ostream& err);
// Reports problems of this host, and their remedies.
int RunDoctor(Args args, std::ostream& out, std::ostream& err);
// Replaces this process by a daemon. Returns only after --help or an error.
int RunRun(Args args, std::ostream& out, std::ostream& err);
// Writes manifests for Kubernetes.
int RunRender(Args args, std::ostream& out, std::ostream& err);
int RunCompute(Args args, std::ostream& out, std::ostream& err);

}  // namespace paracord
