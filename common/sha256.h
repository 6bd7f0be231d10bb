// SHA-256, by which two texts are known to be the same one. Pure.
#pragma once

#include <string>
#include <string_view>

namespace paracord {

// Returns the SHA-256 of the bytes in hex digits; "" if OpenSSL computes none, as under a rule that
// allows FIPS providers alone and without such a provider. The caller then trusts no text.
std::string Sha256Hex(std::string_view bytes);

}  // namespace paracord
