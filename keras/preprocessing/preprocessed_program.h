// A model whose preprocessing layers are computed before the program that has the rest of it. Used
// by one thread at a time, like any GradientProgram.
#pragma once

#include <memory>

#include "keras/preprocessing/preprocessor.h"
#include "program/gradient_program.h"

namespace paracord {

// `rest` was built for what `preprocessor` left.
std::unique_ptr<GradientProgram> MakePreprocessedProgram(std::unique_ptr<Preprocessor> preprocessor,
                                                         std::unique_ptr<GradientProgram> rest);

}  // namespace paracord
