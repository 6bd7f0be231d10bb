// A program that notices the loss of its device (DATA_LOSS: a GPU stops answering), after which all
// computing fails for ever, so that the process can end and be started again. Owned by the
// workload; `lost` is called once, on the thread that computes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "program/gradient_program.h"

namespace paracord {

std::unique_ptr<GradientProgram> WatchDevice(std::unique_ptr<GradientProgram> program,
                                             std::function<void(const std::string& why)> lost);

}  // namespace paracord
