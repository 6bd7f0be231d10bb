#include "net/client_hello.h"

#include <openssl/ssl.h>

#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>

namespace paracord {
namespace {

// Returns OpenSSL's ClientHello. `protocols`: encoded as in ALPN, each after its size.
std::string ClientHelloWith(const std::string& protocols) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);
  SSL_set_alpn_protos(ssl.get(), reinterpret_cast<const unsigned char*>(protocols.data()),
                      static_cast<unsigned>(protocols.size()));
  SSL_set_connect_state(ssl.get());
  SSL_do_handshake(ssl.get());
  const char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);  // NOLINT(google-runtime-int)
  return {bytes, static_cast<size_t>(size)};
}

Offer Look(const std::string& bytes) { return OffersProtocol(bytes, "paracord/1"); }

TEST_CASE("the protocols that a TLS client offers are found in its first bytes") {
  CHECK(Look(ClientHelloWith("\x0aparacord/1")) == Offer::kYes);
  CHECK(Look(ClientHelloWith("\x02h2\x0aparacord/1\x08http/1.1")) == Offer::kYes);
  CHECK(Look(ClientHelloWith("\x0aparacord/1") + "and what follows") == Offer::kYes);
  CHECK(Look(ClientHelloWith("\x02h2")) == Offer::kNo);
  CHECK(Look(ClientHelloWith("\x0bparacord/10")) == Offer::kNo);
  CHECK(Look(ClientHelloWith("\x09paracord/")) == Offer::kNo);
  CHECK(Look(ClientHelloWith("")) == Offer::kNo);
}

TEST_CASE("a ClientHello may come in pieces, and in several records") {
  const std::string hello = ClientHelloWith("\x0aparacord/1");
  for (size_t size = 1; size < hello.size(); ++size) {
    CAPTURE(size);
    CHECK(Look(hello.substr(0, size)) == Offer::kMore);
  }
  const std::string message = hello.substr(5);
  for (const size_t at : {size_t{1}, size_t{3}, size_t{4}, size_t{100}, message.size() - 1}) {
    std::string records;
    for (const std::string& part : {message.substr(0, at), message.substr(at)}) {
      records += hello.substr(0, 3);
      records += static_cast<char>(part.size() >> 8);
      records += static_cast<char>(part.size());
      records += part;
    }
    CAPTURE(at);
    CHECK(Look(records) == Offer::kYes);
    CHECK(Look(records.substr(0, records.size() - 1)) == Offer::kMore);
  }
}

TEST_CASE("what is no ClientHello, or too long a one, is told from one that is not whole") {
  CHECK(Look("PRI * HTTP/2.0") == Offer::kBad);
  CHECK(Look("paracord/1\n") == Offer::kBad);
  CHECK(Look(std::string("\x16\x02\x01\x00\x10", 5)) == Offer::kBad);  // SSL 2
  CHECK(Look(std::string("\x16\x03\x01\x00\x00", 5)) == Offer::kBad);  // an empty record
  CHECK(Look(std::string("\x16\x03\x01\xff\xff", 5)) == Offer::kBad);  // 65535 bytes
  CHECK(Look(std::string("\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9)) == Offer::kBad);
  CHECK(Look(std::string("\x16\x03\x01\x40\x00\x01\x01\x00\x00", 9)) == Offer::kBad);  // 64 KB
  std::string endless("\x16\x03\x01\x40\x00\x01\x00\x40\x00", 9);
  CHECK(Look(endless) == Offer::kMore);
  endless.resize(kClientHelloMax);
  CHECK(Look(endless) == Offer::kBad);
}

TEST_CASE("a damaged ClientHello does no harm") {
  const std::string hello = ClientHelloWith("\x02h2\x0aparacord/1");
  std::mt19937 random(7);
  int offers = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string damaged = hello;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    // A copy of exact size, so that ASan notices a read beyond its end.
    const std::unique_ptr<char[]> copy(new char[damaged.size()]);
    const size_t size = 1 + random() % damaged.size();
    damaged.copy(copy.get(), size);
    if (OffersProtocol({copy.get(), size}, "paracord/1") == Offer::kYes) ++offers;
  }
  CHECK(offers < 50000);
}

}  // namespace
}  // namespace paracord
