// Ragged inputs of a Keras 3 model: lists of varying length. Pure.
#pragma once

#include "keras/json.h"

namespace paracord {

// Padding of a ragged input must not count. The rewritten model takes lists of a fixed length;
// where no weights mark the padding, adds an input NAME/present: 1 for each present value, 0 for
// padding. Only EmbedReduce can read such lists; another reader is a problem of the model.
void TakeRaggedInputs(ModelSpec& model);

}  // namespace paracord
