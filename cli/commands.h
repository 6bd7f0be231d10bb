// The commands of `paracord`: each takes the arguments after its name and gives the exit code.
#pragma once

#include <span>
#include <string>

namespace paracord {

using Args = std::span<const std::string>;

int RunTrain(Args args);
int RunStatus(Args args);

}  // namespace paracord
