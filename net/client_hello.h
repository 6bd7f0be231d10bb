// Finds in the first bytes of a TLS connection (the ClientHello, RFC 8446, section 4.1.2) the
// protocols offered by the client (ALPN, RFC 7301). A listener peeks at these bytes and chooses
// gRPC or streams before anything is read from the socket. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace paracord {

inline constexpr char kTlsRecordOfHandshake = 0x16;  // the first byte of a TLS connection
// A longer ClientHello is not examined. Common clients send up to 2 KB.
inline constexpr size_t kClientHelloMax = 16 << 10;

enum class Offer {
  kMore,  // the ClientHello is not whole yet
  kYes,
  kNo,  // the client does not offer the protocol
  kBad  // it is no ClientHello, or a longer one
};
// `bytes` are the first of the connection.
Offer OffersProtocol(std::string_view bytes, std::string_view protocol);

}  // namespace paracord
