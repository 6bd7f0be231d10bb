// What a worker makes of a coordinator that it cannot talk to.
#include "worker/worker.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "net/rpc_proto.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// Every Join gets the same answer, at once.
class OneAnswer : public NoNetwork {
 public:
  class AnswerLink : public Link {
   public:
    explicit AnswerLink(OneAnswer& network) : network_(network) {}
    void Call(std::string_view, Parts, int64_t, ReplyFn done) override {
      ++network_.asked;
      done(network_.answer);
    }
    const std::string& address() const override { return address_; }

   private:
    OneAnswer& network_;
    const std::string address_ = "unix:/coordinator";
  };
  std::unique_ptr<Link> Dial(const std::string&) override {
    return std::make_unique<AnswerLink>(*this);
  }

  absl::StatusOr<absl::Cord> answer = absl::UnavailableError("nobody");
  int asked = 0;
};

struct Joining {
  Joining() {
    spdlog::set_level(spdlog::level::off);
    worker.Start();
  }

  ManualLoop loop;
  ManualExecutor executor{loop};
  PosixFiles files;
  SeededRandom random{1};
  OneAnswer network;
  std::optional<int> code;
  std::string reason;
  Worker worker{{.task = "worker:0", .coordinator = "unix:/coordinator", .dir = ""},
                [](const Job&) { return absl::UnimplementedError("not opened here"); },
                {loop, network, files, executor, random},
                [this](int exit_code, std::string why) {
                  code = exit_code;
                  reason = std::move(why);
                }};
};

TEST_CASE("a worker whose messages the coordinator cannot read ends with a line, not at once") {
  Joining joining;
  joining.network.answer = absl::InvalidArgumentError("malformed paracord.JoinRequest of 70 bytes");
  joining.loop.Advance(30);
  CHECK_FALSE(joining.code.has_value());
  joining.loop.Advance(5000);
  CHECK(joining.code == static_cast<int>(ExitCode::kVersion));
  CHECK(joining.reason ==
        "this worker and the coordinator at unix:/coordinator cannot read each other's messages: "
        "malformed paracord.JoinRequest of 70 bytes");
}

TEST_CASE("a worker waits for a coordinator that is away, or is replaced in between") {
  Joining joining;
  JoinReply wait;
  wait.set_wait("the job is being created");
  joining.loop.Advance(5000);
  for (int i = 0; i < 10; ++i) {
    joining.network.answer = absl::InvalidArgumentError("malformed");
    joining.loop.Advance(500);
    joining.network.answer = ToParts(wait)[0];
    joining.loop.Advance(500);
  }
  CHECK(joining.network.asked > 20);
  CHECK_FALSE(joining.code.has_value());
}

}  // namespace
}  // namespace paracord
