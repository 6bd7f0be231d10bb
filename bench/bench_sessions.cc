// Measures a real coordinator with as many worker sessions as its descriptors allow, each with a
// separate connection: time to join, memory of a session, and leases per second over the wire.
//   bench_sessions [--sessions N] [--seconds N]
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/fingerprint64.h"
#include "common/json_text.h"
#include "daemon/daemon_process.h"
#include "measure.h"
#include "net/rpc_proto.h"
#include "nlohmann/json.hpp"
#include "proto/protocol.h"
#include "ps_client.h"
#include "temp_dir.h"

namespace paracord::bench {
namespace {

constexpr int64_t kSplitBatches = 64;
constexpr int64_t kHoldMs = 24 * 3600 * 1000;

std::string JobText() {
  return TextOf(nlohmann::json{
      {"name", "sessions"},
      {"model",
       {{"class_name", "Sequential"},
        {"config",
         {{"layers",
           {{{"class_name", "InputLayer"}, {"config", {{"batch_shape", {nullptr, 4}}}}},
            {{"class_name", "Dense"}, {"config", {{"name", "dense"}, {"units", 1}}}}}}}}}},
      {"data", {{"train", {{"format", "npy"}, {"features", "x.npy"}, {"labels", "y.npy"}}}}},
      {"batch", 1},
      {"split_batches", kSplitBatches},
      {"epochs", 1},
      {"timeouts", {{"worker_ms", 3600000}}},  // sessions are silent between their turns
      {"loss", "mean_squared_error"},
      {"optimizer", "sgd"}});
}

// A worker as the coordinator sees it, without computation. Used by one thread at a time.
class Session {
 public:
  Session(Network& network, const std::string& coordinator, uint64_t number)
      : link_(network.Dial(coordinator)), number_(number) {}

  void Join(uint64_t records) {
    JoinRequest request;
    request.set_task(absl::StrCat("worker:", number_));
    request.set_boot_id(absl::StrCat("00112233445566778899aabb", 10000000 + number_));
    request.set_protocol(kProtocol);
    request.set_device("cpu");
    JobFacts& facts = *request.mutable_facts();
    facts.set_records(records);
    facts.set_fingerprint("files");
    facts.add_metric_names("loss");
    VariableSpec& bias = *facts.add_variables();
    bias.set_name("dense/bias");
    bias.add_shape(1);
    bias.set_dtype(FLOAT32);
    bias.set_trainable(true);
    bias.mutable_initializer()->set_name("zeros");
    for (int tries = 0; id_ == 0; ++tries) {
      const JoinReply reply = Ask<JoinReply>(*link_, method::kJoin, request);
      id_ = reply.session().id();
      if (id_ != 0) break;
      if (reply.has_job_json()) facts.set_job(Fingerprint64(reply.job_json()));
      if (tries == 300 || reply.has_leave()) Fail("no session: " + reply.ShortDebugString());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    WorkerHoldRequest hold;
    hold.set_session(id_);
    CallProto<WorkerHoldReply>(*link_, method::kWorkerHold, hold, kHoldMs,
                               [](const absl::StatusOr<WorkerHoldReply>&) {});
  }

  // Reports the lease as done and gets the next.
  void Work() {
    WorkRequest request;
    request.set_session(id_);
    if (lease_.id() != 0) {
      LeaseReport& report = *request.add_leases();
      report.set_lease(lease_.id());
      report.set_next(lease_.end_batch());
      report.set_ended(true);
      request.set_computed(kSplitBatches);
    }
    request.set_want_task(true);
    const WorkReply reply = Ask<WorkReply>(*link_, method::kWork, request);
    if (!reply.has_lease())
      Fail(absl::StrCat("no lease for worker ", number_, ": ", reply.ShortDebugString()));
    lease_ = reply.lease();
  }

 private:
  const std::unique_ptr<Link> link_;
  const uint64_t number_;
  uint64_t id_ = 0;
  Lease lease_;
};

// Returns the descriptor limit of this process minus a reserve.
int64_t SessionsAllowed() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  return static_cast<int64_t>(files.rlim_cur) - 100;
}

struct Worked {
  double leases = 0;
  double seconds = 0;
  double cpu = 0;  // CPU seconds of the coordinator
};

// Processes leases for `seconds`. Each thread serves several sessions in turn.
Worked WorkOff(const std::vector<std::unique_ptr<Session>>& all, double seconds,
               pid_t coordinator) {
  constexpr size_t kThreads = 8;
  std::atomic<uint64_t> leases = 0;
  const double cpu_before = CpuSecondsOf(coordinator);
  const double begun = Seconds();
  std::vector<std::thread> threads;
  for (size_t t = 0; t < std::min(kThreads, all.size()); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; Seconds() - begun < seconds;) {
        all[i]->Work();
        ++leases;
        i = i + kThreads < all.size() ? i + kThreads : t;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {static_cast<double>(leases), Seconds() - begun, CpuSecondsOf(coordinator) - cpu_before};
}

int Main(int argc, char** argv) {
  int64_t sessions = 0;
  int64_t seconds = 5;
  Flags flags("bench_sessions", "Joins a real coordinator as thousands of workers.");
  flags.Integer("sessions", "N", "workers; 0: as many as descriptors allow", 0, 1000000, &sessions);
  flags.Integer("seconds", "N", "of working off leases", 0, 3600, &seconds);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  PrintMachine();
  if (sessions == 0) sessions = SessionsAllowed();

  const TempDir temp;
  const std::string at = "unix:" + temp.path() + "/";
  const nlohmann::json cluster = {
      {"cluster", {{"chief", {at + "c"}}, {"ps", {at + "p"}}, {"worker", {at + "w"}}}}};
  const std::vector<std::string> environment = {"TF_CONFIG=" + TextOf(cluster)};
  const auto start = [&](const std::string& role, std::vector<std::string> more) {
    std::vector<std::string> command = {Program("paracord-" + role),
                                        "--task",
                                        role + ":0",
                                        "--dir",
                                        temp.path(),
                                        "--log-level",
                                        "warn"};
    command.insert(command.end(), more.begin(), more.end());
    return std::make_unique<Child>(command, environment, temp.path() + "/" + role + ".log");
  };
  const auto ps = start("ps", {});
  const auto coordinator = start("coordinator", {"--job", temp.Write("job.json", JobText())});

  GrpcNetwork network;
  std::vector<std::unique_ptr<Session>> all;
  const uint64_t records = uint64_t{1} << 24;
  const auto join = [&] {
    all.push_back(std::make_unique<Session>(network, at + "c", all.size()));
    all.back()->Join(records);
  };
  join();
  const double alone = MemoryOf(coordinator->pid()).all;
  const double begun = Seconds();
  while (all.size() < static_cast<size_t>(sessions)) join();
  const double joined = Seconds() - begun;
  const double memory = MemoryOf(coordinator->pid()).all;
  const auto others = static_cast<double>(all.size() - 1);

  const Worked worked = WorkOff(all, static_cast<double>(seconds), coordinator->pid());

  std::printf("\n%zu sessions, each with its connection (descriptors allow %ld)\n", all.size(),
              SessionsAllowed());
  std::printf("  joined                      %9.0f/s, one after another\n", others / joined);
  std::printf(
      "  memory of the coordinator   %9.1f MB with one, %.1f MB with all: %.1f KB a session\n",
      alone, memory, (memory - alone) * 1000 / others);
  std::printf(
      "  leases over the wire        %9.0f/s by the clock, %.0f us of its processor time each\n",
      worked.leases / worked.seconds, worked.cpu * 1e6 / worked.leases);
  std::fflush(stdout);
  LeaveProcess(0);
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
