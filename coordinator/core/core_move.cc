// A running job moves to more or fewer ps (move.h).
#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/human_bytes.h"
#include "common/json_text.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "config/cluster.h"
#include "coordinator/core/core.h"
#include "coordinator/core/holdings.h"
#include "coordinator/core/partitioner.h"
#include "coordinator/core/placement.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr int64_t kHealAgainMs = 30'000;  // pause after a failed attempt at second holders
constexpr int64_t kOtherDirMs = 5'000;    // shared storage may take a moment to show a new file
// A ps may fail to prepare for this share of timeouts.start_s.
constexpr int64_t kPrepareShare = 4;

// Returns the bytes that each ps serves in a layout. `hot`: second holders serve, too.
std::vector<uint64_t> HeldThen(size_t ps_count, const std::vector<uint64_t>& bytes,
                               const Layout& layout, bool hot) {
  std::vector<uint64_t> sums(ps_count);
  for (size_t i = 0; i < bytes.size(); ++i) {
    sums[layout.holders[i]] += bytes[i];
    if (hot && layout.SecondOf(i) != kNobody) sums[layout.SecondOf(i)] += bytes[i];
  }
  return sums;
}

// Keeps the second holder of each partition, if it stays and is not the first holder now. In
// synchronous training the other partitions get a second holder, since all ps load anyway.
void KeepSeconds(const JobView& job, const std::vector<uint64_t>& bytes, Layout& to) {
  const auto count = static_cast<uint32_t>(to.ps.size());
  if (job.record.layout().has_value()) to.seconds = job.record.layout()->seconds;
  for (size_t i = 0; i < to.seconds.size(); ++i) {
    uint32_t& second = to.seconds[i];
    if (second >= count || second == to.holders[i]) second = kNobody;
  }
  if (!job.options.HasHotCopies()) return;
  std::vector<CopyPlace> places;
  for (const std::string& address : to.ps) places.push_back({address});
  to.seconds = PlaceSeconds(bytes, to.holders, std::move(to.seconds), std::move(places));
}

std::string PlanJson(const JobView& job, const Move::Plan& plan) {
  const std::vector<uint64_t> bytes = ResidentBytes(job, BytesNow(job));
  const size_t count = std::max<size_t>(job.ps.size(), plan.to.ps.size());
  std::vector<uint64_t> before(count);
  for (const PartitionSpec& partition : job.ps.layout()) {
    for (size_t i = 0; i < count; ++i) {
      if (IsHeldBy(partition, static_cast<uint32_t>(i))) before[i] += bytes[partition.id()];
    }
  }
  const std::vector<uint64_t> after = HeldThen(count, bytes, plan.to, job.options.HasHotCopies());
  json by_ps = json::array();
  for (size_t i = 0; i < count; ++i) {
    const std::string& address = i < plan.to.ps.size() ? plan.to.ps[i] : job.ps.all()[i].address;
    by_ps.push_back({{"address", address}, {"bytes", before[i]}, {"bytes_after", after[i]}});
  }
  return TextOf(json{{"ps", plan.to.ps.size()},
                     {"same", plan.to.ps.size() == job.ps.size()},
                     {"version", plan.to.version},
                     {"partitions", plan.partitions},
                     {"bytes", plan.bytes},
                     {"by_ps", std::move(by_ps)}});
}

}  // namespace

// Whether the ps that the move needs are there: all that hold partitions, for the closing
// checkpoint (unless copies replace a lost one), and all that are to hold some.
absl::Status CoordinatorCore::CheckThere(const ScaleRequest& request) const {
  if (!options_.HasCopies()) {
    for (uint32_t i = 0; i < ps_.size() && !MayMoveBack(request); ++i) {
      if (ps_.all()[i].state != PsState::kAway) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "ps:", i, " at ", ps_.all()[i].address,
          " is away, and its partitions move when it is back: start it again, or stop the job and "
          "start it with the ps that are there, which go back to the newest checkpoint"));
    }
    return absl::OkStatus();
  }
  if (request.ps() == 1) {
    return absl::InvalidArgumentError(
        "--ps: is 1, and `copies` is 1, which gives each partition two ps: give at least 2");
  }
  if (copies_.writing()) {
    return absl::FailedPreconditionError("partitions of a ps that is lost go on with their copies");
  }
  for (uint32_t i = 0; i < std::min(request.ps(), ps_.size()); ++i) {
    if (ps_.all()[i].state == PsState::kReady) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("ps:", i, " at ", ps_.all()[i].address,
                     " is away, and would hold partitions: start it again"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Move::Plan> CoordinatorCore::PlanMove(const ScaleRequest& request) const {
  if (options_.nodes) {
    return absl::InvalidArgumentError(
        "the workers of this job hold its variables, so that it cannot move while it runs: stop "
        "it, "
        "and start it with another number of workers");
  }
  if (request.ps() == 0) return absl::InvalidArgumentError("--ps: a job needs one at least");
  for (const std::string& address : request.addresses()) {
    RETURN_IF_ERROR(CheckAddress(address, "--ps-address"));
  }
  if (phases_.ended() || end_.planned()) {
    return absl::FailedPreconditionError("the job is ending");
  }
  if (!record_.fixed() || !phases_.formed()) {
    return absl::FailedPreconditionError("the job has not begun to train yet");
  }
  if (move_.under_way() && !MayMoveBack(request)) {
    std::string again = ": ask again when it has ended";
    if (MayCancelMove()) absl::StrAppend(&again, ", or cancel it with --ps ", ps_.size());
    if (move_.Is(Move::Phase::kSettling) && ps_.AnyIs(PsState::kAway)) {
      again = absl::StrCat(", and ", MissingTasks(View()), again, ", or for the ps that are there");
    }
    return absl::FailedPreconditionError(absl::StrCat(move_.Name(), " is under way", again));
  }
  if (const absl::Status status = CheckThere(request); !status.ok()) return status;
  const std::vector<uint64_t> bytes = BytesNow(View());
  if (request.ps() > bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--ps: the job has ", bytes.size(), " partitions, so that ", request.ps(),
        " ps cannot each hold one; partitioner.max_shards says how finely a job is cut"));
  }
  std::vector<std::string> now;
  for (const Ps& ps : ps_.all()) now.push_back(ps.address);
  const std::vector<std::string> told(request.addresses().begin(), request.addresses().end());
  Move::Plan plan;
  ASSIGN_OR_RETURN(plan.to.ps, AddressesFor(request.ps(), now, told, options_.ps_addresses));
  plan.to.version = record_.layout().has_value() ? record_.layout()->version + 1 : 1;
  plan.to.given = options_.ps_addresses;
  const std::vector<uint64_t> resident = ResidentBytes(View(), bytes);
  const std::vector<uint32_t> before = HoldersOf(ps_.layout());
  plan.to.holders = Rebalance(request.ps(), bytes, before);
  KeepSeconds(View(), bytes, plan.to);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (before[i] == plan.to.holders[i]) continue;
    ++plan.partitions;
    plan.bytes += resident[i];
  }
  if (const std::optional<std::string> problem = NoRoom(plan)) {
    return absl::FailedPreconditionError(*problem);
  }
  return plan;
}

// Names a ps whose --memory-limit is too small for its partitions after the move. A ps that has not
// been described yet is skipped.
std::optional<std::string> CoordinatorCore::NoRoom(const Move::Plan& plan) const {
  const std::vector<MemoryNeed> needs = NeedsOf(View(), plan.to);
  for (uint32_t i = 0; i < needs.size(); ++i) {
    const bool ours = i < ps_.size();
    if (!ours && i - ps_.size() >= ps_.invited().size()) continue;  // not described yet
    const uint64_t needed = needs[i].LeastLimit();
    const uint64_t limit = MemoryLimitOf(ps_.At(i));
    if (needed <= limit || !plan.to.Holds(i)) continue;
    return absl::StrCat("ps:", i, " at ", plan.to.ps[i], " would hold ",
                        HumanBytes(needs[i].variables), " of variables and slots, and needs a ",
                        "--memory-limit of at least ", HumanBytes(needed), "; it has ",
                        HumanBytes(limit), ": give it more memory, or take more ps");
  }
  return std::nullopt;
}

// Whether a durable layout that was not loaded, because ps are away, may be replaced at once by one
// without these ps: nothing was trained since the closing checkpoint.
bool CoordinatorCore::MayMoveBack(const ScaleRequest& request) const {
  if (!move_.Is(Move::Phase::kSettling) || !ps_.AnyIs(PsState::kAway)) return false;
  if (request.ps() > ps_.size()) return false;
  return std::ranges::none_of(std::span(ps_.all()).first(request.ps()),
                              [](const Ps& ps) { return ps.state == PsState::kAway; });
}

// Whether the move was requested by a person and has not reached its layout yet.
bool CoordinatorCore::MayCancelMove() const {
  return move_.under_way() && !move_.heals() && !move_.Is(Move::Phase::kWriting) &&
         !move_.Is(Move::Phase::kSettling);
}

// Answers a request for the number of ps that the job already has, which cancels the move under
// way.
void CoordinatorCore::CancelMove(const ScaleEvent& event) {
  nlohmann::json plan = JsonOf(PlanJson(View(), Move::Plan{.to = LayoutNow()}));
  plan["cancels"] = move_.Name();
  ScaleReply reply;
  reply.set_json(TextOf(plan));
  effects_.Emit(AnswerScale{event.call, std::move(reply)});
  if (event.request.dry_run()) return;
  PROBE("coordinator.move.cancelled");
  const bool held = move_.holds_training();
  GiveUpMove(absl::StrCat("cancelled by `paracord scale --ps ", ps_.size(), "`"));
  if (rounds_.Collecting()) FailRound("it was to end the move");
  if (held && !generation_.claiming()) ReadLedgers();
}

void CoordinatorCore::Handle(const ScaleEvent& event) {
  if (MayCancelMove() && event.request.ps() == ps_.size()) return CancelMove(event);
  absl::StatusOr<Move::Plan> plan = PlanMove(event.request);
  if (!plan.ok()) return effects_.Emit(AnswerScale{event.call, plan.status()});
  ScaleReply reply;
  reply.set_json(PlanJson(View(), *plan));
  effects_.Emit(AnswerScale{event.call, std::move(reply)});
  const size_t count = plan->to.ps.size();
  if (event.request.dry_run() || (count == ps_.size() && plan->partitions == 0)) return;
  effects_.Info(absl::StrCat("the job is to move from ", ps_.size(), " to ", count, " ps: ",
                             plan->partitions, " partitions of ", HumanBytes(plan->bytes)));
  if (move_.Is(Move::Phase::kSettling)) return MoveBack(*std::move(plan));
  std::vector<std::string> fresh = plan->to.ps;
  fresh.erase(fresh.begin(),
              fresh.begin() + static_cast<int64_t>(std::min<size_t>(ps_.size(), count)));
  ps_.Invite(fresh);
  move_.Begin(*std::move(plan), now_ms_);
}

// Writes a new layout at once; its partitions are loaded from the closing checkpoint of the
// previous move.
void CoordinatorCore::MoveBack(Move::Plan plan) {
  PROBE("coordinator.move.back");
  Layout to = plan.to;
  move_.BeginClosed(std::move(plan), record_.layout(), now_ms_);
  record_.SetLayout(std::move(to));
  SaveJobState();
}

// Has the invited ps show that they see our DIR. nullopt: all are in. Otherwise why one is not in,
// and whether it never will be.
std::optional<CoordinatorCore::NotIn> CoordinatorCore::DriveInvited() {
  if (!generation_.claiming()) {
    const Manifest* const usable = checkpoints_.Usable();
    for (const uint32_t index : ps_.InvitedToLoad(now_ms_)) {
      ps_.Load(index, PrepareOrder(usable == nullptr ? "" : usable->name.ToString()));
    }
  }
  std::optional<NotIn> not_in;
  for (uint32_t i = 0; i < ps_.invited().size(); ++i) {
    const Ps& ps = ps_.invited()[i];
    if (ps_.IsIn(ps)) continue;
    const bool other_dir =
        ps.unread_since_ms.has_value() && now_ms_ - *ps.unread_since_ms >= kOtherDirMs;
    NotIn one{absl::StrCat("ps:", ps_.size() + i, " at ", ps.address, ": ",
                           ps.problem.empty() ? "no answer yet" : ps.problem),
              ps.state == PsState::kAway, other_dir || !ps.no_room.empty()};
    if (!not_in.has_value() || one.for_ever) not_in = std::move(one);
    if (not_in->for_ever) return not_in;
  }
  return not_in;
}

// Drives the move as far as possible while training goes on, then stops training.
void CoordinatorCore::DriveMove() {
  const bool before = move_.under_way() && !move_.Is(Move::Phase::kSettling);
  if (before && end_.planned() && !move_.Is(Move::Phase::kWriting)) {
    const bool stopping = move_.Is(Move::Phase::kStopping);
    GiveUpMove("the job is ending");
    // The round's cut is where the present leases end, and the job may not get there.
    if (stopping && rounds_.Collecting()) RepeatRound("the job is ending", 0);
    return;
  }
  if (!before || move_.Is(Move::Phase::kWriting)) return;
  if (move_.Is(Move::Phase::kChecking)) return WriteLayoutOnceAllAnswer();
  const std::optional<NotIn> not_in = DriveInvited();
  if (move_.holds_training()) {
    const SplitTable* const table = training_.table();
    const bool trains = table != nullptr && !table->leases().empty();
    // Training goes on to the cut, so it has not stopped yet.
    if (move_.Is(Move::Phase::kStopping) && trains) move_.Stop(now_ms_);
    if (!not_in.has_value() || !not_in->lost) return;
    return rounds_.Collecting() ? FailRound(not_in->why) : MoveAgain(not_in->why);
  }
  move_.WaitFor(not_in.has_value() ? not_in->why : "");
  std::optional<std::string> problem = NoRoom(move_.plan());
  if (!problem.has_value() && not_in.has_value()) {
    const int64_t start_s = job_.timeouts.start_s;
    const bool late = now_ms_ - move_.since_ms() > start_s * 1000;
    if (!late && !not_in->for_ever) return;
    problem = not_in->why;
    if (!not_in->for_ever) {
      absl::StrAppend(&*problem, "; it did not come in within timeouts.start_s = ", start_s, " s");
    }
  }
  if (problem.has_value()) return GiveUpMove(*problem);
  const bool trains = phases_.training() || phases_.now() == Phase::kEvaluating;
  const bool settled = !generation_.claiming() && generation_.wanted().empty();
  if (!trains || !settled || !ps_.AllAre(PsState::kReady) || ps_.AnyDrains()) return;
  for (uint32_t i = 0; i < move_.plan().to.ps.size(); ++i) {
    const Ps& ps = ps_.At(i);
    if (i < ps_.size() && ps.state != PsState::kReady) {
      if (!move_.heals() || move_.plan().to.Holds(i)) return;  // a guest
      continue;
    }
    if (!ps.no_room.empty()) return GiveUpMove(absl::StrCat("ps:", i, ": ", ps.no_room));
    const int64_t patience_ms = job_.timeouts.start_s * 1000 / kPrepareShare;
    if (ps.unread_since_ms.has_value() && now_ms_ - *ps.unread_since_ms >= patience_ms) {
      return GiveUpMove(absl::StrCat("ps:", i, " cannot prepare its partitions: ", ps.problem));
    }
  }
  if (job_.guarantees.sync() || !HasTables() || PrepareMove()) StopForMove();
}

bool CoordinatorCore::HasTables() const {
  return std::ranges::any_of(record_.variables(),
                             [](const VariableSpec& variable) { return variable.has_table(); });
}

LoadRequest CoordinatorCore::PrepareOrder(const std::string& checkpoint) const {
  LoadRequest prepare;
  prepare.set_checkpoint(checkpoint);
  prepare.set_job_json(record_.job_json());
  *prepare.mutable_plan() = record_.plan();
  for (const VariableSpec& variable : record_.variables()) *prepare.add_variables() = variable;
  return prepare;
}

// Has the ps that get partitions read them from successive checkpoints, each an increment with only
// the rows changed since the previous one. True if training may stop.
bool CoordinatorCore::PrepareMove() {
  if (!move_.Is(Move::Phase::kPreparing)) move_.Prepare("", now_ms_);
  const std::string& preparing = move_.preparing();
  const std::vector<PartitionSpec>& now = ps_.layout();
  const std::vector<uint32_t>& then = move_.plan().to.holders;
  bool any = false, all = true;
  for (uint32_t i = 0; i < move_.plan().to.ps.size(); ++i) {
    std::vector<uint32_t> ids;
    for (uint32_t p = 0; p < then.size(); ++p) {
      if (then[p] == i && now[p].ps() != i) ids.push_back(p);
    }
    if (ids.empty()) continue;
    any = true;
    const Ps& ps = ps_.At(i);
    if (ps.prepare_tag != 0) return false;
    if (!preparing.empty() && ps_.HasPrepared(i, preparing, ids)) continue;
    all = false;
    if (!checkpoints_.Has(preparing) || now_ms_ < ps.prepare_at_ms) continue;
    LoadRequest prepare = PrepareOrder(preparing);
    for (const uint32_t p : ids) *prepare.add_partitions() = now[p];
    ps_.Prepare(i, std::move(prepare));
  }
  if (!any || (all && !preparing.empty() && move_.Prepared(now_ms_))) return true;
  const Manifest* const usable = checkpoints_.Usable();
  const std::string newest = usable == nullptr ? "" : usable->name.ToString();
  // The checkpoint that is being prepared may have been removed.
  const bool next = all || !checkpoints_.Has(preparing);
  if (next && (newest.empty() || newest == preparing)) {
    if (!move_.wants_checkpoint()) rounds_.MayBegin(now_ms_);
    move_.WantCheckpoint(now_ms_);
  } else if (next) {
    move_.Prepare(newest, now_ms_);
  }
  return false;
}

// Synchronous training reaches a common state by itself, as at the end of a job. In asynchronous
// training a generation without workers fences every push in flight, so that the closing checkpoint
// has everything that was ever entered.
void CoordinatorCore::StopForMove() {
  PROBE("coordinator.move.stop");
  rounds_.MayBegin(now_ms_);
  if (job_.guarantees.sync()) return move_.Stop(now_ms_);
  ClaimForMove();
  move_.Close(now_ms_);
}

// Claims a generation for the move; a failed claim is repeated until it succeeds.
void CoordinatorCore::ClaimForMove() {
  const std::string why = move_.Why();
  generation_.Want(why);
  ClaimNextGeneration(why);
}

// Names a ps that is to hold partitions after the move and is away; nullopt: there is none.
std::optional<std::string> CoordinatorCore::Absent() const {
  for (uint32_t i = 0; i < move_.plan().to.ps.size(); ++i) {
    const Ps& ps = ps_.At(i);
    const bool there = i < ps_.size() ? ps.state == PsState::kReady : ps_.IsIn(ps);
    if (there || !move_.plan().to.Holds(i)) continue;
    return absl::StrCat("ps:", i, " at ", ps.address,
                        " is lost: ", ps.problem.empty() ? "it was started again" : ps.problem);
  }
  return std::nullopt;
}

// Whether `checkpoint`, written for the move, is still its closing checkpoint: no generation has
// followed, and no ps wants to leave.
bool CoordinatorCore::IsClosing(const CheckpointName& checkpoint) const {
  const bool settled = !generation_.claiming() && generation_.wanted().empty();
  return settled && checkpoint.generation == generation_.claimed() && !end_.planned() &&
         !ps_.AnyDrains();
}

// A checkpoint was just committed. If it is the closing checkpoint, asks the ps of the new layout
// for a sign of life: the last ones may be a second old.
void CoordinatorCore::TakeClosingCheckpoint(const CheckpointRound& round) {
  const bool closes =
      move_.Is(Move::Phase::kClosing) || (move_.Is(Move::Phase::kStopping) && round.at_end);
  if (!closes || !IsClosing(round.manifest->name)) return;
  move_.Check();
  ps_.AskAll(now_ms_);
}

void CoordinatorCore::WriteLayoutOnceAllAnswer() {
  std::optional<std::string> why_not = Absent();
  if (why_not.has_value()) {
    PROBE("coordinator.move.absent");
  } else if (!IsClosing(checkpoints_.newest_name())) {
    why_not = "a ps left, or was lost, after the closing checkpoint";
  }
  if (why_not.has_value()) {
    MoveAgain(*why_not);
    return SaveJobState();  // with the new checkpoint
  }
  for (uint32_t i = 0; i < move_.plan().to.ps.size(); ++i) {
    if (move_.plan().to.Holds(i) && !ps_.AnsweredAskAll(i)) return;
  }
  move_.Write(record_.layout());
  record_.SetLayout(move_.plan().to);
  SaveJobState();
}

// The write of job.state has ended: if it succeeded, the job has moved to the new layout.
void CoordinatorCore::LayoutWritten(const absl::Status& status) {
  if (!status.ok()) {
    record_.SetLayout(move_.before());
    return MoveAgain(absl::StrCat("job.state is not written: ", std::string(status.message())));
  }
  if (end_.planned() || phases_.ended()) {
    return GiveUpMove("the job is ending, and its next start is in the new layout");
  }
  PROBE("coordinator.move.written");
  const std::vector<std::string>& to = move_.plan().to.ps;
  for (auto i = static_cast<uint32_t>(to.size()); i < ps_.size(); ++i) {
    ps_.Finish(i, ExitCode::kDrained, "the job goes on without this ps");
  }
  ps_.SetPs(to, now_ms_);
  PlaceLayout();
  // If partitions only get second holders, first holders keep their partitions.
  if (job_.guarantees.sync() && !move_.heals()) rollback_.Want(move_.Why());
  move_.Settle();
  ClaimForMove();
}

void CoordinatorCore::GiveUpMove(const std::string& why) {
  effects_.Warn(absl::StrCat(move_.Name(), " is given up: ", why));
  if (move_.heals()) copies_.HealAfter(now_ms_ + kHealAgainMs);
  move_.GiveUp(why);
  ps_.SendAway();
}

// A try of the move failed before its layout was durable: training goes on, and the move is tried
// again if tries are left.
void CoordinatorCore::MoveAgain(const std::string& why) {
  PROBE("coordinator.move.again");
  if (move_.Again(why, now_ms_)) {
    effects_.Warn(absl::StrCat(move_.Name(), " is tried again: ", why));
  } else {
    GiveUpMove(why);
  }
  if (!generation_.claiming()) ReadLedgers();
}

}  // namespace paracord
