// The HTTP server answers a client whatever other clients do.
#include "monitor/http_server.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "monitor/http_client.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

std::unique_ptr<HttpServer> Echo(const HttpLimits& limits = {}) {
  auto server = HttpServer::Start(
      "127.0.0.1:0",
      [](const std::string& path, const HttpServer::Answer& answer) {
        if (path != "/silent") answer({200, path});
      },
      limits);
  REQUIRE(server.ok());
  return *std::move(server);
}

TEST_CASE("a request is answered, and the connection closed") {
  const auto server = Echo();
  const std::string reply = Get(server->address(), "/hello");
  CHECK(CodeOf(reply) == 200);
  CHECK(reply.ends_with("\r\n\r\n/hello"));
  CHECK(CodeOf(RawHttpClient(server->address()).Get("no-slash")) == 400);
}

TEST_CASE("at a loopback address, a page of another site cannot read under that site's name") {
  const auto server = Echo();
  const auto code = [&](const std::string& host) {
    const RawHttpClient client(server->address());
    client.Send("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    return CodeOf(client.Read());
  };
  for (const std::string host : {"127.0.0.1", "127.0.0.1:80", "10.0.0.7:1", "[::1]:80", "[::1]",
                                 "localhost", "LocalHost:8080"}) {
    CAPTURE(host);
    CHECK(code(host) == 200);
  }
  for (const std::string host : {"evil.example", "evil.example:80", "localhost.evil.example",
                                 "127.0.0.1.evil.example", "[evil.example]:80", "", ":80"}) {
    CAPTURE(host);
    CHECK(code(host) == 421);
  }
}

TEST_CASE("a request may come in pieces, and one with a body is refused and still hears why") {
  const auto server = Echo();
  const RawHttpClient pieces(server->address());
  const std::string request = "GET /p HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const char c : request) pieces.Send({&c, 1});
  CHECK(pieces.Read().ends_with("/p"));
  const RawHttpClient post(server->address());
  post.Send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n\r\n");
  post.Send(std::string(500000, 'b'));
  CHECK(CodeOf(post.Read()) == 405);
}

TEST_CASE("an answer may come from another thread, late, twice, or after the server's end") {
  HttpServer::Answer kept;
  std::thread other;
  auto server = HttpServer::Start("127.0.0.1:0", [&](const std::string&, auto answer) {
    kept = answer;
    other = std::thread([answer] {
      answer({200, "first"});
      answer({200, "second"});
    });
  });
  REQUIRE(server.ok());
  CHECK(Get((*server)->address(), "/").ends_with("first"));
  other.join();
  server->reset();
  kept({200, "too late"});
}

TEST_CASE("who is not answered in time hears that, and endless or slow heads are ended") {
  const auto server = Echo({.head_bytes_max = 2000, .head_ms = 300, .answer_ms = 200});
  CHECK(CodeOf(Get(server->address(), "/silent")) == 503);
  const RawHttpClient endless(server->address());
  endless.Send("GET / HTTP/1.1\r\n");
  for (int i = 0; i < 100; ++i)
    endless.Send("X-Header-" + std::to_string(i) + ": aaaaaaaaaaaa\r\n");
  CHECK(CodeOf(endless.Read()) == 431);
  const RawHttpClient slow(server->address());
  slow.Send("GET / HT");
  CHECK(CodeOf(slow.Read()) == 408);
  const RawHttpClient mute(server->address());
  CHECK(mute.Read().empty());
}

TEST_CASE("connections beyond the limit end the oldest idle ones, and who asks is answered") {
  const auto server = Echo({.connections_max = 8, .head_ms = 60000});
  std::vector<std::unique_ptr<RawHttpClient>> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(std::make_unique<RawHttpClient>(server->address()));
    REQUIRE(idle.back()->connected());
    if (i % 2 == 0) idle.back()->Send("GET / HTTP/1.1\r\nSlow: ");
  }
  CHECK(CodeOf(Get(server->address(), "/asked")) == 200);
  CHECK(idle[0]->Read().empty());  // the oldest connection
}

TEST_CASE(
    "while all connections wait for their answers, a new one is closed, and they are answered") {
  Mutex mu;
  std::vector<HttpServer::Answer> kept;
  const auto server = HttpServer::Start("127.0.0.1:0",
                                        [&](const std::string&, const HttpServer::Answer& answer) {
                                          MutexLock lock(mu);
                                          kept.push_back(answer);
                                        },
                                        {.connections_max = 4});
  REQUIRE(server.ok());
  std::vector<std::unique_ptr<RawHttpClient>> asking;
  for (int i = 0; i < 4; ++i) {
    asking.push_back(std::make_unique<RawHttpClient>((*server)->address()));
    asking.back()->Send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  const auto all_ask = [&] {
    MutexLock lock(mu);
    return kept.size() == 4;
  };
  for (int i = 0; i < 5000 && !all_ask(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(RawHttpClient((*server)->address()).Read().empty());
  MutexLock lock(mu);
  for (const HttpServer::Answer& answer : kept) answer({200, "here"});
  for (const auto& client : asking) CHECK(client->Read().ends_with("here"));
}

TEST_CASE("a reader that does not read is left") {
  auto server = HttpServer::Start("127.0.0.1:0",
                                  [](const std::string&, const HttpServer::Answer& answer) {
                                    answer({200, std::string(64 << 20, 'x')});
                                  },
                                  {.send_ms = 200});
  REQUIRE(server.ok());
  const RawHttpClient reader((*server)->address());
  reader.Send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  CHECK(reader.Read().size() < (64 << 20));
}

TEST_CASE("an address that is taken is refused by name") {
  const auto server = Echo();
  const auto other = HttpServer::Start(server->address(), nullptr);
  CHECK(absl::IsAlreadyExists(other.status()));
  CHECK(std::string(other.status().message()).find(server->address()) != std::string::npos);
}

}  // namespace
}  // namespace paracord
