// Wraps a gradient program and calls `lost` when a computation first returns DATA_LOSS, which means
// a lost device: a GPU no longer answers, or the child of a ProcessProgram was lost repeatedly.
// This process should then be started again. `lost` is called on the thread that computes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "program/gradient_program.h"

namespace paracord {

std::unique_ptr<GradientProgram> WatchDevice(std::unique_ptr<GradientProgram> program,
                                             std::function<void(const std::string& why)> lost);

}  // namespace paracord
