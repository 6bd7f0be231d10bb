// Looks into the first bytes of a TLS connection (RFC 8446, section 4.1.2) for the protocols that
// the client offers (ALPN, RFC 7301), so that a listener can choose who serves the connection
// before it has taken any byte of it. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace paracord {

inline constexpr char kTlsRecordOfHandshake = 0x16;  // the first byte of a TLS connection
// A longer ClientHello is not looked at. Those of today have up to 2 KB.
inline constexpr size_t kClientHelloMax = 16 << 10;

enum class Offer {
  kMore,  // the ClientHello is not whole yet
  kYes,
  kNo,  // it does not offer the protocol
  kBad  // it is no ClientHello, or a longer one
};
// `bytes` are the first of the connection.
Offer OffersProtocol(std::string_view bytes, std::string_view protocol);

}  // namespace paracord
