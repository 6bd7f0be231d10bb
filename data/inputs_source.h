// A source for predictions: the inputs of another source, without random crops and flips. Constant
// once made; thread-safe if the other source is.
#pragma once

#include <memory>

#include "data/data_source.h"

namespace paracord {

std::unique_ptr<DataSource> InputsOf(std::unique_ptr<DataSource> source);

}  // namespace paracord
