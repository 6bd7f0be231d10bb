// A TLS handshake in memory between a client's and a server's context.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace paracord {

struct Handshake {
  using Ssl = std::unique_ptr<SSL, decltype(&SSL_free)>;

  Handshake(SSL_CTX* server_context, SSL_CTX* client_context, const std::string& protocol = "")
      : server(SSL_new(server_context), SSL_free), client(SSL_new(client_context), SSL_free) {
    BIO* at_server = nullptr;
    BIO* at_client = nullptr;
    BIO_new_bio_pair(&at_server, 0, &at_client, 0);
    SSL_set_bio(server.get(), at_server, at_server);
    SSL_set_bio(client.get(), at_client, at_client);
    SSL_set_accept_state(server.get());
    SSL_set_connect_state(client.get());
    const std::string named = static_cast<char>(protocol.size()) + protocol;
    if (!protocol.empty()) {
      SSL_set_alpn_protos(client.get(), reinterpret_cast<const unsigned char*>(named.data()),
                          static_cast<unsigned>(named.size()));
    }
    for (int i = 0; i < 10; ++i) {  // alternates until both sides have nothing more to send
      client_done = SSL_do_handshake(client.get()) == 1;
      server_done = SSL_do_handshake(server.get()) == 1;
    }
  }
  bool done() const { return client_done && server_done; }

  Ssl server;
  Ssl client;
  bool server_done = false;
  bool client_done = false;
};

}  // namespace paracord
