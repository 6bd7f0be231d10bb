// AWS Signature Version 4 for requests to S3. libcurl can sign as well, but Debian 12's version
// does not canonicalise paths and queries. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paracord {

struct SignerKeys {
  std::string region, key_id, secret;
  std::string token;  // session token of temporary credentials, or ""
};

// Headers: pairs of a lower-case name and a value.
using SignedHeaders = std::vector<std::pair<std::string, std::string>>;

// Returns all headers of a signed request but "host", which libcurl adds: `headers`, `body_hash`,
// the time, the token if any, and the signature. `target` is the URL's path and query, encoded,
// with the query sorted by name. `body_hash`: the body's SHA-256 in hex digits, or
// "UNSIGNED-PAYLOAD".
SignedHeaders SignRequest(const SignerKeys& keys, std::string_view method, std::string_view host,
                          std::string_view target, std::string_view body_hash,
                          SignedHeaders headers, int64_t unix_s);

}  // namespace paracord
