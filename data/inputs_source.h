// A source whose records are read to predict for them: it has the inputs of another source alone,
// and reads each record the same at any time. Constant after construction; thread-safe if the other
// source is.
#pragma once

#include <memory>

#include "data/data_source.h"

namespace paracord {

std::unique_ptr<DataSource> InputsOf(std::unique_ptr<DataSource> source);

}  // namespace paracord
