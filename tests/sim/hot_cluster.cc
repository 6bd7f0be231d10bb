#include "sim/hot_cluster.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/json_text.h"
#include "config/norm_clip.h"
#include "exchange/codec.h"
#include "exchange/encoding.h"
#include "proto/protocol.h"
#include "sim/seen_partition.h"
#include "tests/batches.h"
#include "tests/parts.h"
#include "worker/ps_session.h"

namespace paracord {
namespace {

constexpr int64_t kExchangeMs = 400;  // deadline of a call
constexpr int64_t kStepMs = 5;        // of the clock
constexpr int64_t kGrantMs = 1500;    // after which all lanes are leased anew
constexpr char kHotRun[] = "0123456789abcdef0123456789abcdef";

Job HotJob() {
  Job job;
  job.name = "copies";
  job.model = JsonOf(R"({"class_name": "Sequential", "config": {"layers": []}})");
  job.train = {"idx", {{"features", "/f"}, {"labels", "/l"}}};
  job.each_epoch.shuffle = false;
  job.loss = {"mean_squared_error"};
  job.optimizer = {"adam", {{"learning_rate", 0.125}}};
  job.batch = 2;
  job.epochs = 1;
  job.guarantees.consistency = "sync";
  job.guarantees.recovery = "rollback";
  job.partitioner.kind = PartitionerSpec::Kind::kFixedShards;
  job.partitioner.shards = 2;
  return job;
}

}  // namespace

HotPlan HotPlan::Draw(SimRandom random) {
  HotPlan plan;
  plan.faults = true;
  plan.ps = static_cast<uint32_t>(random.Between(2, 3));
  plan.workers = static_cast<uint32_t>(random.Between(1, 3));
  plan.lanes = static_cast<uint32_t>(random.Between(1, 4));
  CountingOptions& counting = plan.counting;
  counting.records = static_cast<uint64_t>(random.Between(12, 24));
  counting.batches = (counting.records + 1) / 2;
  counting.rows = static_cast<uint64_t>(random.Between(2, 4));
  counting.trained = static_cast<uint32_t>(random.Between(1, 2));
  counting.frozen = random.Chance(0.3);
  plan.job = HotJob();
  if (random.Chance(0.3)) plan.job.optimizer = {"sgd", {{"learning_rate", 0.5}}};
  const auto kind = random.Between(0, 3);
  counting.tables = kind > 0;
  counting.growing = kind > 1;
  counting.lazy = counting.tables && plan.job.optimizer.name == "adam";
  if (kind == 3) {
    counting.admit_after = static_cast<uint32_t>(random.Between(1, 3));
    counting.expire_batches = static_cast<uint64_t>(random.Between(0, 6));
    if (random.Chance(0.3)) counting.rows_max = 2 * counting.rows;
  }
  if (random.Chance(0.3)) plan.job.wire = random.Chance(0.5) ? "bf16" : "f16";
  if (random.Chance(0.3)) plan.job.optimizer.options["global_clipnorm"] = 1.5;
  if (random.Chance(0.4)) plan.staged_push_bytes = 16;
  return plan;
}

std::string HotPlan::ToString() const {
  return absl::StrCat(ps, " ps, ", workers, " workers, ", lanes, " lanes, batches ",
                      counting.batches,
                      counting.growing  ? absl::StrCat(", growing, after ", counting.admit_after,
                                                       ", expire ", counting.expire_batches)
                      : counting.tables ? ", tables"
                                        : "",
                      ", wire ", job.wire, ", ", job.optimizer.name, TextOf(job.optimizer.options),
                      staged_push_bytes < 64 ? ", early" : "");
}

// Answers its caller once, over a network that may lose the answer.
class HotCluster::Call : public ServerCall {
 public:
  Call(HotCluster& cluster, uint32_t ps, std::shared_ptr<BytesFn> done)
      : cluster_(cluster), ps_(ps), done_(std::move(done)) {}
  void Reply(absl::StatusOr<Parts> reply) override {
    if (done_ == nullptr) return;
    absl::StatusOr<absl::Cord> bytes = absl::Cord();
    if (reply.ok()) bytes = absl::Cord(std::string(Joined(*reply)));
    if (!reply.ok()) bytes = reply.status();
    if (bytes.ok()) {
      const absl::StatusOr<DecodedReply> decoded = DecodeExchangeReply(*bytes);
      if (decoded.ok()) cluster_.traffic_[ps_].pulled_bytes += PieceBytes(decoded->pieces);
    }
    const int64_t delay_ms = 1 + cluster_.random_.Between(0, 4);
    cluster_.loop_.PostAfter(delay_ms, [done = std::move(done_), bytes = std::move(bytes)] {
      if (const BytesFn once = std::exchange(*done, nullptr)) once(bytes);
    });
  }
  void OnCancel(std::function<void()>) override {}

 private:
  HotCluster& cluster_;
  const uint32_t ps_;
  std::shared_ptr<BytesFn> done_;  // null: the answer is lost
};

class HotCluster::PsLink : public Link {
 public:
  PsLink(HotCluster& cluster, uint32_t ps) : cluster_(cluster), ps_(ps) {}
  void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) override {
    cluster_.Send(ps_, method, std::string(Joined(request)), deadline_ms,
                  std::make_shared<BytesFn>(std::move(done)));
  }
  const std::string& address() const override { return address_; }

 private:
  HotCluster& cluster_;
  const uint32_t ps_;
  const std::string address_ = "ps";
};

struct HotCluster::HotWorker {
  std::vector<std::unique_ptr<PsLink>> links;
  std::shared_ptr<Workload> workload;
  std::unique_ptr<Trainer> trainer;
};

HotCluster::HotCluster(uint64_t seed, HotPlan plan)
    : plan_([&] {
        plan.counting.mixing = true;
        plan.job.guarantees.round_batches = plan.lanes;
        return std::move(plan);
      }()),
      random_(seed),
      world_(seed),
      data_(PlanOfLanes(plan_.counting.records, plan_.job.batch, plan_.lanes)),
      reference_(world_.storage(), plan_.job, plan_.counting, data_),
      ps_(plan_.ps),
      stalled_(plan_.ps),
      stalls_(plan_.ps),
      traffic_(plan_.ps),
      workers_(plan_.workers) {
  session_.set_run_id(kHotRun);
  session_.set_generation(1);
  *session_.mutable_plan() = data_;
  for (const PartitionSpec& drawn : reference_.partitions()) {
    PartitionSpec& partition = *session_.add_partitions() = drawn;
    partition.set_ps(partition.id() % plan_.ps);
    if (plan_.ps > 1) partition.add_copies((partition.id() + 1) % plan_.ps);
  }
  for (uint32_t ps = 0; ps < plan_.ps; ++ps) StartPs(ps);
  for (uint32_t worker = 0; worker < plan_.workers; ++worker) StartWorker(worker);
  GrantAll();
}

HotCluster::~HotCluster() = default;

uint64_t HotCluster::rounds() const { return RoundsPerEpoch(data_) * plan_.job.epochs; }

template <class Reply, class Request>
Reply HotCluster::Order(uint32_t ps, std::string_view method, const Request& request) {
  auto call = std::make_shared<FakeCall>();
  ps_[ps]->Handle(method, absl::Cord(request.SerializeAsString()), call);
  loop_.RunPosted();
  INFO(call->reply.status());
  REQUIRE(call->reply.ok());
  Reply reply;
  REQUIRE(reply.ParseFromString(std::string(*call->reply)));
  return reply;
}

void HotCluster::StartPs(uint32_t ps) {
  PsOptions options;
  options.index = ps;
  options.dir = directory_.path();
  ps_[ps] = std::make_unique<ParameterServer>(
      options, Environment{loop_, network_, files_, executor_, random_}, [](int, std::string) {});
  session_.add_ps()->set_boot_id(ps_[ps]->boot_id());
  AdoptRequest adopt;
  adopt.set_boot_id(ps_[ps]->boot_id());
  adopt.set_generation(1);
  adopt.set_coordinator_boot_id("c");
  adopt.set_protocol(kProtocol);
  Order<PsDescription>(ps, method::kAdopt, adopt);
  LoadRequest load;
  Fence& fence = *load.mutable_fence();
  fence.set_run_id(kHotRun);
  fence.set_generation(1);
  fence.set_boot_id(ps_[ps]->boot_id());
  fence.set_protocol(kProtocol);
  load.set_coordinator_boot_id("c");
  load.set_job_json(JobToJson(plan_.job));
  *load.mutable_plan() = data_;
  load.set_keeps_before(plan_.ps > 1);
  const Workload workload = MakeCountingWorkload(plan_.counting);
  for (const VariableSpec& variable : workload.program->variables()) {
    *load.add_variables() = variable;
  }
  for (const PartitionSpec& partition : session_.partitions()) {
    if (IsHolder(ps, partition)) *load.add_partitions() = partition;
  }
  Order<PsDescription>(ps, method::kLoad, load);
}

void HotCluster::StartWorker(uint32_t worker) {
  auto started = std::make_unique<HotWorker>();
  for (uint32_t ps = 0; ps < plan_.ps; ++ps) {
    started->links.push_back(std::make_unique<PsLink>(*this, ps));
  }
  std::vector<Link*> links;
  for (const auto& link : started->links) links.push_back(link.get());
  started->workload = std::make_shared<Workload>(MakeCountingWorkload(plan_.counting));
  started->workload->feed->Start(data_);
  const Environment environment{loop_, network_, files_, executor_, random_};
  auto parameters = std::make_unique<PsSession>(
      PsSessionOptions{.task = absl::StrCat("worker:", worker),
                       .exchange_ms = kExchangeMs,
                       .transfer = {EncodingOfWire(plan_.job.wire), {}},
                       .staged_push_bytes = plan_.staged_push_bytes},
      session_, started->workload, links, environment,
      [this](const std::string& why) { reports_.push_back(absl::StrCat("stale: ", why)); });
  TrainerCallbacks callbacks;
  callbacks.report = [this](const LeaseReport& report) { Reported(report); };
  callbacks.evaluated = [](const EvaluationReport&) {};
  callbacks.wants_task = [] {};
  started->trainer = std::make_unique<Trainer>(
      TrainerOptions{.exact_values = plan_.job.wire == "float32",
                     .sync = true,
                     .clips_rounds = ReadNormClip(plan_.job.optimizer).on()},
      data_, started->workload, std::move(parameters), environment, std::move(callbacks));
  workers_[worker] = std::move(started);
  loop_.RunPosted();
}

uint64_t HotCluster::LeastState() const {
  uint64_t least = rounds();
  for (uint32_t ps = 0; ps < plan_.ps; ++ps) {
    const std::vector<uint64_t> states = StatesOf(ps);
    if (!states.empty() && InLayout(ps)) least = std::min(least, states[0]);
  }
  return least;
}

void HotCluster::Grant(uint32_t worker, uint64_t lane, uint32_t first) {
  leased_.push_back(lane);
  Lease lease;
  lease.set_id(leased_.size());
  lease.set_split(lane);
  lease.set_first_batch(first);
  lease.set_end_batch(BatchesInSplit(data_, lane));
  lease.set_proof(absl::StrCat("lane ", lane));
  workers_[worker]->trainer->Take(lease);
}

void HotCluster::GrantLater(uint64_t lane) {
  loop_.PostAfter(random_.Between(1, 50), [this, lane, generation = session_.generation()] {
    const uint64_t first = LeastState();
    if (generation != session_.generation() || first >= BatchesInSplit(data_, lane)) return;
    const auto worker = static_cast<uint32_t>(random_.Between(0, plan_.workers - 1));
    Grant(worker, lane, static_cast<uint32_t>(first));
  });
}

void HotCluster::GrantAll() {
  for (uint64_t lane = 0; lane < SplitsPerEpoch(data_); ++lane) GrantLater(lane);
}

void HotCluster::Reported(const LeaseReport& report) {
  reports_.push_back(absl::StrCat(Problem_Name(report.problem()), " ", report.message()));
  // Who has pushed all of a lane goes on to ask for the state after it, and carries norms.
  if (report.problem() != PROBLEM_NONE) GrantLater(leased_[report.lease() - 1]);
}

void HotCluster::Send(uint32_t ps, std::string_view method, const std::string& request,
                      int64_t deadline_ms, const std::shared_ptr<BytesFn>& done) {
  const auto end = [done](const absl::Status& status) {
    if (const BytesFn once = std::exchange(*done, nullptr)) once(status);
  };
  loop_.PostAfter(deadline_ms, [end] { end(absl::DeadlineExceededError("no answer")); });
  const std::string name(method);
  const auto arrive = [this, ps, name, request, done, end](bool answers) {
    if (ps_[ps] == nullptr) return end(absl::UnavailableError("the ps is dead"));
    if (!stalls_[ps]) return Arrive(ps, name, request, done, answers);
    stalled_[ps].push_back([this, ps, name, request, done, answers] {
      if (ps_[ps] != nullptr) Arrive(ps, name, request, done, answers);
    });
  };
  const int64_t soon_ms = 1 + random_.Between(0, 8);
  const double fate = plan_.faults ? random_.Unit() : 1;
  if (fate < 0.04) return;  // the request is lost
  if (fate < 0.08) {        // it comes when nobody waits for it any more
    const int64_t late_ms = deadline_ms + random_.Between(1, 600);
    loop_.PostAfter(late_ms, [arrive] { arrive(true); });
    return;
  }
  loop_.PostAfter(soon_ms, [arrive, lost = fate < 0.12] { arrive(!lost); });
  if (fate >= 0.12 && fate < 0.2) {  // it comes twice
    loop_.PostAfter(soon_ms + random_.Between(0, 900), [arrive] { arrive(false); });
  }
}

void HotCluster::Arrive(uint32_t ps, std::string_view method, const std::string& request,
                        const std::shared_ptr<BytesFn>& done, bool answers) {
  if (method == method::kExchange) {
    ++traffic_[ps].exchanges;
    const absl::Cord bytes(request);
    const absl::StatusOr<DecodedRequest> decoded = DecodeExchangeRequest(bytes);
    if (decoded.ok()) traffic_[ps].pushed_bytes += PieceBytes(decoded->pieces);
  }
  const auto call = std::make_shared<Call>(*this, ps, answers ? done : nullptr);
  ps_[ps]->Handle(method, absl::Cord(request), call);
  if (method == method::kExchange && left_ > 0 && --left_ == 0) loop_.Post(then_);
}

void HotCluster::AfterExchanges(uint64_t count, std::function<void()> then) {
  left_ = count;
  then_ = std::move(then);
}

const Partition* HotCluster::Held(uint32_t ps, uint32_t partition) const {
  return ps_[ps] == nullptr ? nullptr : ps_[ps]->content()->Find(partition);
}

// Whether the session names it as a holder of the partition.
bool HotCluster::IsHolder(uint32_t ps, const PartitionSpec& spec) {
  return spec.ps() == ps || std::ranges::find(spec.copies(), ps) != spec.copies().end();
}

bool HotCluster::InLayout(uint32_t ps) const {
  return std::ranges::any_of(session_.partitions(),
                             [&](const PartitionSpec& spec) { return IsHolder(ps, spec); });
}

bool HotCluster::Done() const {
  for (const PartitionSpec& spec : session_.partitions()) {
    if (!reference_.trained(spec.id())) continue;
    for (uint32_t ps = 0; ps < plan_.ps; ++ps) {
      const Partition* const held = Held(ps, spec.id());
      if (!IsHolder(ps, spec)) continue;
      if (held == nullptr || held->GetCounts().state != rounds()) return false;
    }
  }
  return true;
}

bool HotCluster::Run(int64_t ms) {
  for (int64_t ran = 0; ran < ms && !Done(); ran += kStepMs) {
    if (ran % kGrantMs == kGrantMs - kStepMs) GrantAll();  // of who may have died unseen
    loop_.Advance(kStepMs);
  }
  return Done();
}

void HotCluster::KillPs(uint32_t ps) {
  ps_[ps] = nullptr;
  stalled_[ps].clear();
}

void HotCluster::RestartWorker(uint32_t worker) {
  // What it has sent may arrive, but nobody hears the answers.
  workers_[worker]->trainer.reset();
  StartWorker(worker);
  GrantAll();
}

void HotCluster::Stall(uint32_t ps, bool stalls) {
  stalls_[ps] = stalls;
  for (const auto& arrive : std::exchange(stalled_[ps], {})) arrive();
}

std::vector<uint64_t> HotCluster::StatesOf(uint32_t ps) const {
  std::vector<uint64_t> states;
  for (const PartitionSpec& spec : session_.partitions()) {
    if (!reference_.trained(spec.id()) || Held(ps, spec.id()) == nullptr) continue;
    states.push_back(Held(ps, spec.id())->GetCounts().state);
  }
  std::ranges::sort(states);
  return states;
}

std::string HotCluster::ToString() const {
  std::string text;
  for (uint32_t ps = 0; ps < plan_.ps; ++ps) {
    absl::StrAppend(&text, "ps:", ps, " at ", absl::StrJoin(StatesOf(ps), " "), "\n");
  }
  const size_t shown = std::min<size_t>(reports_.size(), 6);
  absl::StrAppend(
      &text, absl::StrJoin(reports_.end() - static_cast<int64_t>(shown), reports_.end(), "\n"));
  return text;
}

std::string HotCluster::Promote() {
  for (const auto& worker : workers_) worker->trainer.reset();
  session_.set_generation(session_.generation() + 1);
  std::vector<PsDescription> described(plan_.ps);
  for (uint32_t ps = 0; ps < plan_.ps; ++ps) {
    if (ps_[ps] == nullptr) continue;
    AdoptRequest adopt;
    adopt.set_boot_id(ps_[ps]->boot_id());
    adopt.set_generation(session_.generation());
    adopt.set_coordinator_boot_id("c");
    adopt.set_protocol(kProtocol);
    described[ps] = Order<PsDescription>(ps, method::kAdopt, adopt);
  }
  const auto serves = [&](uint32_t ps, uint64_t state) {
    return std::ranges::all_of(described[ps].partitions(), [&](const PartitionDescription& one) {
      return !reference_.trained(one.id()) || one.state() == state ||
             (one.state() == state + 1 && one.serves_before());
    });
  };
  std::string missing;
  for (uint64_t state = rounds() + 1; state-- > 0;) {
    Session next = session_;
    missing.clear();
    for (PartitionSpec& spec : *next.mutable_partitions()) {
      std::vector<uint32_t> holders;
      for (uint32_t ps = 0; ps < plan_.ps; ++ps) {
        const bool held = Held(ps, spec.id()) != nullptr;
        if (held && serves(ps, state)) holders.push_back(ps);
      }
      if (holders.empty()) missing = absl::StrCat("partition ", spec.id(), " has no holder");
      if (holders.empty()) break;
      spec.set_ps(holders[0]);
      spec.clear_copies();
      for (const uint32_t ps : std::span(holders).subspan(1)) spec.add_copies(ps);
    }
    if (!missing.empty()) continue;
    session_ = next;
    for (uint32_t ps = 0; ps < plan_.ps; ++ps) {
      if (!InLayout(ps)) session_.mutable_ps(static_cast<int>(ps))->clear_boot_id();
    }
    for (uint32_t worker = 0; worker < plan_.workers; ++worker) StartWorker(worker);
    GrantAll();
    return "";
  }
  return missing;
}

std::string HotCluster::Difference() {
  const SyncReference::State& right = reference_.At(rounds());
  for (const PartitionSpec& spec : session_.partitions()) {
    for (uint32_t ps = 0; ps < plan_.ps; ++ps) {
      const Partition* const held = Held(ps, spec.id());
      if (!IsHolder(ps, spec)) continue;
      const std::string where = absl::StrCat("partition ", spec.id(), " of ps:", ps);
      if (held == nullptr) return absl::StrCat(where, " is not there");
      if (SeenValues(plan_.counting, *held) != right.values[spec.id()]) {
        return absl::StrCat(where, " has other values");
      }
      if (held->GetCounts().updates != right.stored[spec.id()].updates) {
        return absl::StrCat(where, " has ", held->GetCounts().updates, " updates and not ",
                            right.stored[spec.id()].updates);
      }
      if (held->growing()) continue;
      const StoredTensors stored = ImageOf(*held);
      if (stored.slots != right.stored[spec.id()].slots) {
        return absl::StrCat(where, " has other slots");
      }
    }
  }
  return "";
}

}  // namespace paracord
