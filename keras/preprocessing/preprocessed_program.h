// Joins preprocessing layers and the program of the rest of a model. Used by one thread at a time,
// like any GradientProgram.
#pragma once

#include <memory>

#include "keras/preprocessing/preprocessor.h"
#include "program/gradient_program.h"

namespace paracord {

// `rest` must have been built for the model and schema left by `preprocessor`.
std::unique_ptr<GradientProgram> MakePreprocessedProgram(std::unique_ptr<Preprocessor> preprocessor,
                                                         std::unique_ptr<GradientProgram> rest);

}  // namespace paracord
