// Ragged inputs of a model of Keras 3, which are lists of varying length. Pure.
#pragma once

#include "keras/json.h"

namespace paracord {

// Values that a ragged input is filled up with must not count. The rewritten model takes lists of
// one length, and where no weights of its own say what counts, another input NAME/present: 1 for
// each value that is there, and 0 for what was filled up. Only EmbedReduce can read such lists; any
// other reader is one of the model's problems.
void TakeRaggedInputs(ModelSpec& model);

}  // namespace paracord
