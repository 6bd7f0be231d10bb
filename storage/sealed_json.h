// A JSON object whose last key is a checksum of all preceding bytes, to detect torn, damaged and
// edited files. Pure functions over text.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the text of `object`, with a checksum under `key` at its end. `object` must have at least
// one key, but not `key`. Invalid UTF-8 is replaced.
std::string SealJson(const nlohmann::ordered_json& object, std::string_view key);

// Parses a text from SealJson. Returns DATA_LOSS, with `path`, if the checksum does not fit, the
// end is missing, or the text is no object.
absl::StatusOr<nlohmann::json> OpenSealedJson(std::string_view text, std::string_view key,
                                              const std::string& path);

}  // namespace paracord
