// Measures the coordinator's pure core: leases per second with thousands of simulated workers, and
// the memory of a worker.
//   bench_coordinator [--workers N] [--rounds N]
#include <malloc.h>

#include <cstdio>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fingerprint64.h"
#include "config/flags.h"
#include "coordinator/core/core.h"
#include "measure.h"
#include "net/rpc_proto.h"
#include "proto/protocol.h"

namespace paracord::bench {
namespace {

constexpr uint32_t kSplitBatches = 32;

// The core with a minimal environment: a ps that answers at once, files that never fail, and
// workers that consist of a session and a lease.
class Simulation {
 public:
  Simulation(uint64_t workers, uint64_t splits) : began_(Seconds()) {
    CoreOptions options;
    options.job.name = "bench";
    options.job.model = nlohmann::json::object();
    options.job.train = {"npy", {{"features", "/f.npy"}, {"labels", "/l.npy"}}};
    options.job.loss = {"mean_squared_error"};
    options.job.optimizer = {"sgd"};
    options.job.batch = 1;
    options.job.split_batches = kSplitBatches;
    options.job.epochs = 1;
    options.job.checkpoint.every_seconds = 0;
    options.ps_addresses = {"unix:/ps"};
    options.boot_id = "c";
    options.new_run_id = "run";
    ps_.set_boot_id("boot");
    ps_.set_protocol(kProtocol);
    JobFacts& facts = *join_.mutable_facts();
    facts.set_job(Fingerprint64(JobToJson(options.job)));
    facts.set_records(splits * kSplitBatches);
    facts.set_fingerprint("files");
    facts.add_metric_names("loss");
    VariableSpec& variable = *facts.add_variables();
    variable.set_name("dense/bias");
    variable.add_shape(1000);
    variable.set_dtype(FLOAT32);
    variable.set_trainable(true);
    join_.set_protocol(kProtocol);
    join_.set_device("cpu");
    FoundInDir found;
    found.generation = 1;
    core_ = std::make_unique<CoordinatorCore>(std::move(options), std::move(found), 0);
    workers_.resize(workers);
  }

  void Feed(Event event) {
    queue_.push_back(std::move(event));
    const auto now_ms = static_cast<int64_t>((Seconds() - began_) * 1000);
    if (now_ms - ticked_ms_ >= kTickMs) {
      ticked_ms_ = now_ms;
      queue_.push_back(TickEvent());
    }
    while (!queue_.empty()) {
      const Event next = std::move(queue_.front());
      queue_.pop_front();
      for (Effect& effect : core_->Step(now_ms, next)) {
        std::visit([this](auto& e) { Take(e); }, effect);
      }
    }
  }

  void Join(uint64_t worker) {
    join_.set_task(absl::StrCat("worker:", worker));
    join_.set_boot_id(absl::StrCat("00112233445566778899aabb", 10000000 + worker));
    joined_.Clear();
    for (int tries = 0; !joined_.has_session(); ++tries) {
      if (tries == 100) Fail("no session: " + joined_.ShortDebugString());
      Feed(JoinEvent{++call_, join_});
    }
    workers_[worker].session = joined_.session().id();
    Feed(WorkerHoldEvent{++call_, workers_[worker].session});
  }

  // A worker reports its lease as done and asks for the next. `coded`: also encodes and decodes the
  // messages, as the shell does. Returns false if the worker is parked without a lease.
  bool Exchange(uint64_t worker, bool coded) {
    Worker& mine = workers_[worker];
    WorkRequest request = Report(mine, mine.lease.end_batch());
    request.set_want_task(true);
    return Send(mine, std::move(request), coded);
  }

  // A worker reports progress.
  void Progress(uint64_t worker) {
    Worker& mine = workers_[worker];
    mine.next = std::min(mine.next + 1, kSplitBatches - 1);
    WorkRequest request = Report(mine, mine.next);
    Send(mine, std::move(request), false);
  }

  bool HasLease(uint64_t worker) const { return workers_[worker].lease.id() != 0; }
  size_t workers() const { return workers_.size(); }

 private:
  struct Worker {
    uint64_t session = 0;
    uint32_t next = 0;
    Lease lease;
  };

  static WorkRequest Report(const Worker& worker, uint32_t next) {
    WorkRequest request;
    request.set_session(worker.session);
    if (worker.lease.id() != 0) {
      LeaseReport& report = *request.add_leases();
      report.set_lease(worker.lease.id());
      report.set_next(next);
      report.set_ended(next == worker.lease.end_batch());
      request.set_computed(1);
      request.set_samples(1);
      request.set_loss_sum(1);
    }
    return request;
  }

  bool Send(Worker& worker, WorkRequest request, bool coded) {
    if (coded) request = *ParseMessage<WorkRequest>(absl::Cord(request.SerializeAsString()));
    const bool wants = request.want_task();
    worked_.Clear();
    Feed(WorkEvent{++call_, std::move(request)});
    if (!wants) return true;
    if (coded) worked_ = *ParseMessage<WorkReply>(ToParts(worked_)[0]);
    worker.next = 0;
    worker.lease = worked_.lease();
    return worked_.has_lease();
  }

  void Take(AnswerJoin& e) { joined_ = std::move(e.reply); }
  void Take(AnswerWork& e) {
    if (e.call == call_) worked_ = std::move(e.reply);
  }
  void Take(AnswerHold&) {}
  void Take(AnswerScale&) {}
  void Take(ClaimGeneration&) {}
  void Take(FindNewestGeneration&) {}
  void Take(WriteJobState&) { queue_.push_back(JobStateWrittenEvent{absl::OkStatus()}); }
  void Take(MakeRoundDirectory&) {}
  void Take(CommitRound&) {}
  void Take(RemoveCheckpoints&) {}
  void Take(RemoveUncommittedRound&) {}
  void Take(WriteSummary&) {}
  void Take(Log&) {}
  void Take(Exit& e) { Fail("the job ended: " + e.reason); }
  void Take(CallPs& e) {
    if (const auto* adopt = std::get_if<AdoptRequest>(&e.request)) {
      ps_.set_generation(adopt->generation());
    } else if (const auto* load = std::get_if<LoadRequest>(&e.request)) {
      ps_.set_run_id(load->fence().run_id());
      for (const PartitionSpec& partition : load->partitions()) {
        PartitionDescription& entry = *ps_.add_partitions();
        entry.set_id(partition.id());
        entry.set_healthy(true);
        entry.mutable_ledger();
      }
    } else if (std::holds_alternative<PsHoldRequest>(e.request)) {
      return;
    }
    queue_.push_back(PsAnswerEvent{e.ps, e.tag, PsReply(ps_)});
  }

  const double began_;
  int64_t ticked_ms_ = 0;
  PsDescription ps_;
  JoinRequest join_;
  std::unique_ptr<CoordinatorCore> core_;
  std::deque<Event> queue_;
  CallId call_ = 0;
  JoinReply joined_;
  WorkReply worked_;
  std::vector<Worker> workers_;
};

double HeapBytes() { return static_cast<double>(mallinfo2().uordblks); }

// Runs `run`, which does `operations`, once a round. Prints rates by CPU time and by wall time.
double PrintRate(const std::string& what, uint64_t operations, int rounds,
                 const std::function<void()>& run) {
  std::vector<double> clock;
  std::vector<double> cpu;
  for (int round = 0; round < rounds; ++round) {
    const double cpu_before = CpuSecondsOf(0);
    const double before = Seconds();
    for (uint64_t i = 0; i < operations; ++i) run();
    clock.push_back(static_cast<double>(operations) / (Seconds() - before));
    cpu.push_back(static_cast<double>(operations) / (CpuSecondsOf(0) - cpu_before));
  }
  std::printf("  %-44s %9.0f/s of processor time (%.0f - %.0f)  %9.0f/s by the clock\n",
              what.c_str(), Quantile(cpu, 0.5), Quantile(cpu, 0.25), Quantile(cpu, 0.75),
              Quantile(clock, 0.5));
  std::fflush(stdout);
  return Quantile(cpu, 0.5);
}

int Main(int argc, char** argv) {
  int64_t workers = 10000;
  int64_t rounds = 15;
  int64_t operations = 20000;
  Flags flags("bench_coordinator", "Leases work to simulated workers.");
  flags.Integer("workers", "N", "simulated workers", 2, 100000, &workers);
  flags.Integer("operations", "N", "operations in a repetition", 1, 1000000, &operations);
  flags.Integer("rounds", "N", "repetitions", 1, 1000, &rounds);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  PrintMachine();
  std::printf("\n%ld workers on one core (median of %ld, quartiles)\n", workers, rounds);
  const auto count = static_cast<uint64_t>(workers);
  const auto repetitions = static_cast<int>(rounds);
  // Enough splits for all measurements. In the end all but a tenth of the workers wait for work.
  const uint64_t splits = count + static_cast<uint64_t>(2 * rounds * operations) + count / 10;
  Simulation simulation(count, splits);
  simulation.Join(0);  // builds the table of all splits
  const double empty = HeapBytes();
  uint64_t next = 1;
  PrintRate("a worker joins", count - 1, 1, [&] { simulation.Join(next++); });
  for (uint64_t i = 0; i < count; ++i) simulation.Exchange(i, false);
  const double bytes = (HeapBytes() - empty) / static_cast<double>(count);

  std::mt19937_64 random(1);
  const auto any = [&] { return random() % count; };
  const auto operations_count = static_cast<uint64_t>(operations);
  const double rate = PrintRate("a lease ends, the next is granted", operations_count, repetitions,
                                [&] { simulation.Exchange(any(), false); });
  PrintRate("the same, with the messages coded", operations_count, repetitions,
            [&] { simulation.Exchange(any(), true); });
  std::vector<uint64_t> busy;
  for (uint64_t i = 0; i < count; ++i) simulation.Exchange(i, false);
  for (uint64_t i = 0; i < count; ++i) {
    if (simulation.HasLease(i)) busy.push_back(i);
  }
  const double parked = PrintRate(
      absl::StrCat("progress, while ", count - busy.size(), " wait for work"), operations_count,
      repetitions, [&] { simulation.Progress(busy[random() % busy.size()]); });
  std::printf("  %-44s %9.0f bytes\n", "memory of a worker, with its lease", bytes);
  PrintGoal("lease operations", rate, Bound::kAtLeast, 100000, "/s");
  PrintGoal("the same while others wait", parked, Bound::kAtLeast, 100000, "/s");
  PrintGoal("memory of a worker", bytes, Bound::kAtMost, 4096, "bytes");
  return 0;
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
