#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>
#include <string_view>
#include <thread>

#include "common/limit_error.h"
#include "net/grpc/network.h"
#include "net/name_lookup.h"

namespace paracord {
namespace {

using Reply = absl::StatusOr<absl::Cord>;

// Echoes requests. "/park" keeps the call, "/fail" refuses, "/drop" forgets the call.
class EchoService : public Service {
 public:
  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    if (method == "/t/fail") {
      call->Reply(absl::AbortedError("generation 3 is over"));
    } else if (method == "/t/park") {
      call->OnCancel([this] { cancelled.set_value(); });
      parked.set_value(call);
    } else if (method == "/t/drop") {
      return;
    } else if (method == "/t/size") {
      call->Reply(Parts{absl::Cord(std::to_string(request.size()))});
    } else if (method == "/t/parts") {
      Parts parts;
      for (int i = 0; i < 5; ++i) parts.push_back(request);
      call->Reply(std::move(parts));
    } else {
      call->Reply(Parts{std::move(request)});
    }
  }
  std::promise<std::shared_ptr<ServerCall>> parked;
  std::promise<void> cancelled;
};

std::future<Reply> Call(Link& link, const std::string& method, Parts parts,
                        int64_t deadline_ms = 5000) {
  auto promise = std::make_shared<std::promise<Reply>>();
  std::future<Reply> future = promise->get_future();
  link.Call(method, std::move(parts), deadline_ms,
            [promise](Reply reply) { promise->set_value(std::move(reply)); });
  return future;
}

std::string SocketAddress(const std::string& name) {
  return "unix:/tmp/paracord-test-" + std::to_string(getpid()) + "-" + name;
}

// Dials gRPC, or the stream at the same port.
std::unique_ptr<Link> DialEither(GrpcNetwork& network, const std::string& address) {
  const bool stream = GENERATE(false, true);
  CAPTURE(stream);
  return stream ? network.DialBoot(address, "boot") : network.Dial(address);
}

TEST_CASE("a message of many parts arrives whole over tcp and unix sockets") {
  GrpcNetwork network;
  for (const std::string& address : {std::string("127.0.0.1:0"), SocketAddress("echo")}) {
    EchoService service;
    const auto listener = network.Listen(address, service);
    REQUIRE(listener.ok());
    const auto link = DialEither(network, (*listener)->address());
    std::string expected;
    Parts parts;
    for (int i = 0; i < 6; ++i) {
      const std::string part(1 << 20, static_cast<char>('a' + i));
      expected += part;
      parts.emplace_back(part);
    }
    const Reply reply = Call(*link, "/t/echo", parts).get();
    REQUIRE(reply.ok());
    CHECK(std::string(*reply) == expected);
  }
}

TEST_CASE("a part that is longer than a message of gRPC may be arrives whole") {
  GrpcNetwork network;
  EchoService service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  const auto link = DialEither(network, (*listener)->address());
  for (const size_t bytes : {size_t{8} << 20, (size_t{20} << 20) + 1}) {
    std::string part(bytes, 'x');
    part[8 << 20 >> 1] = part.back() = 'y';
    const Reply reply = Call(*link, "/t/echo", {absl::Cord(part)}).get();
    INFO(reply.status().ToString());
    REQUIRE(reply.ok());
    CHECK((std::string(*reply) == part));
  }
}

TEST_CASE("an address that cannot be listened at is named with the reason") {
  struct Case {
    const char* address;
    const char* expected;
  };
  const Case cases[] = {
      {"unix:/nonexistent-dir/x/sock", "directory /nonexistent-dir/x: No such file or directory"},
      {"unix:/dev/null/sock", "directory /dev/null: Not a directory"},
      {"192.0.2.1:2222", "Cannot assign requested address (no network interface"},
      {"[2001:db8::1]:2222", "no network interface of this machine has it"},
      {"host.invalid:2222", "host.invalid:2222: the name host.invalid does not resolve"},
  };
  GrpcNetwork network;
  EchoService service;
  for (const Case& c : cases) {
    const absl::Status status = network.Listen(c.address, service).status();
    INFO(status.ToString());
    CHECK(absl::IsNotFound(status) == HasName(c.address));
    CHECK(absl::IsInvalidArgument(status) != HasName(c.address));
    CHECK(std::string(status.message()).find(std::string("cannot listen at ") + c.address) == 0);
    CHECK(std::string(status.message()).find(c.expected) != std::string::npos);
  }
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  CHECK(absl::IsAlreadyExists(network.Listen((*listener)->address(), service).status()));
}

TEST_CASE("a listener can be called where no name has to be looked up") {
  GrpcNetwork network;
  EchoService service;
  for (const char* const address : {"localhost:0", "127.0.0.2:0", "[::1]:0"}) {
    CAPTURE(address);
    const auto listener = network.Listen(address, service);
    REQUIRE(listener.ok());
    const std::string own = (*listener)->own_address();
    CAPTURE(own);
    CHECK_FALSE(HasName(own));
    CHECK(own.substr(own.rfind(':')) ==
          (*listener)->address().substr((*listener)->address().rfind(':')));
    CHECK(Call(*network.Dial(own), "/t/echo", {}).get().ok());
  }
}

TEST_CASE("a reply of several parts arrives whole") {
  GrpcNetwork network;
  EchoService service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  const auto link = DialEither(network, (*listener)->address());
  const Reply reply = Call(*link, "/t/parts", {absl::Cord("ab"), absl::Cord("c")}).get();
  REQUIRE(reply.ok());
  CHECK(std::string(*reply) == "abcabcabcabcabc");
  const Reply empty = Call(*link, "/t/echo", {}).get();
  REQUIRE(empty.ok());
  CHECK(empty->empty());
}

TEST_CASE("a status crosses the wire with its code and names the peer") {
  GrpcNetwork network;
  EchoService service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  const auto link = DialEither(network, (*listener)->address());
  const Reply reply = Call(*link, "/t/fail", {absl::Cord("x")}).get();
  CHECK(absl::IsAborted(reply.status()));
  CHECK(std::string(reply.status().message()) == link->address() + ": generation 3 is over");
  CHECK(absl::IsCancelled(Call(*link, "/t/drop", {}).get().status()));
}

TEST_CASE("a call to nobody ends at its deadline, and says whether it was connected") {
  GrpcNetwork network;
  const auto link = network.Dial(SocketAddress("nobody"));
  Reply reply = Call(*link, "/t/echo", {}, 100).get();
  CHECK(absl::IsDeadlineExceeded(reply.status()));
  CHECK(std::string(reply.status().message()) ==
        "connection refused: no process listens at " + link->address());

  EchoService service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  const auto slow = DialEither(network, (*listener)->address());
  REQUIRE(Call(*slow, "/t/echo", {}).get().ok());
  reply = Call(*slow, "/t/park", {}, 300).get();
  CHECK(absl::IsDeadlineExceeded(reply.status()));
  CHECK(std::string(reply.status().message()) == slow->address() + ": no answer within 300 ms");
  service.cancelled.get_future().get();
}

TEST_CASE("a process that is stopped is told from none, and from one that is no daemon") {
  GrpcNetwork network;
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(any);
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&any), size) == 0);
  REQUIRE(::listen(fd, 128) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  const std::string address = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
  const auto said = [&] {
    const Reply reply = Call(*network.Dial(address), "/t/echo", {}, 5000).get();
    CHECK(absl::IsDeadlineExceeded(reply.status()));
    return std::string(reply.status().message());
  };
  CHECK(said() == "what listens at " + address +
                      " takes connections and says nothing: the process hangs, or is stopped");
  std::thread http([fd] {
    for (int caller = ::accept(fd, nullptr, nullptr); caller >= 0;
         caller = ::accept(fd, nullptr, nullptr)) {
      constexpr std::string_view kBad = "HTTP/1.1 400 Bad Request\r\n\r\n";
      (void)::send(caller, kBad.data(), kBad.size(), MSG_NOSIGNAL);
      ::close(caller);
    }
  });
  CHECK(said() == "what listens at " + address +
                      " does not speak plain text (a port of TLS or of --http does not)");
  ::shutdown(fd, SHUT_RDWR);
  http.join();
  ::close(fd);
  CHECK(said() == "connection refused: no process listens at " + address);
}

TEST_CASE("a call to a name that does not resolve says so, and keeps its deadline") {
  GrpcOptions options;
  options.insecure = true;  // otherwise plain text may not leave this machine
  GrpcNetwork network(options);
  const auto link = DialEither(network, "host.invalid:7401");
  const auto begun = std::chrono::steady_clock::now();
  const Reply reply = Call(*link, "/t/echo", {}, 1000).get();
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(2));
  CHECK(absl::IsDeadlineExceeded(reply.status()));
  const std::string said(reply.status().message());
  CHECK(said.find("host.invalid:7401: the name host.invalid ") == 0);
}

TEST_CASE("a parked call is cancelled when its caller goes away") {
  GrpcNetwork network;
  EchoService service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  auto link = DialEither(network, (*listener)->address());
  std::future<Reply> reply = Call(*link, "/t/park", {}, 60000);
  const std::shared_ptr<ServerCall> call = service.parked.get_future().get();
  link.reset();
  CHECK(absl::IsCancelled(reply.get().status()));
  service.cancelled.get_future().get();
  call->Reply(Parts{});  // too late, without effect
}

TEST_CASE("calls in flight fail when the listener goes, and a new one is found soon") {
  GrpcNetwork network;
  const std::string address = SocketAddress("again");
  EchoService first;
  auto listener = network.Listen(address, first);
  REQUIRE(listener.ok());
  const auto link = DialEither(network, address);
  std::future<Reply> parked = Call(*link, "/t/park", {}, 60000);
  first.parked.get_future().get();
  listener->reset();
  CHECK_FALSE(parked.get().ok());
  EchoService second;
  const auto again = network.Listen(address, second);
  REQUIRE(again.ok());
  // A call on the dying connection fails, like the calls in flight.
  Reply reply = absl::UnavailableError("");
  for (int i = 0; i < 100 && absl::IsUnavailable(reply.status()); ++i) {
    reply = Call(*link, "/t/echo", {absl::Cord("back")}, 10000).get();
  }
  REQUIRE(reply.ok());
  CHECK(std::string(*reply) == "back");
}

TEST_CASE("an address that is taken is refused, for ports and for sockets") {
  GrpcNetwork network;
  EchoService service;
  const auto tcp = network.Listen("127.0.0.1:0", service);
  REQUIRE(tcp.ok());
  CHECK(absl::IsAlreadyExists(network.Listen((*tcp)->address(), service).status()));
  const auto socket = network.Listen(SocketAddress("taken"), service);
  REQUIRE(socket.ok());
  CHECK(absl::IsAlreadyExists(network.Listen(SocketAddress("taken"), service).status()));
  CHECK(absl::IsInvalidArgument(
      network.Listen("unix:/tmp/" + std::string(120, 'x'), service).status()));
}

TEST_CASE("a request above the limit is refused and the connection lives on") {
  GrpcOptions options;
  options.request_bytes_max = 1000;
  GrpcNetwork network(options);
  EchoService service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  const auto link = DialEither(network, (*listener)->address());
  Parts parts(20, absl::Cord(std::string(100, 'x')));
  CHECK(IsLimit(Call(*link, "/t/echo", parts).get().status()));
  CHECK(Call(*link, "/t/echo", {absl::Cord("x")}).get().ok());
}

TEST_CASE("requests beyond what may be in flight wait for each other, and all are answered") {
  GrpcOptions options;
  options.requests_bytes_max = 1 << 20;
  GrpcNetwork network(options);
  EchoService service;
  const auto listener = network.Listen(SocketAddress("flight"), service);
  REQUIRE(listener.ok());
  std::vector<std::unique_ptr<Link>> links;
  std::vector<std::future<Reply>> replies;
  for (int i = 0; i < 12; ++i) {
    links.push_back(DialEither(network, (*listener)->address()));
    Parts parts;
    for (int part = 0; part < 6; ++part) parts.emplace_back(std::string(500000, 'x'));
    replies.push_back(Call(*links.back(), "/t/echo", std::move(parts), 30000));
  }
  for (std::future<Reply>& reply : replies) {
    const Reply got = reply.get();
    INFO(got.status().ToString());
    REQUIRE(got.ok());
    CHECK(got->size() == 3000000);
  }
  // A caller that leaves while waiting leaves nothing behind.
  Parts large;
  for (int part = 0; part < 20; ++part) large.emplace_back(std::string(500000, 'x'));
  auto first = Call(*links[0], "/t/echo", large, 30000);
  auto gone = Call(*links[1], "/t/echo", large, 30000);
  links[1].reset();
  CHECK(gone.get().status().code() != absl::StatusCode::kDeadlineExceeded);
  CHECK(first.get().ok());
  CHECK(Call(*links[2], "/t/echo", large, 30000).get().ok());
}

TEST_CASE("a request of many hundreds of megabytes arrives over gRPC") {
  GrpcNetwork network;
  EchoService service;
  const auto listener = network.Listen("127.0.0.1:0", service);
  REQUIRE(listener.ok());
  const auto link = network.Dial((*listener)->address());
  const Parts parts(700, absl::Cord(std::string(1 << 20, 'x')));
  for (int i = 0; i < 2; ++i) {
    const Reply got = Call(*link, "/t/size", parts, 60000).get();
    INFO(got.status().ToString());
    REQUIRE(got.ok());
    CHECK(*got == std::to_string(700 << 20));
  }
}

}  // namespace
}  // namespace paracord
