// SHA-256, used to sign requests to object stores and to recognise compiled programs. Pure.
#pragma once

#include <string>
#include <string_view>

namespace paracord {

// Returns the SHA-256 of the bytes in hex digits; "" if OpenSSL cannot compute it, as under a
// FIPS-only policy without a FIPS provider: two texts with the result "" need not be equal.
std::string Sha256Hex(std::string_view bytes);

}  // namespace paracord
