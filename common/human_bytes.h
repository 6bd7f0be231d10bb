// Formats a number of bytes for people.
#pragma once

#include <cstdint>
#include <string>

namespace paracord {

std::string HumanBytes(uint64_t bytes);  // "1.5 MiB"

}  // namespace paracord
