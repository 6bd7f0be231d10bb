// Tests what both ends of a TLS handshake that fails say.
#include "net/tls_channel.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "net/stream_pair.h"
#include "tests/certificates.h"

namespace paracord {
namespace {

TEST_CASE("a handshake that another CA makes fail says so at both ends") {
  const auto failure = [](TestProcess& server, TestProcess& client, TlsChannel::End whose) {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    const auto keys = server.credentials->Current();
    auto of_server = TlsChannel::Make(fds[0], keys->server.get(), TlsChannel::End::kServer);
    auto of_client = TlsChannel::Make(fds[1], client.credentials->Current()->client.get(),
                                      TlsChannel::End::kClient);
    REQUIRE(of_server.ok());
    REQUIRE(of_client.ok());
    absl::Status failed;
    std::thread serves([&] { failed = (*of_server)->HandshakeWithin(5000); });
    const absl::Status of_dialler = (*of_client)->HandshakeWithin(5000);
    serves.join();
    return std::string((whose == TlsChannel::End::kServer ? failed : of_dialler).message());
  };
  const std::string name = GENERATE("lab", "another");  // the CAs may even have one name
  const TestCa ca("lab"), other(name);
  TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"));
  TestProcess stranger(ca, other.Issue("URI:spiffe://lab/worker/0"));
  TestProcess misled(other, ca.Issue("URI:spiffe://lab/worker/0"));
  constexpr char kOtherCa[] = "its certificate: it is signed by another CA than those of --tls-ca";
  CHECK_THAT(failure(ps, stranger, TlsChannel::End::kServer), Catch::StartsWith(kOtherCa));
  CHECK_THAT(failure(ps, misled, TlsChannel::End::kClient), Catch::StartsWith(kOtherCa));
  if (name == "lab") return;  // the alert is about a signature then
  CHECK_THAT(failure(ps, misled, TlsChannel::End::kServer),
             Catch::StartsWith("to its --tls-ca the own certificate is signed by another CA"));
}

}  // namespace
}  // namespace paracord
