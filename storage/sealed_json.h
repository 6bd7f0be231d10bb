// A JSON object in a file whose last key is a checksum of all bytes before it, so that torn,
// damaged and edited files are found. Pure functions over text.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the text of `object`, which has at least one key, but not `key`. Bytes that are not UTF-8
// are replaced.
std::string SealJson(const nlohmann::ordered_json& object, std::string_view key);

// Returns DATA_LOSS naming `path` unless SealJson made `text` with this `key`.
absl::StatusOr<nlohmann::json> OpenSealedJson(std::string_view text, std::string_view key,
                                              const std::string& path);

}  // namespace paracord
