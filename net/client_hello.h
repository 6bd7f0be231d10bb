// Finds in the first bytes of a TLS connection (the ClientHello, RFC 8446, section 4.1.2) the
// protocols offered by the client (ALPN, RFC 7301). A listener peeks at these bytes and chooses
// gRPC or streams (net/stream_connection.h) before anything is read from the socket.
#pragma once

#include <cstddef>
#include <string_view>

namespace paracord {

inline constexpr char kTlsRecordOfHandshake = 0x16;  // the first byte of a TLS connection
// The largest ClientHello that is accepted, in bytes. Common clients send up to 2 KB.
inline constexpr size_t kClientHelloMax = 16 << 10;

enum class Offer {
  kMore,  // the ClientHello is not whole yet
  kYes,
  kNo,  // the client does not offer the protocol
  kBad  // the bytes do not begin a ClientHello of at most kClientHelloMax
};
// `bytes` are all bytes that the connection has brought so far.
Offer OffersProtocol(std::string_view bytes, std::string_view protocol);

}  // namespace paracord
