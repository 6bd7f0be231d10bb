// The evaluator on checkpoints in a directory, with a clock that the test moves.
#include "worker/evaluator.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/json_text.h"
#include "net/rpc_proto.h"
#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"
#include "storage/claim.h"
#include "tests/example_job.h"
#include "tests/keras/cpu_program.h"
#include "tests/parts.h"

namespace paracord {
namespace {

using nlohmann::json;

// Storage on which one ps's files are unreadable for a while.
struct HangingFiles : PosixFiles {
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override {
    if (hangs && path.ends_with(PsFileName(1, 2))) return absl::ErrnoToStatus(EIO, path);
    return PosixFiles::Open(path);
  }
  bool hangs = false;
};

// A coordinator that says where its DIR is.
class Chief : public NoNetwork {
 public:
  class ChiefLink : public Link {
   public:
    explicit ChiefLink(Chief& chief) : chief_(chief) {}
    void Call(std::string_view, Parts, int64_t, ReplyFn done) override {
      ++chief_.asked;
      if (chief_.status.is_null()) return done(absl::UnavailableError("nobody"));
      StatusReply reply;
      reply.set_json(TextOf(chief_.status));
      done(Joined(ToParts(reply)));
    }
    const std::string& address() const override { return address_; }

   private:
    Chief& chief_;
    const std::string address_ = "chief:1";
  };
  std::unique_ptr<Link> Dial(const std::string&) override {
    return std::make_unique<ChiefLink>(*this);
  }
  json status;  // null: no coordinator answers
  int asked = 0;
};

struct Rig {
  Rig() {
    spdlog::set_level(spdlog::level::off);
    Restart();
  }
  void Restart() {
    exit_code.reset();
    evaluator.emplace(
        EvaluatorOptions{.task = "evaluator:0",
                         .dir = example.directory.path(),
                         .coordinator = "chief:1",
                         .poll_ms = 1000},
        [this](const Job& job) {
          ++opened;
          if (data_away) return absl::StatusOr<Workload>(absl::UnavailableError("s3: no answer"));
          return OpenWorkload(example.files, job, OnOneThread());
        },
        Environment{loop, network, files, executor, random},
        [this](int code, const std::string&) {
          CHECK_FALSE(exit_code.has_value());
          exit_code = code;
        });
    evaluator->Start();
    loop.Advance(0);
  }
  std::vector<json> Lines() {
    std::vector<json> lines;
    const auto text = example.files.ReadWhole(example.path("evaluations.jsonl"));
    if (!text.ok()) return lines;
    for (const auto line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
      lines.push_back(JsonOf(std::string(line)));
    }
    return lines;
  }
  std::vector<std::string> Scored() {
    std::vector<std::string> names;
    for (const json& line : Lines()) names.push_back(line.at("checkpoint"));
    return names;
  }

  ExampleJob example;
  HangingFiles files;
  ManualLoop loop;
  Chief network;
  ManualExecutor executor{loop};
  SeededRandom random{1};
  int opened = 0;
  bool data_away = false;  // the storage of the data does not answer
  std::optional<int> exit_code;
  std::optional<Evaluator> evaluator;
};

using Names = std::vector<std::string>;

TEST_CASE("the evaluator scores each new checkpoint once, also after a restart") {
  Rig rig;
  CHECK(rig.Lines().empty());
  rig.example.Commit(2, 1, {.bias = 1});
  rig.loop.Advance(1000);
  REQUIRE(rig.Lines().size() == 1);
  const json line = rig.Lines()[0];
  CHECK(line["examples"] == 3);
  CHECK(line["metrics"]["accuracy"] == Approx(1.0 / 3));
  // Cross-entropy of logits (1, 0, 0) for classes 0, 1 and 2.
  CHECK(line["metrics"]["loss"] == Approx(std::log(std::exp(1) + 2) - 1.0 / 3));
  rig.loop.Advance(10000);
  rig.Restart();
  rig.loop.Advance(10000);
  CHECK(rig.Scored() == Names{"step-2-g1-r1"});
  rig.example.Commit(4, 2, {});
  rig.loop.Advance(1000);
  CHECK(rig.Scored() == Names{"step-2-g1-r1", "step-4-g1-r2"});
  CHECK_FALSE(rig.exit_code.has_value());
}

TEST_CASE("of several new checkpoints the newest is scored and the older are not") {
  Rig rig;
  for (uint64_t round = 1; round <= 3; ++round) rig.example.Commit(2 * round, round, {});
  rig.loop.Advance(10000);
  CHECK(rig.Scored() == Names{"step-6-g1-r3"});
  CHECK(rig.opened == 1);
}

TEST_CASE("a checkpoint of the same name in another run is another one") {
  Rig rig;
  rig.example.Commit(2, 1, {});
  rig.loop.Advance(1000);
  rig.example.run_id = "ffffffffffffffffffffffffffffffff";
  rig.example.Commit(2, 1, {});
  rig.loop.Advance(1000);
  CHECK(rig.Scored() == Names{"step-2-g1-r1", "step-2-g1-r1"});
}

TEST_CASE("a damaged or vanishing checkpoint is passed over for the one before") {
  Rig rig;
  const std::string second = PsFileName(1, 2);
  rig.example.Commit(2, 1, {});
  rig.example.Damage(rig.example.Commit(4, 2, {}), second);
  // A checkpoint half removed by retention.
  const std::string vanishing = rig.example.Commit(6, 3, {});
  REQUIRE(rig.example.files.RemoveTree(rig.example.Checkpoint(vanishing) + "/" + second).ok());
  rig.loop.Advance(5000);
  CHECK(rig.Scored() == Names{"step-2-g1-r1"});
  REQUIRE(rig.example.files.RemoveTree(rig.example.Checkpoint(vanishing)).ok());
  rig.example.Commit(8, 4, {});
  rig.loop.Advance(5000);
  CHECK(rig.Scored() == Names{"step-2-g1-r1", "step-8-g1-r4"});
  CHECK_FALSE(rig.exit_code.has_value());
}

TEST_CASE("it leaves with 0 once the job is done and its final checkpoint scored") {
  Rig rig;
  rig.example.Write("summary.json", R"({"status": "done"})");
  rig.loop.Advance(5000);
  rig.example.Commit(2, 1, {});
  rig.loop.Advance(5000);
  CHECK_FALSE(rig.exit_code.has_value());  // the final checkpoint is still to come
  rig.example.Commit(4, 2, {.complete = true});
  rig.loop.Advance(1000);
  CHECK(rig.exit_code == 0);
  CHECK(rig.Scored() == Names{"step-2-g1-r1", "step-4-g1-r2"});
  rig.Restart();
  CHECK(rig.exit_code == 0);
  CHECK(rig.Scored().size() == 2);
}

TEST_CASE("a final checkpoint without a summary may be one that is gone on from") {
  Rig rig;
  rig.example.Commit(4, 2, {.complete = true});
  rig.loop.Advance(5000);
  CHECK_FALSE(rig.exit_code.has_value());
  rig.example.Write("summary.json", R"({"status": "stopped"})");
  rig.loop.Advance(5000);
  CHECK_FALSE(rig.exit_code.has_value());
  rig.example.Write("summary.json", R"({"status": "done"})");
  rig.loop.Advance(1000);
  CHECK(rig.exit_code == 0);
}

TEST_CASE("it leaves with an error when the job failed or its final checkpoint is damaged") {
  Rig rig;
  rig.example.Commit(2, 1, {});
  rig.example.Write("summary.json", R"({"status": "failed"})");
  rig.loop.Advance(5000);
  CHECK(rig.exit_code == 1);
  CHECK(rig.Scored().size() == 1);
  rig.example.Damage(rig.example.Commit(4, 2, {.complete = true}), PsFileName(0, 2));
  rig.example.Write("summary.json", R"({"status": "done"})");
  rig.Restart();
  rig.loop.Advance(5000);
  CHECK(rig.exit_code == 5);
}

TEST_CASE("a final checkpoint that cannot be read for a while is scored after it") {
  Rig rig;
  rig.example.Commit(2, 1, {});
  rig.loop.Advance(1000);
  rig.files.hangs = true;
  rig.example.Commit(4, 2, {.complete = true});
  rig.example.Write("summary.json", R"({"status": "done"})");
  rig.loop.Advance(30000);
  CHECK_FALSE(rig.exit_code.has_value());
  SECTION("for ever it is not waited for") {
    rig.loop.Advance(60000);
    CHECK(rig.exit_code == 5);
    return;
  }
  rig.files.hangs = false;
  rig.loop.Advance(1000);
  CHECK(rig.exit_code == 0);
  CHECK(rig.Scored() == Names{"step-2-g1-r1", "step-4-g1-r2"});
}

TEST_CASE("a job whose data are not there is a configuration error") {
  Rig rig;
  REQUIRE(rig.example.files.RemoveTree(rig.example.path("y")).ok());
  rig.example.Commit(2, 1, {});
  rig.loop.Advance(1000);
  CHECK(rig.exit_code == 2);
}

TEST_CASE("storage of the data that does not answer is asked again, and the checkpoint scored") {
  Rig rig;
  rig.data_away = true;
  rig.example.Commit(2, 1, {});
  rig.loop.Advance(5000);
  CHECK(rig.opened > 3);
  CHECK_FALSE(rig.exit_code.has_value());
  rig.data_away = false;
  rig.loop.Advance(1000);
  CHECK(rig.Scored() == Names{"step-2-g1-r1"});
}

TEST_CASE("SIGTERM ends it with 143, waiting for what runs") {
  Rig rig;
  rig.evaluator->Drain();
  CHECK(rig.exit_code == 143);
  rig.executor.set_at_once(false);
  rig.Restart();
  rig.example.Commit(2, 1, {});
  rig.evaluator->Drain();
  CHECK_FALSE(rig.exit_code.has_value());
  CHECK(rig.executor.RunOne());
  rig.loop.RunPosted();
  CHECK(rig.exit_code == 143);
  CHECK(rig.Lines().empty());
}

TEST_CASE("foreign lines and a file without an end of line survive") {
  Rig rig;
  rig.example.Write("evaluations.jsonl", "{\"mine\": 1}\n[7]");
  rig.Restart();
  rig.example.Commit(2, 1, {});
  rig.loop.Advance(1000);
  REQUIRE(rig.Lines().size() == 3);
  CHECK(rig.Lines()[0] == json({{"mine", 1}}));
  CHECK(rig.Lines()[2]["checkpoint"] == "step-2-g1-r1");
}

TEST_CASE("an evaluator whose DIR is not the coordinator's ends with a line that names both") {
  Rig rig;
  rig.loop.Advance(70000);
  CHECK_FALSE(rig.exit_code.has_value());  // no coordinator has answered
  rig.network.status = {{"coordinator", "c3"}, {"generation", 3}, {"dir", "/job on host a"}};
  rig.loop.Advance(30000);
  CHECK_FALSE(rig.exit_code.has_value());  // DIR may be mounted soon
  const bool mounted = GENERATE(true, false);
  if (mounted)
    REQUIRE(rig.files.WriteAtomic(rig.example.path("generation-3"), ClaimText(3, "c3")).ok());
  rig.loop.Advance(70000);
  CHECK(rig.exit_code.has_value() != mounted);
  if (!mounted) CHECK(rig.exit_code == static_cast<int>(ExitCode::kConfiguration));
  const int asked = rig.network.asked;
  rig.loop.Advance(70000);
  CHECK(rig.network.asked == asked);  // DIR is known by now
}

TEST_CASE("an evaluator with checkpoints to score stays, whoever answers at the address") {
  Rig rig;
  rig.network.status = {{"coordinator", "c3"}, {"generation", 3}, {"dir", "/job on host a"}};
  rig.example.Commit(2, 1, {.bias = 1});
  rig.loop.Advance(200000);
  CHECK(rig.Scored() == Names{"step-2-g1-r1"});
  CHECK_FALSE(rig.exit_code.has_value());
}

}  // namespace
}  // namespace paracord
