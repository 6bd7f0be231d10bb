#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "sim/world/sim_network.h"
#include "sim/world/sim_world.h"

namespace paracord {
namespace {

constexpr char kMethod[] = "/toy.Service/Method";

// A service that keeps every call unanswered, so that a test decides about the answer.
class Door : public Service {
 public:
  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    methods.emplace_back(method);
    requests.emplace_back(request);
    calls.push_back(call);
    const size_t index = cancelled.size();
    cancelled.push_back(0);
    call->OnCancel([this, index] { ++cancelled[index]; });
    if (echo) call->Reply(Parts{std::move(request)});
  }

  bool echo = true;
  std::vector<std::string> methods;
  std::vector<std::string> requests;
  std::vector<std::shared_ptr<ServerCall>> calls;
  std::vector<int> cancelled;
};

// A client and a server, with every answer that the client got.
struct Pair {
  explicit Pair(Swarm swarm = {}, uint64_t seed = 1)
      : world(seed, swarm), client(world.Start("client", 0)), server(world.Start("server", 1)) {
    Listen();
    link = client.environment().network.Dial("server:1");
  }
  ~Pair() {
    world.Kill(client, Death::kKill);
    world.Kill(server, Death::kKill);
  }

  void Listen() {
    auto opened = server.environment().network.Listen("server:1", door);
    REQUIRE(opened.ok());
    listener = *std::move(opened);
  }
  void Call(const std::string& text, int64_t deadline_ms = 1000) {
    link->Call(kMethod, {absl::Cord(text)}, deadline_ms, [this](absl::StatusOr<absl::Cord> reply) {
      answers.push_back(reply.ok() ? std::string(*reply) : std::string());
      codes.push_back(reply.status().code());
    });
  }

  SimWorld world;
  SimNode& client;
  SimNode& server;
  Door door;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Link> link;
  std::vector<std::string> answers;
  std::vector<absl::StatusCode> codes;
};

using Codes = std::vector<absl::StatusCode>;

TEST_CASE("a request arrives whole and its reply comes back") {
  Pair pair;
  pair.link->Call(kMethod, {absl::Cord("two "), absl::Cord("parts")}, 1000,
                  [&](absl::StatusOr<absl::Cord> reply) {
                    REQUIRE(reply.ok());
                    pair.answers.emplace_back(*reply);
                  });
  CHECK(pair.world.Run(5000) == SimWorld::End::kQuiet);
  CHECK(pair.door.methods == std::vector<std::string>{kMethod});
  CHECK(pair.door.requests == std::vector<std::string>{"two parts"});
  CHECK(pair.answers == std::vector<std::string>{"two parts"});
  CHECK(pair.door.cancelled == std::vector<int>{0});
  CHECK(pair.world.network().open_calls() == 0);
  CHECK(pair.world.network().open_server_calls() == 0);
}

TEST_CASE("an address that is taken is refused, and free again after its listener is gone") {
  Pair pair;
  auto second = pair.client.environment().network.Listen("server:1", pair.door);
  CHECK(second.status().code() == absl::StatusCode::kAlreadyExists);
  pair.listener.reset();
  CHECK(pair.client.environment().network.Listen("server:1", pair.door).ok());
}

TEST_CASE("an unanswered call ends at its deadline, and its server hears of it") {
  Pair pair;
  pair.door.echo = false;
  pair.Call("hold", 500);
  CHECK(pair.world.Run(10'000) == SimWorld::End::kQuiet);
  CHECK(pair.codes == Codes{absl::StatusCode::kDeadlineExceeded});
  CHECK(pair.door.cancelled == std::vector<int>{1});
  int at_once = 0;
  pair.door.calls[0]->OnCancel([&] { ++at_once; });
  CHECK(at_once == 1);
}

TEST_CASE("the status of a server is the status of the call") {
  Pair pair;
  pair.door.echo = false;
  pair.Call("a");
  pair.world.Run(10, [&] { return !pair.door.calls.empty(); });
  pair.door.calls[0]->Reply(absl::AbortedError("stale"));
  pair.world.Run(5000);
  CHECK(pair.codes == Codes{absl::StatusCode::kAborted});
}

TEST_CASE("a call that its server drops is cancelled; a second reply is a violation") {
  Pair pair;
  pair.door.echo = false;
  pair.Call("a");
  pair.world.Run(10, [&] { return !pair.door.calls.empty(); });
  pair.door.calls.clear();
  pair.world.Run(5000);
  CHECK(pair.codes == Codes{absl::StatusCode::kCancelled});
  pair.door.echo = true;
  pair.Call("b");
  pair.world.Run(10'000);
  pair.door.calls[0]->Reply(Parts{});
  CHECK(pair.world.violation().find("second reply") != std::string::npos);
}

TEST_CASE("bytes that change after they were sent are a violation") {
  Pair pair;
  std::string block(5000, 'a');
  pair.link->Call(kMethod, {absl::MakeCordFromExternal(block, [] {})}, 1000,
                  [](absl::StatusOr<absl::Cord>) {});
  block[17] = 'b';
  CHECK(pair.world.Run(5000) == SimWorld::End::kViolation);
}

TEST_CASE("a destroyed link cancels its calls before its destructor returns") {
  Pair pair;
  pair.door.echo = false;
  pair.Call("hold", 100'000);
  pair.world.Run(10, [&] { return !pair.door.calls.empty(); });
  pair.link.reset();
  CHECK(pair.codes == Codes{absl::StatusCode::kCancelled});
  pair.world.Run(5000);
  CHECK(pair.codes.size() == 1);
  CHECK(pair.door.cancelled == std::vector<int>{1});
}

TEST_CASE("a destroyed listener cancels what is parked there") {
  Pair pair;
  pair.door.echo = false;
  pair.Call("hold", 100'000);
  pair.world.Run(10, [&] { return !pair.door.calls.empty(); });
  pair.listener.reset();
  CHECK(pair.door.cancelled == std::vector<int>{1});
  pair.world.Run(5000);
  CHECK(pair.codes == Codes{absl::StatusCode::kUnavailable});
}

TEST_CASE("a call waits for somebody to listen, or fails by its deadline") {
  int waited = 0;
  int refused = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Pair pair({}, seed);
    pair.listener.reset();
    pair.Call("early", 5000);
    pair.Call("never", 100);
    pair.world.After(300'000, nullptr, EventKind::kWorld, "listen", 0, [&] { pair.Listen(); });
    pair.world.Run(20'000);
    REQUIRE(pair.codes.size() == 2);
    CHECK(pair.codes[0] != absl::StatusCode::kOk);
    if (pair.codes[1] == absl::StatusCode::kOk) {
      ++waited;
    } else {
      ++refused;
    }
    CHECK(pair.world.network().open_calls() == 0);
  }
  CHECK(waited > refused);
  CHECK(refused > 0);
}

TEST_CASE("done runs exactly once for every call of a live process, whatever happens") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SimRandom random(seed);
    Swarm swarm = Swarm::Draw(random);
    swarm.lose = 0.1;
    swarm.duplicate = 0.2;
    Pair pair(swarm, seed);
    std::vector<int> done(30);
    for (size_t i = 0; i < done.size(); ++i) {
      pair.world.After(static_cast<int64_t>(i) * 10'000, &pair.client, EventKind::kPost, "call", i,
                       [&pair, &done, i] {
                         pair.link->Call(kMethod, {absl::Cord(std::to_string(i))}, 2000,
                                         [&done, i](absl::StatusOr<absl::Cord> reply) {
                                           ++done[i];
                                           if (reply.ok()) CHECK(*reply == std::to_string(i));
                                         });
                       });
    }
    pair.world.After(100'000, nullptr, EventKind::kWorld, "cut", 0, [&] {
      pair.world.network().Cut(0, 1);
      pair.world.network().Cut(1, 0);
    });
    pair.world.After(200'000, nullptr, EventKind::kWorld, "heal", 0,
                     [&] { pair.world.network().HealAll(); });
    pair.world.After(250'000, nullptr, EventKind::kWorld, "kill", 0,
                     [&] { pair.world.Kill(pair.server, Death::kKill); });
    CHECK(pair.world.Run(100'000) == SimWorld::End::kQuiet);
    CHECK(done == std::vector<int>(30, 1));
    CHECK(pair.world.network().open_calls() == 0);
  }
}

TEST_CASE("a duplicated request is handled twice and answered once") {
  Swarm swarm;
  swarm.duplicate = 1;
  Pair pair(swarm);
  pair.Call("a");
  pair.world.Run(5000);
  CHECK(pair.door.requests == std::vector<std::string>{"a", "a"});
  CHECK(pair.answers == std::vector<std::string>{"a"});
}

TEST_CASE("the unanswered copy of an answered call is cancelled") {
  Swarm swarm;
  swarm.duplicate = 1;
  Pair pair(swarm);
  pair.door.echo = false;
  pair.Call("a", 100'000);
  pair.world.Run(10, [&] { return pair.door.calls.size() == 2; });
  pair.door.calls[1]->Reply(Parts{absl::Cord("b")});
  pair.world.Run(200'000);
  CHECK(pair.answers == std::vector<std::string>{"b"});
  CHECK(pair.door.cancelled == std::vector<int>{1, 0});
}

TEST_CASE("a late message does not extend its call's deadline, but arrives") {
  Swarm swarm;
  swarm.late = 1;
  Pair pair(swarm);
  pair.Call("a", 100);
  pair.world.Run(10'000);
  CHECK(pair.codes == Codes{absl::StatusCode::kDeadlineExceeded});
  CHECK(pair.door.requests == std::vector<std::string>{"a"});
  CHECK(pair.door.cancelled == std::vector<int>{1});
}

TEST_CASE("a late request may reach a later life at the same address") {
  int reached = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Swarm swarm;
    swarm.very_late = 1;
    Pair pair(swarm, seed);
    pair.Call("a", 100);
    SimNode& next = pair.world.Start("server", 1);
    Door door;
    std::unique_ptr<Listener> listener;
    pair.world.After(500'000, nullptr, EventKind::kWorld, "restart", 0, [&] {
      pair.world.Kill(pair.server, Death::kKill);
      pair.world.After(1, nullptr, EventKind::kWorld, "listen", 0, [&] {
        auto opened = next.environment().network.Listen("server:1", door);
        REQUIRE(opened.ok());
        listener = *std::move(opened);
      });
    });
    pair.world.Run(60'000);
    reached += static_cast<int>(door.requests.size());
    CHECK(pair.door.requests.empty());
    door.calls.clear();
    pair.world.Kill(next, Death::kKill);
  }
  CHECK(reached > 10);
  CHECK(reached < 40);
}

TEST_CASE("a cut in one direction stops that direction alone") {
  for (const bool request_side : {true, false}) {
    Pair pair;
    request_side ? pair.world.network().Cut(0, 1) : pair.world.network().Cut(1, 0);
    pair.Call("a", 300);
    pair.world.Run(30'000);
    CHECK(pair.codes.size() == 1);
    CHECK(pair.codes[0] != absl::StatusCode::kOk);
    CHECK(pair.door.requests.size() == (request_side ? 0 : 1));
  }
}

TEST_CASE("a call parked across a cut is broken on both sides if the cut lasts, on none if not") {
  int survived = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    for (const bool lasts : {true, false}) {
      Pair pair({}, seed);
      pair.door.echo = false;
      pair.Call("hold", 1'000'000);
      pair.world.Run(10, [&] { return !pair.door.calls.empty(); });
      pair.world.network().Cut(0, 1);
      pair.world.network().Cut(1, 0);
      pair.world.After(lasts ? 60'000'000 : 400'000, nullptr, EventKind::kWorld, "heal", 0,
                       [&] { pair.world.network().HealAll(); });
      pair.world.Run(100'000);
      CHECK(pair.door.cancelled[0] == static_cast<int>(pair.codes.size()));
      if (lasts) CHECK(pair.codes == Codes{absl::StatusCode::kUnavailable});
      if (!lasts && pair.codes.empty()) ++survived;
    }
  }
  CHECK(survived > 25);
}

TEST_CASE("the peers of a dead process learn of it, at once or late") {
  for (const bool quiet : {false, true}) {
    for (const bool client_dies : {false, true}) {
      Swarm swarm;
      swarm.quiet = quiet ? 1 : 0;
      Pair pair(swarm);
      pair.door.echo = false;
      pair.Call("hold", 1'000'000);
      pair.world.Run(10, [&] { return !pair.door.calls.empty(); });
      pair.world.Kill(client_dies ? pair.client : pair.server, Death::kKill);
      pair.world.Run(400);
      CHECK((client_dies ? pair.door.cancelled[0] == 1 : pair.codes.size() == 1) == !quiet);
      pair.world.Run(20'000);
      CHECK((client_dies ? pair.door.cancelled[0] == 1 : pair.codes.size() == 1));
      CHECK((client_dies ? pair.codes.empty() : pair.door.cancelled[0] == 0));
    }
  }
}

TEST_CASE("a paused server answers when it goes on") {
  Pair pair;
  pair.world.Pause(pair.server);
  pair.Call("a", 5000);
  pair.Call("b", 100);
  pair.world.After(1'000'000, nullptr, EventKind::kWorld, "resume", 0,
                   [&] { pair.world.Resume(pair.server); });
  pair.world.Run(10'000);
  CHECK(pair.codes == Codes{absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kOk});
  CHECK(pair.door.requests.size() == 2);
}

TEST_CASE("fragments of a message are the message") {
  Swarm swarm;
  swarm.fragment = 1;
  Pair pair(swarm);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i % 26);
  pair.Call(text);
  pair.world.Run(5000);
  CHECK(pair.answers == std::vector<std::string>{text});
}

}  // namespace
}  // namespace paracord
