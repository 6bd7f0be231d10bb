// Whether all of some floats are finite. Vectorised; no branch in the loop.
#pragma once

#include <span>

namespace paracord {

bool AllFinite(std::span<const float> values);

}  // namespace paracord
