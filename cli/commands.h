// The commands of `paracord`: each takes the arguments after its name and gives the exit code.
#pragma once

#include <ostream>
#include <span>
#include <string>

namespace paracord {

using Args = std::span<const std::string>;

int RunTrain(Args args);
int RunStatus(Args args, std::ostream& out, std::ostream& err);
int RunEvaluate(Args args, std::ostream& out, std::ostream& err);
int RunExport(Args args, std::ostream& out, std::ostream& err);
int RunCheckpoint(Args args, std::ostream& out, std::ostream& err);
int RunConvert(Args args, std::ostream& out, std::ostream& err);
int RunCompute(Args args, std::ostream& out, std::ostream& err);

}  // namespace paracord
