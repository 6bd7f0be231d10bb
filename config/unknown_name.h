// Writes the end of messages about names that are not supported. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace paracord {

// Returns " is not supported (did you mean "relu"?); supported: relu, tanh, ...", without the part
// in brackets if no name of `known` is near.
std::string NotSupported(const std::string& wrong, std::span<const std::string_view> known);

}  // namespace paracord
