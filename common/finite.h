// Whether all of many numbers are finite, by a vectorised loop.
#pragma once

#include <span>

namespace paracord {

bool AllFinite(std::span<const float> values);

}  // namespace paracord
