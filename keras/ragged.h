// Ragged inputs of a Keras 3 model: lists of varying length. Pure.
#pragma once

#include "keras/json.h"

namespace paracord {

// Turns ragged inputs into lists of a fixed length, padded by the data. A reader without weights
// gets a new input NAME/present as weights: 1 for a value of the list, 0 for padding. Only
// EmbedReduce can read ragged inputs; another reader is a problem of the model.
void TakeRaggedInputs(ModelSpec& model);

}  // namespace paracord
