// AWS' signature, version 4, of requests to S3. libcurl has one too, but that of Debian 12 does not
// put paths and queries into the form that is signed. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paracord {

struct SignerKeys {
  std::string region, key_id, secret;
  std::string token;  // of credentials for a while; "": none
};

// Pairs of a header's name, in small letters, and its value.
using SignedHeaders = std::vector<std::pair<std::string, std::string>>;

// Returns the headers to send with a request: `headers`, the time, the token if there is one, and
// the signature of all of them. `target` is the path and the query of the URL, encoded, the query
// sorted by name. `body_hash` is the SHA-256 of the body in hex digits, or "UNSIGNED-PAYLOAD".
SignedHeaders SignRequest(const SignerKeys& keys, std::string_view method, std::string_view host,
                          std::string_view target, std::string_view body_hash,
                          SignedHeaders headers, int64_t unix_s);

}  // namespace paracord
