// A peer that renews its TLS keys again and again without sending data.
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "net/stream_pair.h"
#include "net/tls_channel.h"

namespace paracord {
namespace {

TEST_CASE("a peer that renews its keys without end and sends nothing else is cut off") {
  const TestCa ca{"lab"};
  const TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"));
  const TestProcess worker(ca, ca.Issue("URI:spiffe://lab/worker/3"));
  std::array<int, 2> pair{};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) == 0);
  const auto server_keys = ps.credentials->Current();
  const auto client_keys = worker.credentials->Current();
  auto server = TlsChannel::Make(pair[0], server_keys->server.get(), TlsChannel::End::kServer);
  auto client = TlsChannel::Make(pair[1], client_keys->client.get(), TlsChannel::End::kClient);
  REQUIRE(server.ok());
  REQUIRE(client.ok());
  const int renewals = GENERATE(100, 20000);
  std::thread peer([&] {
    if (!(*client)->HandshakeWithin(5000).ok()) return;
    for (int i = 0; i < renewals; ++i) {
      SSL_key_update((*client)->ssl(), SSL_KEY_UPDATE_REQUESTED);
      SSL_do_handshake((*client)->ssl());
    }
    char hello = 'h';
    std::array<iovec, 1> piece{{{&hello, 1}}};
    while ((*client)->Send(piece) < 0 && errno == EAGAIN) std::this_thread::yield();
  });
  REQUIRE((*server)->HandshakeWithin(5000).ok());
  char got = 0;
  std::array<iovec, 1> room{{{&got, 1}}};
  ssize_t received = -1;
  do {
    received = (*server)->Receive(room);
  } while (received < 0 && errno == EAGAIN);
  const int error = errno;
  if (renewals == 100) {
    CHECK(received == 1);
    CHECK(got == 'h');
  } else {
    CHECK(received == -1);
    CHECK(error == EPROTO);
  }
  *server = nullptr;
  peer.join();
}

}  // namespace
}  // namespace paracord
