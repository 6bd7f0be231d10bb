// Tests `paracord health` on a running daemon, and on an address without a daemon.
#include "net/health.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/answering.h"
#include "cli/commands.h"
#include "common/thread_loop.h"
#include "net/grpc/network.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

struct HealthRan {
  int code = -1;
  std::string out, err;
};

HealthRan Health(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  const int code = RunHealth(args, out, err);
  return {code, out.str(), err.str()};
}

// A daemon's loop that runs posted functions at once.
class AtOnceLoop : public ManualLoop {
 public:
  void Post(std::function<void()> fn) override { fn(); }
};

TEST_CASE("health is 0 of a daemon that answers; --ready asks more of it") {
  const bool ready = GENERATE(true, false);
  AtOnceLoop loop;
  HealthService health(
      "ps:1", loop,
      [&] {
        return HealthState{ready, "holds 3 partitions"};
      },
      nullptr);
  const TestDirectory directory;
  GrpcNetwork network;
  const std::string address = "unix:" + directory / "ps";
  const auto listener = network.Listen(address, health);
  REQUIRE(listener.ok());
  const HealthRan alive = Health({address});
  CHECK(alive.code == 0);
  CHECK(alive.out == "ps:1 at " + address + " holds 3 partitions\n");
  const HealthRan wanted = Health({"--ready", address});
  CHECK(wanted.code == (ready ? 0 : 1));
  CHECK(wanted.err ==
        (ready ? ""
               : "paracord health: ps:1 at " + address + " holds 3 partitions: it is not ready\n"));
}

TEST_CASE("health is 1 if the event loop stands still, nobody listens, or a stranger answers") {
  const TestDirectory directory;
  const std::string address = "unix:" + directory / "daemon";
  GrpcNetwork network;
  const HealthRan nobody = Health({address, "--timeout-ms", "200"});
  CHECK(nobody.code == 1);
  CHECK(nobody.err.find("paracord health: " + address + " does not answer: ") == 0);
  {
    ManualLoop stands_still;
    HealthService health(
        "ps:1", stands_still, [] { return HealthState{}; }, nullptr);
    const auto listener = network.Listen(address, health);
    REQUIRE(listener.ok());
    CHECK(Health({address, "--timeout-ms", "200"}).code == 1);
  }
  Answering stranger("{}");
  const auto listener = network.Listen(address, stranger);
  REQUIRE(listener.ok());
  const HealthRan other = Health({address});
  CHECK(other.code == 1);
  CHECK(other.err ==
        "paracord health: " + address + " answers, but not like a daemon of this version\n");
}

TEST_CASE(
    "health without an address, or with a malformed one, is a usage error; --help says what it "
    "asks") {
  CHECK(Health({}).code == 2);
  CHECK(Health({"nonsense"}).code == 2);
  const HealthRan help = Health({"--help"});
  CHECK(help.code == 0);
  CHECK(help.out.find("--ready") != std::string::npos);
}

}  // namespace
}  // namespace paracord
