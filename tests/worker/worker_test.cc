// A worker and a coordinator that is unreachable or refuses the worker.
#include "worker/worker.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/fingerprint64.h"
#include "exchange/codec.h"
#include "net/rpc_proto.h"
#include "program/workload.h"
#include "proto/protocol.h"
#include "spdlog/spdlog.h"
#include "tests/batches.h"
#include "tests/example_job.h"
#include "tests/fakes.h"
#include "tests/keras/cpu_program.h"
#include "tests/parts.h"
#include "tests/worker/plain_parts.h"

namespace paracord {
namespace {

// Answers every Join alike and at once, or all calls as `answers` says; no answer if it returns
// none.
class OneAnswer : public NoNetwork {
 public:
  class AnswerLink : public Link {
   public:
    explicit AnswerLink(OneAnswer& network) : network_(network) {}
    void Call(std::string_view method, Parts request, int64_t, ReplyFn done) override {
      ++network_.asked;
      if (!network_.answers) return done(network_.answer);
      if (auto answer = network_.answers(method, Joined(request))) return done(*std::move(answer));
      network_.unanswered.push_back(std::move(done));
    }
    const std::string& address() const override { return address_; }

   private:
    OneAnswer& network_;
    const std::string address_ = "unix:/coordinator";
  };
  std::unique_ptr<Link> Dial(const std::string& address) override {
    ++dialed[address];
    return std::make_unique<AnswerLink>(*this);
  }

  using Answer = absl::StatusOr<absl::Cord>;
  Answer answer = absl::UnavailableError("nobody");
  std::function<std::optional<Answer>(std::string_view method, const absl::Cord& request)> answers;
  std::vector<ReplyFn> unanswered;
  int asked = 0;
  std::map<std::string, int> dialed;  // keyed by address
};

struct Joining {
  explicit Joining(
      OpenWorkloadFn with = [](const Job&) -> absl::StatusOr<Workload> {
        return absl::UnimplementedError("not opened here");
      },
      bool stays = false)
      : open(std::move(with)), stay(stays) {
    spdlog::set_level(spdlog::level::off);
    worker.Start();
  }

  ManualLoop loop;
  ManualExecutor executor{loop};
  PosixFiles files;
  SeededRandom random{1};
  OneAnswer network;
  const OpenWorkloadFn open;
  const bool stay = false;
  std::optional<int> code;
  std::string reason;
  Worker worker{{.task = "worker:0", .coordinator = "unix:/coordinator", .dir = "", .stay = stay},
                open,
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

TEST_CASE("a worker that waits for a task goes on saying that it lives") {
  ExampleJob example;
  example.job.timeouts.worker_ms = 800;  // shorter than a coordinator parks a request for a task
  Joining joining([&](const Job& job) { return OpenWorkload(example.files, job, OnOneThread()); });
  int beats = 0;
  joining.network.answers = [&](std::string_view name, const absl::Cord& bytes) {
    std::optional<OneAnswer::Answer> answer;
    if (name == method::kJoin) {
      JoinReply reply;
      if (ParseMessage<JoinRequest>(bytes)->has_facts()) {
        reply.mutable_session()->set_id(1);
      } else {
        reply.set_job_json(JobToJson(example.job));
      }
      answer = Joined(ToParts(reply));
    } else if (name == method::kWork && !ParseMessage<WorkRequest>(bytes)->want_task()) {
      ++beats;
      answer = Joined(ToParts(WorkReply()));
    }
    return answer;
  };
  joining.loop.Advance(1000);
  CHECK(beats >= 4);
}

TEST_CASE("a worker that stays is idle after the job's end, and takes part in what comes then") {
  ExampleJob example;
  Joining joining([&](const Job& job) { return OpenWorkload(example.files, job, OnOneThread()); },
                  /*stays=*/true);
  enum { kDone, kAway, kTrains } phase = kTrains;
  joining.network.answers = [&](std::string_view name, const absl::Cord& bytes) {
    std::optional<OneAnswer::Answer> answer;
    if (phase == kAway) return std::optional<OneAnswer::Answer>(absl::UnavailableError("nobody"));
    if (name == method::kJoin) {
      const auto request = ParseMessage<JoinRequest>(bytes);
      JoinReply reply;
      if (phase == kDone) {
        reply.mutable_leave()->set_exit_code(0);
      } else if (request->has_facts()) {
        reply.mutable_session()->set_id(1);
      } else {
        reply.set_job_json(JobToJson(example.job));
      }
      answer = Joined(ToParts(reply));
    } else if (name == method::kWork && !ParseMessage<WorkRequest>(bytes)->want_task()) {
      WorkReply reply;
      if (phase == kDone) reply.mutable_leave()->set_exit_code(0);
      answer = Joined(ToParts(reply));
    }
    return answer;
  };
  joining.loop.Advance(1000);
  CHECK(joining.worker.Health().text == "takes part, in session 1");
  phase = kDone;
  joining.loop.Advance(5000);
  CHECK(joining.worker.Health().text == "has no job: the last one is done");
  phase = kAway;
  const int asked = joining.network.asked;
  joining.loop.Advance(3600000);  // longer than a worker otherwise waits for a coordinator
  CHECK(joining.network.asked - asked < 3600);
  CHECK_FALSE(joining.code.has_value());
  CHECK(joining.worker.Health().ready);
  phase = kTrains;
  joining.loop.Advance(5000);
  CHECK(joining.worker.Health().text == "takes part, in session 1");
  phase = kDone;
  joining.loop.Advance(5000);
  joining.worker.Drain("SIGTERM");
  CHECK(joining.code == static_cast<int>(ExitCode::kDone));
}

TEST_CASE("a worker that is given another job opens that") {
  ExampleJob example;
  Job other = example.job;
  other.wire = "bf16";
  std::vector<std::string> opened;
  Joining joining([&](const Job& job) {
    opened.push_back(job.wire);
    return OpenWorkload(example.files, job, OnOneThread());
  });
  std::vector<uint64_t> told;
  joining.network.answers = [&](std::string_view name, const absl::Cord& bytes) {
    if (name != method::kJoin) return std::optional<OneAnswer::Answer>();
    JoinReply reply;
    const auto request = ParseMessage<JoinRequest>(bytes);
    if (request->has_facts()) told.push_back(request->facts().job());
    if (told.size() == 2) {
      reply.mutable_session()->set_id(1);
    } else {
      reply.set_job_json(JobToJson(told.empty() ? example.job : other));
    }
    return std::optional<OneAnswer::Answer>(Joined(ToParts(reply)));
  };
  joining.loop.Advance(1000);
  CHECK(opened == std::vector<std::string>{"float32", "bf16"});
  CHECK(told == std::vector<uint64_t>{Fingerprint64(JobToJson(example.job)),
                                      Fingerprint64(JobToJson(other))});
}

TEST_CASE("a worker that finds another job's coordinator waits for its own, over new connections") {
  ExampleJob example;
  example.job.timeouts.orphan_ms = 20000;
  Joining joining([&](const Job& job) { return OpenWorkload(example.files, job, OnOneThread()); });
  bool other = false;
  std::string said;
  joining.network.answers = [&](std::string_view name, const absl::Cord& bytes) {
    if (name != method::kJoin) {
      // The connection breaks once there is another coordinator.
      return other ? std::optional<OneAnswer::Answer>(absl::UnavailableError("gone"))
                   : std::optional<OneAnswer::Answer>();
    }
    JoinReply reply;
    const auto request = ParseMessage<JoinRequest>(bytes);
    said = request->run_id();
    if (other) {
      reply.set_other_run("theirs");
    } else if (request->has_facts()) {
      reply.mutable_session()->set_id(1);
      reply.mutable_session()->set_run_id("ours");
    } else {
      reply.set_job_json(JobToJson(example.job));
    }
    return std::optional<OneAnswer::Answer>(Joined(ToParts(reply)));
  };
  joining.loop.Advance(1000);
  CHECK(joining.network.dialed["unix:/coordinator"] == 1);
  other = true;
  for (ReplyFn& done : std::exchange(joining.network.unanswered, {})) {
    done(absl::UnavailableError("gone"));
  }
  joining.loop.Advance(12000);
  CHECK_FALSE(joining.code.has_value());
  CHECK(said == "ours");
  CHECK(joining.network.dialed["unix:/coordinator"] > 5);
  joining.loop.Advance(12000);
  CHECK(joining.code == static_cast<int>(ExitCode::kPeerLost));
}

TEST_CASE("a worker with a session whose work the coordinator cannot read ends with a line") {
  ExampleJob example;
  Joining joining([&](const Job& job) { return OpenWorkload(example.files, job, OnOneThread()); });
  int refused = 0, beats = 0;
  const bool answers_beats = GENERATE(false, true);
  // A beat every 250 ms, between other requests.
  if (answers_beats) example.job.timeouts.worker_ms = 1000;
  joining.network.answers = [&](std::string_view name, const absl::Cord& bytes) {
    std::optional<OneAnswer::Answer> answer;
    if (name == method::kJoin) {
      JoinRequest request;
      REQUIRE(request.ParseFromString(std::string(bytes)));
      JoinReply reply;
      if (request.has_facts()) {
        reply.mutable_session()->set_id(1);
      } else {
        reply.set_job_json(JobToJson(example.job));
      }
      answer = Joined(ToParts(reply));
    } else if (name == method::kWork) {
      WorkRequest request;
      REQUIRE(request.ParseFromString(std::string(bytes)));
      if (answers_beats && !request.want_task()) {
        ++beats;
        answer = Joined(ToParts(WorkReply()));
      } else {
        ++refused;
        answer = absl::InvalidArgumentError("malformed paracord.WorkRequest of 9 bytes");
      }
    }
    return answer;  // WorkerHold is never answered
  };
  joining.loop.Advance(20000);
  CHECK(joining.code == static_cast<int>(ExitCode::kVersion));
  CHECK(joining.reason ==
        "this worker and the coordinator at unix:/coordinator cannot read each other's messages: "
        "malformed paracord.WorkRequest of 9 bytes");
  CHECK(refused == 5);
  CHECK((beats > 0) == answers_beats);
}

Session OnOnePs(const JobFacts& facts, int id) {
  Session session;
  session.set_id(static_cast<uint64_t>(id));
  PsInfo& ps = *session.add_ps();
  ps.set_address("unix:/ps");
  ps.set_boot_id("the same in each");
  for (const VariableSpec& variable : facts.variables()) {
    PartitionSpec& partition = *session.add_partitions();
    partition.set_id(static_cast<uint32_t>(session.partitions_size() - 1));
    partition.set_variable(partition.id());
    partition.set_row_end(variable.shape_size() == 0 ? 1 : variable.shape(0));
  }
  return session;
}

TEST_CASE("a worker that finds somebody else at the address of a ps dials it anew") {
  ExampleJob example;
  Joining joining([&](const Job& job) { return OpenWorkload(example.files, job, OnOneThread()); });
  int sessions = 0, exchanges = 0;
  joining.network.answers = [&](std::string_view name, const absl::Cord& bytes) {
    std::optional<OneAnswer::Answer> answer;
    if (name == method::kJoin) {
      const absl::StatusOr<JoinRequest> request = ParseMessage<JoinRequest>(bytes);
      JoinReply reply;
      if (!request->has_facts()) {
        reply.set_job_json(JobToJson(example.job));
      } else {
        *reply.mutable_session() = OnOnePs(request->facts(), ++sessions);
      }
      answer = Joined(ToParts(reply));
    } else if (name == method::kWork) {
      WorkReply reply;
      if (ParseMessage<WorkRequest>(bytes)->want_task()) {
        reply.mutable_lease()->set_id(1);
        reply.mutable_lease()->set_end_batch(1);
      }
      answer = Joined(ToParts(reply));
    } else if (name == method::kExchange) {
      ++exchanges;
      answer = absl::AbortedError("boot id is \"b\" here");
    }
    return answer;
  };
  joining.loop.Advance(5000);
  CHECK(sessions >= 3);
  CHECK(exchanges >= 3);
  CHECK(joining.network.dialed["unix:/ps"] == sessions);
  CHECK(joining.network.dialed["unix:/coordinator"] == 1);
}

TEST_CASE("a worker without a coordinator does not wait for lanes that may be nobody's") {
  ExampleJob example;
  example.job.guarantees.staleness = 1;
  Joining joining([](const Job&) -> absl::StatusOr<Workload> {
    Workload workload;
    workload.program = std::make_unique<NoVariables>();
    workload.feed = std::make_unique<OneExample>();
    return workload;
  });
  int sessions = 0, wants = 0;
  std::vector<uint64_t> states;
  joining.network.answers = [&](std::string_view name, const absl::Cord& bytes) {
    std::optional<OneAnswer::Answer> answer;
    if (name == method::kJoin) {
      const absl::StatusOr<JoinRequest> request = ParseMessage<JoinRequest>(bytes);
      JoinReply reply;
      if (!request->has_facts()) {
        reply.set_job_json(JobToJson(example.job));
      } else {
        *reply.mutable_session() = OnOnePs(request->facts(), ++sessions);
        DataPlan& plan = *reply.mutable_session()->mutable_plan();
        plan.set_records(12);
        plan.set_batch(1);
        plan.set_lanes(3);
        plan.set_split_batches(4);
      }
      answer = Joined(ToParts(reply));
    } else if (name == method::kWork) {
      WorkReply reply;
      if (ParseMessage<WorkRequest>(bytes)->want_task()) {
        if (++wants > 1) return answer;  // stays parked
        Lease& lane = *reply.add_lanes();
        lane.set_id(1);
        lane.set_first_batch(3);
        lane.set_end_batch(4);
      }
      answer = Joined(ToParts(reply));
    } else if (name == method::kExchange) {
      states.push_back(DecodeExchangeRequest(bytes)->header.state());
      ExchangeReply reply;
      reply.set_waits(true);
      answer = Joined(EncodeExchange(reply, {}));
    }
    return answer;
  };
  joining.loop.Advance(1000);
  CHECK(sessions == 1);
  CHECK(wants == 2);
  REQUIRE(states.size() > 10);
  CHECK(states[0] == 2);  // state of batch 3 with a staleness of 1
  REQUIRE(joining.network.unanswered.size() == 2);
  const ReplyFn hold = joining.network.unanswered[0];
  hold(absl::UnavailableError("the connection broke"));
  joining.loop.Advance(100);
  CHECK(sessions == 2);
}

TEST_CASE("a worker pushes to further holders in synchronous training, and not in another one") {
  const bool sync = GENERATE(false, true);
  ExampleJob example;
  if (sync) example.job.guarantees.consistency = "sync";
  if (sync) example.job.guarantees.recovery = "rollback";
  if (sync) example.job.guarantees.round_batches = 1;
  Joining joining([&](const Job& job) { return OpenWorkload(example.files, job, OnOneThread()); });
  std::set<std::string> asked;  // boot ids of ps that are asked for partitions
  int wants = 0;
  joining.network.answers = [&](std::string_view name, const absl::Cord& bytes) {
    std::optional<OneAnswer::Answer> answer;
    if (name == method::kJoin) {
      const absl::StatusOr<JoinRequest> request = ParseMessage<JoinRequest>(bytes);
      JoinReply reply;
      if (!request->has_facts()) {
        reply.set_job_json(JobToJson(example.job));
      } else {
        Session& session = *reply.mutable_session() = OnOnePs(request->facts(), 1);
        session.add_ps()->set_boot_id("of a further holder");
        for (auto& partition : *session.mutable_partitions()) partition.add_copies(1);
        if (sync) *session.mutable_plan() = PlanOfLanes(request->facts().records(), 1, 1);
      }
      answer = Joined(ToParts(reply));
    } else if (name == method::kWork) {
      WorkReply reply;
      if (ParseMessage<WorkRequest>(bytes)->want_task()) {
        if (++wants > 1) return answer;  // stays parked
        Lease& lease = sync ? *reply.add_lanes() : *reply.mutable_lease();
        lease.set_id(1);
        lease.set_end_batch(1);
      }
      answer = Joined(ToParts(reply));
    } else if (name == method::kExchange) {
      const ExchangeRequest header = DecodeExchangeRequest(bytes)->header;
      if (header.pull_size() > 0) asked.insert(header.fence().boot_id());
    }
    return answer;
  };
  joining.loop.Advance(2000);
  const std::set<std::string> first = {"the same in each"};
  CHECK(asked == (sync ? std::set<std::string>{"of a further holder", "the same in each"} : first));
}

}  // namespace
}  // namespace paracord
