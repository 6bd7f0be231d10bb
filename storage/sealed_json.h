// A JSON object in a file, with a checksum of all bytes before it as its last key: torn, damaged
// and edited files are told apart from whole ones. Pure functions over text.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace paracord {

// `object` has at least one key, `key` not among them. Bytes that are not UTF-8 are replaced.
std::string SealJson(const nlohmann::ordered_json& object, std::string_view key);

// DATA_LOSS naming `path` unless SealJson made `text` with the same `key`.
absl::StatusOr<nlohmann::json> OpenSealedJson(std::string_view text, std::string_view key,
                                              const std::string& path);

}  // namespace paracord
