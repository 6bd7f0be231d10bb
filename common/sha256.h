// SHA-256. Any thread may call the function.
#pragma once

#include <string>
#include <string_view>

namespace paracord {

// Returns the SHA-256 of the bytes in hex digits. Returns "" if OpenSSL cannot compute SHA-256, as
// under a FIPS-only policy without a FIPS provider: two texts with the result "" need not be equal.
std::string Sha256Hex(std::string_view bytes);

}  // namespace paracord
