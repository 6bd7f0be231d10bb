// Joins a model's preprocessing layers and the program of the rest of the model to one program.
#pragma once

#include <memory>

#include "keras/preprocessing/preprocessor.h"
#include "program/gradient_program.h"

namespace paracord {

// `rest` must have been built for the model and the schema that Preprocessor::TakeOut left.
std::unique_ptr<GradientProgram> MakePreprocessedProgram(std::unique_ptr<Preprocessor> preprocessor,
                                                         std::unique_ptr<GradientProgram> rest);

}  // namespace paracord
