// Writes the end of every message about an unknown name. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace paracord {

// Returns " is not supported (did you mean \"relu\"?); supported: relu, tanh, ..."
std::string NotSupported(const std::string& wrong, std::span<const std::string_view> known);

}  // namespace paracord
