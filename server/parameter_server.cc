#include "server/parameter_server.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "net/rpc_proto.h"
#include "proto/protocol.h"
#include "server/parameter_server_impl.h"
#include "storage/checkpoint.h"
#include "storage/claim.h"

namespace paracord {
namespace {

absl::Status Aborted(const std::string& what, const std::string& theirs, const std::string& ours) {
  return absl::AbortedError(
      absl::StrCat(what, " is \"", ours, "\" here, the request is for \"", theirs, "\""));
}

absl::Status CheckProtocol(uint32_t protocol) {
  if (protocol == kProtocol) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("protocol ", kProtocol, " is spoken here, the request has ", protocol));
}

// A ps accepts a generation more than this far above its own only if DIR has the claim. Otherwise
// any client could use up all generations.
constexpr uint64_t kLeapMax = 1000;

std::shared_ptr<MemoryBudget> MemoryOf(const PsOptions& options) {
  if (options.memory != nullptr) return options.memory;
  MemoryBudget::Caps caps;
  caps.replies = options.pinned_bytes_max;
  caps.staged = options.staged_bytes_max;
  return std::make_shared<MemoryBudget>(MemoryBudget::kUnlimited, caps);
}

// Parses the request and hands it on, or replies with the error of parsing.
template <class Request, class Then>
void WithRequest(const absl::Cord& bytes, const CallPtr& call, Then then) {
  if (std::unique_ptr<Request> request = ParseRequest<Request>(bytes, *call)) {
    then(*std::move(request));
  }
}

}  // namespace

ParameterServer::ParameterServer(PsOptions options, Environment environment,
                                 std::function<void(int, std::string)> exit)
    : impl_(std::make_shared<Impl>(std::move(options), environment, std::move(exit))) {
  impl_->Start();
}

ParameterServer::~ParameterServer() { impl_->Close(); }

void ParameterServer::Handle(std::string_view method, absl::Cord request, CallPtr call) {
  impl_->Handle(method, std::move(request), std::move(call));
}

void ParameterServer::Drain() { impl_->Drain(); }

void ParameterServer::LeaveUnlessPlaced(int code, const std::string& reason) {
  impl_->LeaveUnlessPlaced(code, reason);
}

HealthState ParameterServer::Health() const { return impl_->Health(); }

void ParameterServer::AddMetrics(MetricSet& metrics) const { impl_->AddMetrics(metrics); }

std::shared_ptr<const PartitionSet> ParameterServer::content() const { return impl_->content(); }

uint64_t ParameterServer::generation() const { return impl_->generation(); }

const std::string& ParameterServer::boot_id() const { return impl_->boot_id(); }

ParameterServer::Impl::Impl(PsOptions options, Environment environment,
                            std::function<void(int, std::string)> exit)
    : options_(std::move(options)),
      environment_(environment),
      exit_(std::move(exit)),
      log_(absl::StrCat("ps:", options_.index)),
      boot_id_(environment.random.NextId()),
      memory_(MemoryOf(options_)),
      pinned_(std::make_shared<PinnedBytes>(memory_->replies())),
      staged_(memory_->staged()),
      waiting_(std::make_shared<WaitingPulls>(environment_.loop, memory_->requests())) {}

void ParameterServer::Impl::Close() {
  pinned_->Watch(nullptr);  // replies may outlive the loop
  staged_.Clear();
  Answers answers;
  std::deque<ParkedExchange> parked;  // destroyed after the lock is released
  {
    MutexLock lock(mu_);
    closed_ = true;
    parked_->Close(Leaving());
    parked = VoidAll(Leaving(), answers);
  }
  waiting_->Close(Leaving());
  AnswerAdoptions();
  Give(answers);
}

void ParameterServer::Impl::Handle(std::string_view method, absl::Cord request, CallPtr call) {
  if (method == method::kExchange) return Exchange(request, call);
  if (method == method::kStage) return Stage(request, call);
  if (method == method::kDescribe) {
    WithRequest<DescribeRequest>(request, call, [&](auto r) { Describe(r, call); });
  } else if (method == method::kAdopt) {
    WithRequest<AdoptRequest>(request, call, [&](auto r) { Adopt(r, call); });
  } else if (method == method::kLoad) {
    WithRequest<LoadRequest>(request, call, [&](auto r) { Load(std::move(r), call); });
  } else if (method == method::kSnapshot) {
    WithRequest<SnapshotRequest>(request, call, [&](auto r) { Snapshot(r, call); });
  } else if (method == method::kPsHold) {
    WithRequest<PsHoldRequest>(request, call, [&](auto r) { Hold(r, call); });
  } else if (method == method::kFinish) {
    WithRequest<FinishRequest>(request, call, [&](auto r) { Finish(r, call); });
  } else {
    call->Reply(absl::UnimplementedError(absl::StrCat("no method ", std::string(method))));
  }
}

absl::Status ParameterServer::Impl::Leaving() {
  return absl::UnavailableError("the ps is leaving");
}

// ---- fences

absl::Status ParameterServer::Impl::CheckFence(const Fence& fence, bool held) const {
  RETURN_IF_ERROR(CheckProtocol(fence.protocol()));
  if (fence.boot_id() != boot_id_) return Aborted("boot id", fence.boot_id(), boot_id_);
  if (fence.generation() != generation_ || generation_ == 0) {
    PROBE("ps.generation.stale");
    return Aborted("generation", absl::StrCat(fence.generation()),
                   absl::StrCat(generation_.load()));
  }
  if (held && content_ != nullptr && fence.run_id() != content_->run_id) {
    return Aborted("run", fence.run_id(), content_->run_id);
  }
  return absl::OkStatus();
}

absl::Status ParameterServer::Impl::CheckOrder(const Fence& fence, const std::string& coordinator,
                                               bool held) {
  RETURN_IF_ERROR(CheckFence(fence, held));
  if (coordinator != coordinator_) return Aborted("coordinator", coordinator, coordinator_);
  HeardFromCoordinator();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const PartitionSet>> ParameterServer::Impl::CheckContent(
    const Fence& fence) const {
  RETURN_IF_ERROR(CheckFence(fence, /*held=*/true));
  if (content_ != nullptr) return content_;
  if (orders_.loading()) return absl::UnavailableError("the ps is loading its partitions");
  return absl::FailedPreconditionError("the ps holds nothing");
}

std::deque<ParkedExchange> ParameterServer::Impl::VoidAll(const absl::Status& why,
                                                          Answers& answers) {
  orders_.VoidAll(why, answers);
  for (auto& [id, hold] : holds_.calls) answers.calls.emplace_back(std::move(hold), why);
  holds_.calls.clear();
  std::deque<ParkedExchange> parked = parked_->TakeAll();
  for (const ParkedExchange& exchange : parked) answers.calls.emplace_back(exchange.call, why);
  figures_.failed += parked.size();
  return parked;
}

// ---- calls

void ParameterServer::Impl::Exchange(const absl::Cord& request, const CallPtr& call) {
  figures_.received_bytes += request.size();
  if (pinned_->OverLimit()) return parked_->Park(request, call, 0);
  if (const uint64_t needed = Answer(request, call)) parked_->Park(request, call, needed);
}

// `counts`: counts a refused push among the pushes refused whole.
void ParameterServer::Impl::Refuse(const CallPtr& call, absl::Status why, bool counts) {
  if (counts) ++figures_.updates.refused;
  ++figures_.failed;
  call->Reply(std::move(why));
}

uint64_t ParameterServer::Impl::Answer(const absl::Cord& request, const CallPtr& call) {
  const double begun = FigureSeconds();
  absl::StatusOr<DecodedRequest> decoded = DecodeExchangeRequest(request);
  if (!decoded.ok()) {
    Refuse(call, decoded.status(), true);
    return 0;
  }
  absl::StatusOr<std::shared_ptr<const PartitionSet>> content;
  absl::Status may;
  {
    MutexLock lock(mu_);
    content = CheckContent(decoded->header.fence());
    may = CheckProofs(decoded->header);
  }
  if (!content.ok()) {
    Refuse(call, content.status(), false);
    return 0;
  }
  const uint64_t rows = RowBytes(**content, decoded->header);
  if (may.ok()) may = CheckRows(rows);
  if (!may.ok()) {
    Refuse(call, std::move(may), true);
    return 0;
  }
  if (rows > 0 && !pinned_->Reserve(rows)) return rows;
  PinnedReservation reserved(rows, pinned_);
  if (decoded->header.has_staged()) {
    absl::StatusOr<std::vector<PieceView>> staged = staged_.Take(decoded->header);
    if (!staged.ok()) {
      Refuse(call, staged.status(), false);
      return 0;
    }
    std::ranges::move(*staged, std::back_inserter(decoded->pieces));
  }
  if (absl::Status fits = CheckIds(*decoded, request.size()); !fits.ok()) {
    Refuse(call, std::move(fits), true);
    return 0;
  }
  Carry({begun, call}, *std::move(content), *std::move(decoded), std::move(reserved));
  return 0;
}

// Has the store carry out an exchange that was let in.
void ParameterServer::Impl::Carry(Caller caller, std::shared_ptr<const PartitionSet> content,
                                  DecodedRequest request, PinnedReservation reserved) {
  const PushFence fence(generation_, request.header.fence().generation());
  const Store store(*content, figures_.updates, *waiting_);
  std::shared_ptr<double> waits_since;  // 0 until the pull waits
  WaitingPulls::WaitsFn waits;
  if (request.header.has_state()) {
    waits_since = std::make_shared<double>(0);
    waits = [waits_since, call = caller.call] {
      *waits_since = FigureSeconds();
      call->ReleaseRequest();
    };
  }
  const WaitingPulls::Ticket ticket = store.Exchange(
      std::move(request), fence,
      [weak = weak_from_this(), waits_since, caller, held = content](absl::StatusOr<Parts> reply) {
        const double since = waits_since == nullptr ? 0 : *waits_since;
        if (const auto self = weak.lock()) self->Count(caller.begun, since, reply);
        caller.call->Reply(std::move(reply));
      },
      std::move(reserved), waits);
  if (adoptions_.any) AnswerAdoptions();
  if (ticket.waits()) caller.call->OnCancel(Enter([this, ticket] { waiting_->Drop(ticket); }));
  FAILPOINT("ps.push.replied");
}

// `waits_since`: when the exchange's pull began to wait for other workers; 0: never.
void ParameterServer::Impl::Count(double begun, double waits_since,
                                  const absl::StatusOr<Parts>& reply) {
  const double now = FigureSeconds();
  figures_.seconds.Observe((waits_since > 0 ? waits_since : now) - begun);
  if (waits_since > 0) figures_.waited_seconds.Observe(now - waits_since);
  if (!reply.ok()) return static_cast<void>(++figures_.failed);
  for (const absl::Cord& part : *reply) figures_.sent_bytes += part.size();
}

void ParameterServer::Impl::Stage(const absl::Cord& request, const CallPtr& call) {
  absl::StatusOr<DecodedRequest> decoded = DecodeExchangeRequest(request);
  if (!decoded.ok()) return call->Reply(decoded.status());
  absl::Status fits;
  {
    MutexLock lock(mu_);
    fits = CheckContent(decoded->header.fence()).status();
  }
  if (fits.ok()) {
    fits = staged_.Keep(*std::move(decoded), request.size(), environment_.loop.NowMs());
  }
  if (!fits.ok()) return call->Reply(fits);
  call->Reply(ToParts(StageReply()));
  if (!forgets_.exchange(true)) {
    environment_.loop.Post(Enter([this] { ForgetStaged(); }));
  }
}

// Looks again while gradients are staged.
void ParameterServer::Impl::ForgetStaged() {
  forgets_ = false;
  if (!staged_.Forget(environment_.loop.NowMs()) || forgets_.exchange(true)) return;
  environment_.loop.PostAfter(StagedPushes::kForgottenMs / 2, Enter([this] { ForgetStaged(); }));
}

PsDescription ParameterServer::Impl::Description(bool intervals) {
  PsDescription description;
  std::shared_ptr<const PartitionSet> content;
  {
    MutexLock lock(mu_);
    content = content_;
    description.set_boot_id(boot_id_);
    description.set_generation(generation_);
    description.set_coordinator_boot_id(coordinator_);
    description.set_draining(draining_);
    description.set_waiting_exchanges(parked_->size());
    description.set_waiting_pulls(waiting_->size());
    if (content != nullptr) description.set_settings(settings_);
    description.set_prepared(orders_.preparing().prepared);
  }
  description.set_pinned_bytes(pinned_->bytes());
  if (content != nullptr) CountTables(*content, *memory_);
  for (const MemoryUse& use : memory_->Uses()) {
    MemoryHeld& held = *description.add_memory();
    held.set_holder(use.holder);
    held.set_bytes(use.bytes);
    held.set_bytes_max(use.bytes_max);
  }
  if (memory_->limited()) description.set_memory_limit(memory_->process_limit());
  description.set_duplicates(figures_.updates.duplicates);
  description.set_refused(figures_.updates.refused);
  if (options_.refused_peer != nullptr) description.set_refused_peer(options_.refused_peer());
  description.set_protocol(kProtocol);
  description.set_ps(options_.index);
  if (content == nullptr) return description;
  description.set_run_id(content->run_id);
  description.set_loaded_generation(content->loaded_generation);
  description.set_bytes(ResidentBytes(*content));
  for (const auto& partition : content->partitions) {
    *description.add_partitions() =
        DescribePartition(partition->facts(), partition->GetCounts(), intervals);
  }
  return description;
}

void ParameterServer::Impl::Describe(const DescribeRequest& request, const CallPtr& call) {
  if (request.has_run_id()) {
    MutexLock lock(mu_);
    if (content_ == nullptr || content_->run_id == request.run_id()) HeardFromCoordinator();
  }
  call->Reply(ToParts(Description(request.ledgers())));
}

void ParameterServer::Impl::Adopt(const AdoptRequest& request, const CallPtr& call) {
  if (request.generation() < kGenerationMax && request.generation() > generation_ + kLeapMax) {
    return AdoptIfClaimed(request, call);
  }
  AdoptNow(request, call);
}

void ParameterServer::Impl::AdoptIfClaimed(const AdoptRequest& request, const CallPtr& call) {
  const auto claimed = std::make_shared<absl::Status>();
  environment_.executor.Run(
      [claimed, &files = environment_.files,
       path = absl::StrCat(options_.dir, "/", kGenerationPrefix, request.generation())] {
        *claimed = files.Open(path).status();
      },
      [claimed, request, call, weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self == nullptr) return call->Reply(Leaving());
        if (claimed->ok()) return self->AdoptNow(request, call);
        PROBE("ps.adopt.unclaimed");
        call->Reply(absl::FailedPreconditionError(absl::StrCat(
            "generation ", request.generation(), " is far above ", self->generation_.load(),
            ", and its claim cannot be read here: ", claimed->message(),
            "; --dir has to be the coordinator's")));
      });
}

void ParameterServer::Impl::AdoptNow(const AdoptRequest& request, const CallPtr& call) {
  Answers answers;
  std::deque<ParkedExchange> parked;  // destroyed after the lock is released
  absl::Status why;                   // error for orders that the adoption voids
  const auto adopt = [&]() -> absl::Status {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(CheckProtocol(request.protocol()));
    if (request.boot_id() != boot_id_) return Aborted("boot id", request.boot_id(), boot_id_);
    if (request.generation() == 0 || request.coordinator_boot_id().empty()) {
      return absl::InvalidArgumentError("adoption needs a generation and a coordinator");
    }
    if (request.generation() >= kGenerationMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("generation ", request.generation(), " is too large"));
    }
    if (request.generation() == generation_ && request.coordinator_boot_id() == coordinator_) {
      HeardFromCoordinator();
      return absl::OkStatus();
    }
    if (request.generation() <= generation_) {
      PROBE("ps.adopt.refused");
      return absl::AbortedError(absl::StrCat(
          "generation ", generation_.load(), " of coordinator ", coordinator_,
          " is obeyed here, not ", request.generation(), " of ", request.coordinator_boot_id()));
    }
    HeardFromCoordinator();
    if (coordinator_ != request.coordinator_boot_id()) orders_.ForgetDamage();
    generation_ = request.generation();
    coordinator_ = request.coordinator_boot_id();
    proof_key_ = request.proof_key();
    orders_.ForgetWritten();
    ended_.reset();
    staged_.Clear();
    why = absl::AbortedError(absl::StrCat("generation ", generation_.load(), " of coordinator ",
                                          coordinator_, " took over"));
    parked = VoidAll(why, answers);
    log_.Info("adopted by coordinator {} in generation {}", coordinator_, generation_.load());
    return absl::OkStatus();
  };
  const absl::Status adopted = adopt();
  // Pulls of the new generation go on: another call may have announced the generation before.
  if (!why.ok()) waiting_->EndOvertaken(why);
  Give(answers);
  if (!adopted.ok()) return call->Reply(adopted);
  {
    MutexLock lock(mu_);
    adoptions_.calls.push_back(call);
  }
  adoptions_.any = true;
  AnswerAdoptions();
}

// A push of the previous generation must not apply a batch after the ledgers in the answer were
// read. In synchronous training with a single ps, a push applied by only some partitions would roll
// back all partitions to a checkpoint. So the answer waits for pushes in flight, and the last push
// calls this function; later pushes are rejected by their generation.
void ParameterServer::Impl::AnswerAdoptions() {
  std::vector<CallPtr> calls;
  {
    MutexLock lock(mu_);
    if (!closed_ && content_ != nullptr && content_->pushes > 0) return;
    calls.swap(adoptions_.calls);
    adoptions_.any = false;
  }
  for (const CallPtr& call : calls) call->Reply(ToParts(Description(/*intervals=*/true)));
}

void ParameterServer::Impl::Hold(const PsHoldRequest& request, const CallPtr& call) {
  absl::Status refused;
  bool draining = false;
  uint64_t id = 0;
  {
    MutexLock lock(mu_);
    refused = CheckOrder(request.fence(), request.coordinator_boot_id(), /*held=*/true);
    if (refused.ok() && (closed_ || holds_.calls.size() >= kWaitingMax)) refused = TooManyWait();
    // The coordinator is told once; its next hold ends when the ps leaves.
    draining = checkpoint_asked_.has_value() && checkpoint_asked_ != coordinator_;
    if (refused.ok() && draining) checkpoint_asked_ = coordinator_;
    if (refused.ok() && !draining) holds_.calls[id = ++holds_.last] = call;
  }
  if (!refused.ok()) return call->Reply(refused);
  if (draining) {
    PsHoldReply reply;
    reply.set_draining(true);
    return call->Reply(ToParts(reply));
  }
  // Without the lock, because OnCancel may call at once. A cancelled hold means that the
  // coordinator is gone, and its time to come back begins. Captures a number, because a reference
  // would keep the call for ever.
  call->OnCancel(Enter([this, id] {
    CallPtr dropped;
    {
      MutexLock lock(mu_);
      const auto it = holds_.calls.find(id);
      if (it == holds_.calls.end()) return;
      dropped = std::move(it->second);
      holds_.calls.erase(it);
    }
    environment_.loop.Post(Enter([this] { AwaitCoordinator(); }));
  }));
}

void ParameterServer::Impl::Finish(const FinishRequest& request, const CallPtr& call) {
  absl::Status refused;
  {
    MutexLock lock(mu_);
    refused = CheckOrder(request.fence(), request.coordinator_boot_id(), /*held=*/true);
  }
  if (!refused.ok()) return call->Reply(refused);
  call->Reply(ToParts(FinishReply()));
  End(request.exit_code(), request.reason());
}

}  // namespace paracord
