// A source for predictions: only the inputs of another source, with each record read alike at any
// time. Constant after construction; thread-safe if the other source is.
#pragma once

#include <memory>

#include "data/data_source.h"

namespace paracord {

std::unique_ptr<DataSource> InputsOf(std::unique_ptr<DataSource> source);

}  // namespace paracord
