// Wraps a program to notice a DATA_LOSS, which means a lost device: a GPU no longer answers, or the
// process of a program was lost again and again. The process should then end and be started again,
// because no computation succeeds any more. `lost` is called once, on the thread that computes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "program/gradient_program.h"

namespace paracord {

std::unique_ptr<GradientProgram> WatchDevice(std::unique_ptr<GradientProgram> program,
                                             std::function<void(const std::string& why)> lost);

}  // namespace paracord
