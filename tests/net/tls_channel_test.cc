// Tests the errors at both ends of a failed TLS handshake.
#include "net/tls_channel.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "net/stream_pair.h"
#include "security/tls_context.h"
#include "tests/certificates.h"

namespace paracord {
namespace {

// Returns the error of one end of a failed handshake.
std::string Failure(SSL_CTX* server, SSL_CTX* client, TlsChannel::End whose) {
  int fds[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  auto of_server = TlsChannel::Make(fds[0], server, TlsChannel::End::kServer);
  auto of_client = TlsChannel::Make(fds[1], client, TlsChannel::End::kClient);
  REQUIRE(of_server.ok());
  REQUIRE(of_client.ok());
  absl::Status failed;
  std::thread serves([&] { failed = (*of_server)->HandshakeWithin(5000); });
  const absl::Status of_dialler = (*of_client)->HandshakeWithin(5000);
  serves.join();
  return std::string((whose == TlsChannel::End::kServer ? failed : of_dialler).message());
}

TEST_CASE("a handshake that another CA makes fail says so at both ends") {
  const auto failure = [](TestProcess& server, TestProcess& client, TlsChannel::End whose) {
    return Failure(server.credentials->Current()->server.get(),
                   client.credentials->Current()->client.get(), whose);
  };
  const std::string name = GENERATE("lab", "another");  // both CAs may have one name
  const TestCa ca("lab"), other(name);
  TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"));
  TestProcess stranger(ca, other.Issue("URI:spiffe://lab/worker/0"));
  TestProcess misled(other, ca.Issue("URI:spiffe://lab/worker/0"));
  constexpr char kOtherCa[] = "its certificate: it is signed by another CA than those of --tls-ca";
  CHECK_THAT(failure(ps, stranger, TlsChannel::End::kServer), Catch::StartsWith(kOtherCa));
  CHECK_THAT(failure(ps, misled, TlsChannel::End::kClient), Catch::StartsWith(kOtherCa));
  if (name == "lab") return;  // in this case the alert is about a signature
  CHECK_THAT(failure(ps, misled, TlsChannel::End::kServer),
             Catch::StartsWith("to its --tls-ca the own certificate is signed by another CA"));
}

TEST_CASE("an expired certificate is named as such at both ends of a handshake") {
  const TestCa ca("lab");
  TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"));
  const PemPair old = ca.Issue("URI:spiffe://lab/ps/1", /*seconds=*/-180);
  const ContextSource source{.chain_pem = old.cert,
                             .key_pem = old.key,
                             .ca_pem = ca.pem(),
                             .chain_name = {},
                             .key_name = {},
                             .ca_name = {}};
  const auto server = MakeContext(Side::kServer, source, false);
  const auto client = MakeContext(Side::kClient, source, false);
  REQUIRE(server.ok());
  REQUIRE(client.ok());
  const auto keys = ps.credentials->Current();
  constexpr char kExpired[] = "its certificate: it expired 3 minutes ago (spiffe://lab/ps/1, ";
  constexpr char kTold[] = "the peer says that the own certificate has expired";
  CHECK_THAT(Failure(server->get(), keys->client.get(), TlsChannel::End::kClient),
             Catch::StartsWith(kExpired));
  CHECK_THAT(Failure(server->get(), keys->client.get(), TlsChannel::End::kServer),
             Catch::StartsWith(kTold));
  CHECK_THAT(Failure(keys->server.get(), client->get(), TlsChannel::End::kServer),
             Catch::StartsWith(kExpired));
}

}  // namespace
}  // namespace paracord
