// A worker's link to a ps uses a stream under TLS, over the daemons' network.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "net/echo.h"
#include "net/grpc/network.h"
#include "proto/protocol.h"
#include "tests/certificates.h"

namespace paracord {
namespace {

// A process with its own keys.
struct BootProcess {
  BootProcess(const TestCa& ca, const std::string& uri) : keys(ca.pem(), ca.Issue("URI:" + uri)) {
    static PosixFiles files;  // threads of connections may outlive this object
    auto loaded = Credentials::Load(keys.options(), files);
    REQUIRE(loaded.ok());
    GrpcOptions options;
    options.credentials = *loaded;
    network = std::make_unique<GrpcNetwork>(options);
  }
  TestKeys keys;
  std::unique_ptr<GrpcNetwork> network;
};

class NamingService : public Service {
 public:
  void Handle(std::string_view, absl::Cord, std::shared_ptr<ServerCall> call) override {
    call->Reply(Parts{absl::Cord(std::string(call->caller()))});
  }
};

// Receives all bytes of a reply, which gRPC would leave in place.
class Whole : public ReplySink {
 public:
  uint64_t bytes_max() const override { return block.size(); }
  Place Look(std::string_view) override {
    return {.looked = 0, .at = block.data(), .bytes = block.size()};
  }
  std::vector<char> block = std::vector<char>(1000);
};

TEST_CASE("a worker reaches a ps by a stream under TLS, at the port of gRPC") {
  const TestCa ca("lab");
  BootProcess ps(ca, "spiffe://lab/ps/0"), worker(ca, "spiffe://lab/worker/3");
  const std::string address =
      GENERATE(std::string("127.0.0.1:0"), absl::StrCat("unix:/tmp/paracord-boot-", getpid()));
  NamingService service;
  const auto listener = ps.network->Listen(address, service);
  REQUIRE(listener.ok());
  const auto link = worker.network->DialBoot((*listener)->address(), "boot");
  const auto whole = std::make_shared<Whole>();
  auto reply = AskInto(*link, method::kExchange, OnePart("x"), whole).get();
  REQUIRE(reply.ok());
  CHECK(std::string(*reply) == "worker:3");
  CHECK(std::string(whole->block.data(), 8) == "worker:3");
  CHECK(absl::IsPermissionDenied(Ask(*link, method::kLoad, OnePart("x")).status()));
  // The port also serves gRPC.
  CHECK(Ask(*worker.network->Dial((*listener)->address()), method::kStage, OnePart("x")).ok());
}

TEST_CASE("without TLS no stream leaves this machine unless --insecure allows it") {
  GrpcNetwork network;
  const auto link = network.DialBoot("192.0.2.1:9", "boot");
  const absl::Status status = Ask(*link, method::kExchange, OnePart("x"), 2000).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(std::string(status.message()).find("--insecure") != std::string::npos);
}

}  // namespace
}  // namespace paracord
