// An HTTPS client on plain OpenSSL that trusts one authority, and has a certificate if given one.
#pragma once

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <memory>
#include <string>

#include "monitor/http_client.h"
#include "tests/certificates.h"

namespace paracord {

class HttpsClient {
 public:
  // `name`: the expected name in the server's certificate. `protocols`: encoded as in ALPN. The
  // handshake has succeeded if done().
  HttpsClient(const std::string& address, const std::string& ca_pem, const std::string& name,
              const std::string& protocols = "\x02h2\x08http/1.1", const PemPair& own = {})
      : raw_(address), context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> pem(
        BIO_new_mem_buf(ca_pem.data(), static_cast<int>(ca_pem.size())), BIO_free_all);
    const std::unique_ptr<X509, decltype(&X509_free)> ca(
        PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr), X509_free);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), ca.get());
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    if (!own.cert.empty()) Show(own);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set1_host(ssl_.get(), name.c_str());
    SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(protocols.data()),
                        static_cast<unsigned>(protocols.size()));
    const timeval patience{10, 0};
    ::setsockopt(raw_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    SSL_set_fd(ssl_.get(), raw_.fd());
    ERR_clear_error();
    done_ = SSL_connect(ssl_.get()) == 1;
    if (!done_) {
      const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
      error_ = reason == nullptr ? "" : reason;
    }
  }

  bool done() const { return done_; }
  const std::string& error() const { return error_; }  // of the handshake
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_.get(), &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  bool Send(const std::string& bytes) const {
    return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) ==
           static_cast<int>(bytes.size());
  }
  // Returns all bytes until the server's close notification.
  std::string Read() const {
    std::string all;
    char room[4096];
    while (true) {
      ERR_clear_error();
      const int got = SSL_read(ssl_.get(), room, sizeof room);
      if (got > 0) {
        all.append(room, static_cast<size_t>(got));
        continue;
      }
      const bool ended = SSL_get_error(ssl_.get(), got) == SSL_ERROR_ZERO_RETURN;
      return ended ? all : all + "(cut off)";
    }
  }
  std::string Get(const std::string& path) const {
    Send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return Read();
  }

 private:
  void Show(const PemPair& own) {
    const auto reading = [](const std::string& text) {
      return std::unique_ptr<BIO, decltype(&BIO_free_all)>(
          BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free_all);
    };
    X509* const cert = PEM_read_bio_X509(reading(own.cert).get(), nullptr, nullptr, nullptr);
    EVP_PKEY* const key =
        PEM_read_bio_PrivateKey(reading(own.key).get(), nullptr, nullptr, nullptr);
    SSL_CTX_use_certificate(context_.get(), cert);
    SSL_CTX_use_PrivateKey(context_.get(), key);
    X509_free(cert);
    EVP_PKEY_free(key);
  }

  const RawHttpClient raw_;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
  bool done_ = false;
  std::string error_;
};

}  // namespace paracord
