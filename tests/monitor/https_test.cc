// The HTTP server under TLS: a reader learns whose page it is, without a certificate.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "monitor/http_server.h"
#include "monitor/https_client.h"
#include "tests/certificates.h"

namespace paracord {
namespace {

constexpr char kNames[] = "DNS:lab,URI:spiffe://lab/ps/0";

// A server with the certificate of ps:0 in cluster lab, and a clock under the test's control.
struct Secure {
  explicit Secure(const HttpLimits& limits = {}, const std::string& page = "the page",
                  const std::string& http_clients = "") {
    SecurityOptions options = keys.options();
    options.http_clients = http_clients;
    auto loaded = Credentials::Load(options, files, [this] { return now_ms.load(); });
    REQUIRE(loaded.ok());
    auto started = HttpServer::Start(
        "127.0.0.1:0",
        [page](const std::string& path, const HttpServer::Answer& answer) {
          if (path != "/silent") answer({200, page});
        },
        limits, *loaded);
    REQUIRE(started.ok());
    server = *std::move(started);
  }
  const std::string& address() const { return server->address(); }
  HttpsClient Client(const std::string& protocols = "\x08http/1.1") const {
    return HttpsClient(address(), ca.pem(), "lab", protocols);
  }

  const TestCa ca{"lab"};
  const TestKeys keys{ca.pem(), ca.Issue(kNames)};
  PosixFiles files;
  std::atomic<int64_t> now_ms = 1'000'000;
  std::unique_ptr<HttpServer> server;
};

TEST_CASE("a page is read by HTTPS without a certificate, and its end is said") {
  const Secure secure;
  const HttpsClient client(secure.address(), secure.ca.pem(), "lab");
  INFO(client.error());
  REQUIRE(client.done());
  CHECK(client.protocol() == "http/1.1");
  const std::string reply = client.Get("/");
  CHECK(CodeOf(reply) == 200);
  CHECK(reply.ends_with("\r\n\r\nthe page"));
  CHECK(CodeOf(secure.Client("").Get("/")) == 200);  // names no protocol
}

TEST_CASE("a page may be for readers with certain certificates alone") {
  const Secure secure({}, "the page", "operator,monitor");
  CHECK(CodeOf(HttpsClient(secure.address(), secure.ca.pem(), "lab").Get("/")) != 200);
  const auto read = [&](const std::string& uri) {
    const PemPair pair = secure.ca.Issue(uri);
    return HttpsClient(secure.address(), secure.ca.pem(), "lab", "\x08http/1.1", pair).Get("/");
  };
  CHECK(CodeOf(read("URI:spiffe://lab/monitor")) == 200);
  const std::string refused = read("URI:spiffe://lab/worker/3");
  CHECK(CodeOf(refused) == 403);
  CHECK(refused.find("spiffe://lab/worker/3 may not read these pages") != std::string::npos);
}

TEST_CASE("a page of megabytes comes whole by HTTPS, and a head may come in pieces") {
  const std::string page(5 << 20, 'x');
  const Secure secure({}, page);
  CHECK(secure.Client().Get("/").ends_with("\r\n\r\n" + page));
  const HttpsClient pieces = secure.Client();
  for (const char c : std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) pieces.Send({&c, 1});
  CHECK(pieces.Read().ends_with(page));
  const HttpsClient post = secure.Client();
  post.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n");
  post.Send(std::string(500000, 'b'));
  CHECK(CodeOf(post.Read()) == 405);
}

TEST_CASE("a reader does not take another's page for this one") {
  const Secure secure;
  const TestCa other("lab");
  CHECK(HttpsClient(secure.address(), other.pem(), "lab").error() == "certificate verify failed");
  CHECK(HttpsClient(secure.address(), secure.ca.pem(), "plant").error() ==
        "certificate verify failed");
  CHECK(secure.Client("\x02h2").error() == "tlsv1 alert no application protocol");
  CHECK(CodeOf(secure.Client().Get("/")) == 200);
}

TEST_CASE("plain text where HTTPS is spoken is refused in words") {
  const Secure secure;
  const std::string reply = Get(secure.address(), "/");
  CHECK(CodeOf(reply) == 400);
  CHECK(reply.find("https://") != std::string::npos);
  CHECK(reply.find("the page") == std::string::npos);
}

TEST_CASE("a certificate that is replaced is shown to who connects then") {
  Secure secure;
  const TestCa next("lab 2");
  secure.keys.Put(next.Issue(kNames));
  CHECK(secure.Client().done());  // the file was checked a moment ago
  secure.now_ms += 1000;
  CHECK_FALSE(secure.Client().done());
  const HttpsClient renewed(secure.address(), next.pem(), "lab");
  CHECK(CodeOf(renewed.Get("/")) == 200);
}

TEST_CASE("half a handshake, or none, holds nobody up and is ended in time") {
  const Secure secure({.head_ms = 400});
  std::vector<std::unique_ptr<RawHttpClient>> strangers;
  for (const std::string bytes : {"", "\x16", "\x16\x03\x01\x02", "\x16\x03\x01\x40\x40\x01"}) {
    strangers.push_back(std::make_unique<RawHttpClient>(secure.address()));
    strangers.back()->Send(bytes);
  }
  const HttpsClient mute = secure.Client();  // shakes hands, but asks for nothing
  CHECK(CodeOf(secure.Client().Get("/")) == 200);
  const int64_t begun_ms = SteadyMs();
  for (const auto& stranger : strangers) {
    CHECK(stranger->Read().find("(the server has not closed)") == std::string::npos);
  }
  CHECK(mute.Read() == "(cut off)");
  CHECK(SteadyMs() - begun_ms < 3000);
  const RawHttpClient garbage(secure.address());
  garbage.Send("\x16\x03\x01" + std::string(2000, 'g'));
  CHECK(garbage.Read().find("the page") == std::string::npos);
}

TEST_CASE("handshakes beyond the limit end the oldest ones, and who asks is answered") {
  const Secure secure({.connections_max = 8, .head_ms = 60000});
  std::vector<std::unique_ptr<RawHttpClient>> idle;
  for (int i = 0; i < 60; ++i) {
    idle.push_back(std::make_unique<RawHttpClient>(secure.address()));
    idle.back()->Send(i % 2 == 0 ? "\x16" : "");
  }
  CHECK(CodeOf(secure.Client().Get("/")) == 200);
  CHECK(idle[0]->Read().empty());
}

TEST_CASE("who is not answered in time, or sends an endless head, hears that by HTTPS") {
  const Secure secure({.head_bytes_max = 2000, .answer_ms = 200});
  CHECK(CodeOf(secure.Client().Get("/silent")) == 503);
  const HttpsClient endless = secure.Client();
  endless.Send("GET / HTTP/1.1\r\nX: " + std::string(3000, 'a'));
  CHECK(CodeOf(endless.Read()) == 431);
}

}  // namespace
}  // namespace paracord
