// True if all numbers are finite. Vectorised, without branches in the loop.
#pragma once

#include <span>

namespace paracord {

bool AllFinite(std::span<const float> values);

}  // namespace paracord
