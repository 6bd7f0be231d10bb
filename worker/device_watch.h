// A program that tells when its device is lost (DATA_LOSS: a GPU that answers nothing any more), so
// that the process can end and a new one begin: what is computed after that is an error for ever.
// Owned by the workload; `lost` is called on the thread that computes, once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "program/gradient_program.h"

namespace paracord {

std::unique_ptr<GradientProgram> WatchDevice(std::unique_ptr<GradientProgram> program,
                                             std::function<void(const std::string& why)> lost);

}  // namespace paracord
