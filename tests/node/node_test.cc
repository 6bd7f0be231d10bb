#include "node/node.h"

#include <catch2/catch.hpp>
#include <optional>

#include "common/exit_code.h"
#include "common/json_text.h"
#include "net/rpc_proto.h"
#include "proto/paracord.pb.h"
#include "proto/protocol.h"
#include "spdlog/spdlog.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// Records dialled addresses. No peer answers, except that joining workers may be told to leave.
class NotingNetwork : public NoNetwork {
 public:
  class NotingLink : public Link {
   public:
    NotingLink(NotingNetwork& network, std::string address)
        : network_(network), address_(std::move(address)) {}
    void Call(std::string_view method, Parts, int64_t, ReplyFn done) override {
      if (method != method::kJoin || !network_.leave.has_value()) return;
      JoinReply reply;
      reply.mutable_leave()->set_exit_code(*network_.leave);
      done(absl::Cord(reply.SerializeAsString()));
    }
    const std::string& address() const override { return address_; }

   private:
    NotingNetwork& network_;
    const std::string address_;
  };
  std::unique_ptr<Link> Dial(const std::string& address) override {
    dialled.push_back(address);
    return std::make_unique<NotingLink>(*this, address);
  }
  std::vector<std::string> dialled;
  std::optional<int> leave;  // exit code for joining workers
};

Job NodeJob() {
  Job job;
  job.name = "j";
  job.model = nlohmann::json::object();
  job.train = {"npy", {{"features", "/f.npy"}, {"labels", "/l.npy"}}};
  job.loss = {"mean_squared_error"};
  job.optimizer = {"sgd"};
  return job;
}

// Node 0 of two, on a loop that the test runs. Its data cannot be opened.
struct NodeFixture {
  explicit NodeFixture(bool leads, const std::string& dir_name = "") {
    spdlog::set_level(spdlog::level::off);
    const std::string dir = dir_name.empty() ? directory.path() : directory / dir_name;
    NodeOptions options;
    options.address = "own:1";
    options.worker = {.task = "worker:0", .coordinator = leads ? "own:1" : "chief:1", .dir = dir};
    options.ps = {.index = 0, .dir = dir};
    if (leads) {
      options.coordinator = CoordinatorOptions{.job = NodeJob(),
                                               .ps_addresses = {"own:1", "other:1"},
                                               .workers = {"worker:0", "worker:1"},
                                               .nodes = true,
                                               .dir = dir};
    }
    const auto open = [](const Job&) -> absl::StatusOr<Workload> {
      return absl::NotFoundError("no data");
    };
    node.emplace(std::move(options), open, Environment{loop, network, files, worker, random},
                 NodeExecutors{worker, ps, exchanges, calls, coordinator},
                 [this](int code, const std::string& reason) {
                   ++exits;
                   exit_code = code;
                   exit_reason = reason;
                 });
  }
  // Calls the node over its listener, as another process would.
  absl::Status StatusOfCall(std::string_view method, const google::protobuf::Message& request) {
    const auto call = std::make_shared<FakeCall>();
    node->Handle(method, absl::Cord(request.SerializeAsString()), call);
    loop.RunPosted();
    return call->answered == 1 ? call->reply.status() : absl::UnknownError("no answer");
  }

  TestDirectory directory;
  ManualLoop loop;
  ManualExecutor worker{loop}, ps{loop}, exchanges{loop}, calls{loop}, coordinator{loop};
  NotingNetwork network;
  PosixFiles files;
  SeededRandom random{1};
  int exits = 0;
  int exit_code = -1;
  std::string exit_reason;
  std::optional<Node> node;
};

TEST_CASE("a node reaches its own ps and coordinator without the network") {
  NodeFixture fixture(/*leads=*/true);
  fixture.node->Start("own:1");
  fixture.loop.Advance(3000);
  REQUIRE(fixture.node->coordinator() != nullptr);
  REQUIRE(fixture.node->coordinator()->core() != nullptr);
  const nlohmann::json ps = JsonOf(fixture.node->PageJson()).at("ps");
  REQUIRE(ps.size() == 2);
  CHECK(ps.at(0).at("node") == "worker:0");
  CHECK(ps.at(0).at("silent_seconds") < 2);          // the coordinator hears its own ps,
  CHECK_FALSE(ps.at(1).contains("silent_seconds"));  // but not the other ps
  CHECK(fixture.network.dialled == std::vector<std::string>{"other:1"});
  CHECK(fixture.node->Health().text.find("its coordinator leads generation 1") !=
        std::string::npos);
}

TEST_CASE("a node whose coordinator is elsewhere serves the calls of a ps alone") {
  NodeFixture fixture(/*leads=*/false);
  fixture.node->Start("own:1");
  fixture.loop.Advance(1000);
  CHECK(fixture.network.dialled == std::vector<std::string>{"chief:1"});
  CHECK(fixture.StatusOfCall(method::kDescribe, DescribeRequest()).ok());
  CHECK(absl::IsUnimplemented(fixture.StatusOfCall(method::kStatus, StatusRequest())));
  CHECK(fixture.node->PageJson() == "{}");
}

TEST_CASE("a node that is told to leave does so when all its roles have, with 143") {
  const bool leads = GENERATE(false, true);
  CAPTURE(leads);
  NodeFixture fixture(leads);
  fixture.node->Start("own:1");
  fixture.loop.Advance(3000);
  CHECK(fixture.exits == 0);
  fixture.node->Drain("SIGTERM");
  fixture.node->Drain("SIGTERM");
  fixture.loop.Advance(30000);
  CHECK(fixture.exits == 1);
  CHECK(fixture.exit_code == 143);
  if (!leads) return;
  CHECK(fixture.node->coordinator() == nullptr);
  CHECK(absl::IsUnavailable(fixture.StatusOfCall(method::kStatus, StatusRequest())));
}

TEST_CASE("a node ends with the code of the role that failed, not of those that had to leave") {
  NodeFixture fixture(/*leads=*/true, "a-file/below");
  fixture.directory.Write("a-file", "no directory");
  fixture.node->Start("own:1");
  fixture.loop.Advance(1000);
  CHECK(fixture.exits == 0);  // the other roles may leave by themselves
  fixture.loop.Advance(10000);
  CHECK(fixture.exits == 1);
  CHECK(fixture.exit_code == 2);
  CHECK(fixture.exit_reason.starts_with("coordinator: "));
}

TEST_CASE("a node without a coordinator ends with 202") {
  NodeFixture fixture(/*leads=*/false);
  fixture.node->Start("own:1");
  fixture.loop.Advance(700 * 1000);
  CHECK(fixture.exits == 1);
  CHECK(fixture.exit_code == static_cast<int>(ExitCode::kPeerLost));
}

TEST_CASE("a node whose worker leaves for good, and whose ps nobody wants, ends with its code") {
  const ExitCode code = GENERATE(ExitCode::kDone, ExitCode::kInUse, ExitCode::kDiverged);
  CAPTURE(static_cast<int>(code));
  NodeFixture fixture(/*leads=*/false);
  fixture.network.leave = static_cast<int>(code);
  fixture.node->Start("own:1");
  fixture.loop.Advance(1000);
  CHECK(fixture.exits == 0);  // a coordinator may still call this ps
  fixture.loop.Advance(10000);
  CHECK(fixture.exits == 1);
  CHECK(fixture.exit_code == static_cast<int>(code));
}

TEST_CASE("a node whose worker leaves for good stays as a ps as long as a coordinator calls") {
  NodeFixture fixture(/*leads=*/false);
  fixture.network.leave = static_cast<int>(ExitCode::kInUse);
  fixture.node->Start("own:1");
  fixture.loop.Advance(1000);
  const auto hold = std::make_shared<FakeCall>();
  AdoptRequest adopt;
  adopt.set_boot_id(fixture.node->ps().boot_id());
  adopt.set_generation(1);
  adopt.set_coordinator_boot_id("chief");
  adopt.set_protocol(kProtocol);
  CHECK(fixture.StatusOfCall(method::kAdopt, adopt).ok());
  fixture.loop.Advance(20000);
  CHECK(fixture.exits == 0);
}

TEST_CASE("calls between a node's roles do not wait behind its pushes") {
  NodeFixture fixture(/*leads=*/true);
  fixture.exchanges.set_at_once(false);  // stands for an endless push
  fixture.node->Start("own:1");
  fixture.loop.Advance(3000);
  const nlohmann::json ps = JsonOf(fixture.node->PageJson()).at("ps");
  REQUIRE(ps.size() == 2);
  CHECK(ps.at(0).contains("silent_seconds"));  // the coordinator has heard its own ps
  CHECK_FALSE(fixture.exchanges.RunOne());     // no other call was put there
}

TEST_CASE("a node that ends while calls to itself are under way leaves nothing behind") {
  auto fixture = std::make_unique<NodeFixture>(/*leads=*/true);
  fixture->calls.set_at_once(false);
  fixture->node->Start("own:1");
  fixture->loop.Advance(200);
  fixture->node.reset();
  int late = 0;
  while (fixture->calls.RunOne()) ++late;
  CHECK(late > 0);
  fixture->loop.Advance(60000);
  CHECK(fixture->exits == 0);
}

}  // namespace
}  // namespace paracord
