// A starting coordinator finds another coordinator only if that one leads and lives.
#include "coordinator/rival.h"

#include <catch2/catch.hpp>
#include <optional>

#include "common/json_text.h"
#include "coordinator/core/job_state.h"
#include "net/rpc_proto.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// A network in which every address answers with one status, or not at all if it is null.
class OneAnswer : public Network {
 public:
  class AnswerLink : public Link {
   public:
    AnswerLink(OneAnswer& network, std::string address)
        : network_(network), address_(std::move(address)) {}
    void Call(std::string_view, Parts, int64_t, ReplyFn done) override {
      ++network_.asked;
      if (network_.status.is_null()) return done(absl::DeadlineExceededError("nobody"));
      StatusReply reply;
      reply.set_json(TextOf(network_.status));
      done(absl::Cord(reply.SerializeAsString()));
    }
    const std::string& address() const override { return address_; }

   private:
    OneAnswer& network_;
    const std::string address_;
  };
  std::unique_ptr<Link> Dial(const std::string& address) override {
    return std::make_unique<AnswerLink>(*this, address);
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string&, Service&) override {
    return absl::UnimplementedError("");
  }

  nlohmann::json status;
  int asked = 0;
};

struct Directory {
  Directory() {
    JobState state;
    state.run_id = "run";
    state.plan.set_records(1);
    state.plan.set_batch(1);
    state.plan.set_split_batches(1);
    Write("generation-4", "");
    Write("job.state-4", JobStateToText(state));
    Write("coordinator.address", "10.0.0.1:2222\n");
    network.status = {{"phase", "training"}, {"generation", 4}, {"run_id", "run"}};
    check.Start([this](const absl::Status& status) { answer = status; });
  }
  void Write(const std::string& name, const std::string& text) {
    REQUIRE(files.WriteAtomic(directory / name, text).ok());
  }

  TestDirectory directory;
  PosixFiles files;
  ManualLoop loop;
  ManualExecutor executor{loop};
  SeededRandom random{1};
  OneAnswer network;
  std::optional<absl::Status> answer;
  RivalCheck check{Environment{loop, network, files, executor, random}, directory.path(),
                   "10.0.0.2:2222", 3000};
};

TEST_CASE("a coordinator that leads and stays is in the way") {
  Directory d;
  d.loop.Advance(2900);
  CHECK_FALSE(d.answer.has_value());
  d.loop.Advance(600);
  REQUIRE(d.answer.has_value());
  CHECK(absl::IsAlreadyExists(*d.answer));
  CHECK(std::string(d.answer->message()).find("10.0.0.1:2222") != std::string::npos);
}

TEST_CASE("a coordinator that leaves, dies or is fenced is waited for, not fought") {
  const int kind = GENERATE(0, 1, 2, 3);
  Directory d;
  d.loop.Advance(1000);
  CHECK_FALSE(d.answer.has_value());
  if (kind == 0) d.network.status = nullptr;
  if (kind == 1) d.network.status["phase"] = "ended";
  if (kind == 2) d.network.status["run_id"] = "another job";
  if (kind == 3) d.Write("generation-6", "");
  d.loop.Advance(300);
  REQUIRE(d.answer.has_value());
  CHECK(d.answer->ok());
}

TEST_CASE("who answers there, but not as a coordinator does, is in nobody's way") {
  const nlohmann::json odd =
      GENERATE(nlohmann::json{{"phase", 7}}, nlohmann::json{{"generation", "x"}},
               nlohmann::json{{"generation", -1}}, nlohmann::json{{"run_id", nullptr}},
               nlohmann::json{{"run_id", {1}}});
  CAPTURE(TextOf(odd));
  Directory d;
  d.network.status.update(odd);
  d.loop.Advance(300);
  REQUIRE(d.answer.has_value());
  CHECK(d.answer->ok());
}

TEST_CASE("who leads a generation of this directory is in the way also before there is a state") {
  Directory d;
  REQUIRE(d.files.RemoveTree(d.directory / "job.state-4").ok());
  d.loop.Advance(3300);
  REQUIRE(d.answer.has_value());
  CHECK(absl::IsAlreadyExists(*d.answer));
}

TEST_CASE("a coordinator that starts reads the directory on the executor alone") {
  Directory d;
  d.loop.RunPosted();
  ManualExecutor later(d.loop, /*at_once=*/false);
  RivalCheck check({d.loop, d.network, d.files, later, d.random}, d.directory.path(), "", 3000);
  const int before = d.network.asked;
  check.Start([](const absl::Status&) {});
  d.loop.RunPosted();
  CHECK(d.network.asked == before);
  REQUIRE(later.RunOne());
  d.loop.RunPosted();
  CHECK(d.network.asked == before + 1);
  CHECK(later.RunOne());  // compares the answer
}

TEST_CASE("nobody is asked at our own address or at a socket that is gone") {
  Directory d;
  d.loop.RunPosted();
  const int before = d.network.asked;
  for (const char* address : {"10.0.0.2:2222", "unix:/nonexistent/socket", ""}) {
    d.Write("coordinator.address", address);
    d.answer.reset();
    d.check.Start([&](const absl::Status& status) { d.answer = status; });
    d.loop.RunPosted();
    REQUIRE(d.answer.has_value());
    CHECK(d.answer->ok());
  }
  CHECK(d.network.asked == before);
}

}  // namespace
}  // namespace paracord
