// SHA-256, used to recognise equal texts. Pure.
#pragma once

#include <string>
#include <string_view>

namespace paracord {

// Returns the SHA-256 of the bytes in hex digits; "" if OpenSSL cannot compute it, as under a
// FIPS-only policy without a FIPS provider. The caller then trusts no text.
std::string Sha256Hex(std::string_view bytes);

}  // namespace paracord
