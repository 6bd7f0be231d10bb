// `paracord validate`: reads a job and, if there is one, a cluster, opens the data, builds the
// model, and prints what would run or everything that is wrong. Changes nothing, dials nobody.
// What is wrong comes last: the rest may be long.
#pragma once

#include <ostream>
#include <span>
#include <string>

namespace paracord {

// `args` without the program's and the command's name. Returns the exit code.
int RunValidate(std::span<const std::string> args, std::ostream& out, std::ostream& err);

}  // namespace paracord
