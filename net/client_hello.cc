#include "net/client_hello.h"

#include <cstdint>
#include <optional>
#include <string>

namespace paracord {
namespace {

constexpr size_t kRecordHead = 5;
constexpr size_t kRecordMax = 16 << 10;
constexpr size_t kMessageHead = 4;
constexpr char kClientHello = 1;
constexpr size_t kVersionAndRandom = 2 + 32;
constexpr uint64_t kProtocols = 16;  // the number of the extension with the protocols (ALPN)

// Reads numbers and vectors from the front of bytes. After the bytes ran out, all reads are empty.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : left_(bytes) {}
  bool good() const { return good_; }
  bool empty() const { return left_.empty(); }
  std::string_view Take(size_t count) {
    if (count > left_.size()) {
      good_ = false;
      left_ = {};
      return {};
    }
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  uint64_t Number(size_t width) {
    uint64_t number = 0;
    for (const char byte : Take(width)) number = number << 8 | static_cast<unsigned char>(byte);
    return number;
  }
  // Takes a vector preceded by its size, a number of `width` bytes.
  std::string_view Vector(size_t width) { return Take(Number(width)); }

 private:
  std::string_view left_;
  bool good_ = true;
};

// The handshake message at the front of the TLS records, perhaps spread over several records and
// perhaps not yet complete. Returns nullopt if the bytes are no handshake records.
std::optional<std::string> FirstMessage(std::string_view bytes) {
  std::string message;
  while (!bytes.empty()) {
    if (bytes.front() != kTlsRecordOfHandshake) return std::nullopt;
    if (bytes.size() > 1 && bytes[1] != 3) return std::nullopt;  // the version: 3.1 or 3.3
    if (bytes.size() < kRecordHead) break;
    const size_t size = Bytes(bytes.substr(3)).Number(2);
    if (size == 0 || size > kRecordMax) return std::nullopt;
    bytes.remove_prefix(kRecordHead);
    message += bytes.substr(0, size);
    if (bytes.size() <= size) break;
    bytes.remove_prefix(size);
    if (message.size() >= kMessageHead &&
        message.size() >= kMessageHead + Bytes(std::string_view(message).substr(1)).Number(3)) {
      break;
    }
  }
  return message;
}

Offer OffersIn(std::string_view hello, std::string_view protocol) {
  Bytes body(hello);
  body.Take(kVersionAndRandom);
  body.Vector(1);  // the session
  body.Vector(2);  // the ciphers
  body.Vector(1);  // the compression
  if (!body.good()) return Offer::kBad;
  Bytes extensions(body.Vector(2));
  while (!extensions.empty()) {
    const uint64_t kind = extensions.Number(2);
    Bytes extension(extensions.Vector(2));
    if (kind != kProtocols || !extensions.good()) continue;
    Bytes names(extension.Vector(2));
    while (!names.empty()) {
      if (names.Vector(1) == protocol && names.good()) return Offer::kYes;
    }
    if (!names.good() || !extension.good()) return Offer::kBad;
  }
  return body.good() && extensions.good() ? Offer::kNo : Offer::kBad;
}

}  // namespace

Offer OffersProtocol(std::string_view bytes, std::string_view protocol) {
  const std::optional<std::string> message = FirstMessage(bytes);
  if (!message.has_value()) return Offer::kBad;
  const Offer unless_whole = bytes.size() < kClientHelloMax ? Offer::kMore : Offer::kBad;
  if (message->empty()) return unless_whole;
  if (message->front() != kClientHello) return Offer::kBad;
  if (message->size() < kMessageHead) return unless_whole;
  const size_t size = Bytes(message->substr(1)).Number(3);
  if (size > kClientHelloMax) return Offer::kBad;
  if (message->size() < kMessageHead + size) return unless_whole;
  return OffersIn(std::string_view(*message).substr(kMessageHead, size), protocol);
}

}  // namespace paracord
