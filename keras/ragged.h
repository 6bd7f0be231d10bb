// Ragged inputs of a Keras 3 model: lists of varying length. Pure.
#pragma once

#include "keras/json.h"

namespace paracord {

// Turns ragged inputs into lists of a fixed length, which the reader of the data pads. A call of
// EmbedReduce without weights gets as weights a new input NAME/present, which is 1 for a value of
// the list and 0 for padding. If another layer reads the input, adds a line to ModelSpec::problems.
void TakeRaggedInputs(ModelSpec& model);

}  // namespace paracord
