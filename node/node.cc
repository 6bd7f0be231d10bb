#include "node/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exit_code.h"

namespace paracord {
namespace {

constexpr char kPsService[] = "paracord.ParameterServer";
constexpr char kCoordinatorService[] = "paracord.Coordinator";

// How long the other roles may take to leave by themselves, as they do at the end of a job that has
// failed, before they are told to.
constexpr int64_t kByThemselvesMs = 3000;

constexpr int kRestartMayHelp = 128;  // exit codes from here on (common/exit_code.h)

Environment WithExecutor(const Environment& of, Network& network, Executor& executor) {
  return {of.loop, network, of.files, executor, of.random};
}

}  // namespace

Node::Node(NodeOptions options, OpenWorkloadFn open, const Environment& environment,
           const NodeExecutors& executors,
           std::function<void(int exit_code, std::string reason)> exit)
    : exit_(std::move(exit)),
      loop_(environment.loop),
      log_(options.worker.task),
      stays_(options.worker.stay),
      network_(std::move(options.address), services_, environment.loop,
               {executors.calls, executors.exchanges}, environment.network),
      start_in_(WithExecutor(environment, environment.network, executors.coordinator)) {
  options.ps.exchanges = &executors.exchanges;
  ps_ = std::make_unique<ParameterServer>(
      std::move(options.ps), WithExecutor(environment, network_, executors.ps), LeaveAs(Role::kPs));
  network_.SetBootId(ps_->boot_id());
  services_->Add(kPsService, *ps_);
  worker_ = std::make_unique<Worker>(std::move(options.worker), std::move(open),
                                     WithExecutor(environment, network_, executors.worker),
                                     LeaveAs(Role::kWorker));
  if (!options.coordinator.has_value()) return;
  coordinator_ = std::make_unique<Coordinator>(
      *std::move(options.coordinator), WithExecutor(environment, network_, executors.coordinator),
      LeaveAs(Role::kCoordinator));
  services_->Add(kCoordinatorService, *coordinator_);
}

Node::~Node() {
  services_->Remove(kCoordinatorService);
  services_->Remove(kPsService);
}

void Node::Start(const std::string& address) {
  if (coordinator_ != nullptr) {
    start_ = std::make_unique<CoordinatorStart>(*coordinator_, start_in_, address,
                                                LeaveAs(Role::kCoordinator));
    start_->Begin();
  }
  worker_->Start();
}

void Node::CallThrough(Role role, Service& before) {
  services_->Add(role == Role::kPs ? kPsService : kCoordinatorService, before);
}

// Posted, because what follows may end the role that calls.
std::function<void(int, std::string)> Node::LeaveAs(Role role) {
  return gate_.EnterOn(
      loop_, [this, role](int code, const std::string& reason) { Left(role, code, reason); });
}

void Node::Left(Role role, int code, const std::string& reason) {
  if (!left_.emplace(role, Leaving{code, reason}).second) return;
  log_.Info("its {} has left with {}: {}", RoleName(role), code, reason, "reason"_a = reason);
  if (role == Role::kCoordinator) EndCoordinator();
  if (TakesOthersAlong(role, code)) {
    LeaveToo(absl::StrCat("its ", RoleName(role), " has left with ", code));
  }
  if (!draining_.empty()) DrainNext();
  ExitIfAllLeft();
}

// Whether a node is over when a role has left so. Without a worker whom no new start would help,
// such as one whose task another has taken, it goes on as a ps, whose partitions others need.
bool Node::TakesOthersAlong(Role role, int code) const {
  if (role == Role::kWorker) return code >= kRestartMayHelp;
  return code != static_cast<int>(ExitCode::kDone) || (role == Role::kCoordinator && !stays_);
}

// At the end of a job all roles leave by themselves, so they get time for that first.
void Node::LeaveToo(const std::string& why) {
  if (!draining_.empty() || std::exchange(others_leave_, true)) return;
  loop_.PostAfter(kByThemselvesMs, gate_.Enter([this, why] {
    if (!draining_.empty()) return;
    for (const Role role : {Role::kCoordinator, Role::kWorker, Role::kPs}) {
      if (!left_.contains(role)) told_.insert(role);
    }
    Drain(why);
  }));
}

// Its calls and links end, so that workers and ps, of this process and of others, see that it is
// gone.
void Node::EndCoordinator() {
  services_->Remove(kCoordinatorService);
  start_.reset();
  coordinator_.reset();
}

void Node::ExitIfAllLeft() {
  if (coordinator_ != nullptr || !left_.contains(Role::kWorker) || !left_.contains(Role::kPs)) {
    return;
  }
  const auto counts = [&](const auto& one, const auto& other) {
    const bool told = told_.contains(one.first), other_told = told_.contains(other.first);
    return told != other_told ? told : one.second.code < other.second.code;
  };
  const auto& [role, last] = *std::ranges::max_element(left_, counts);
  exit_(last.code, absl::StrCat(RoleName(role), ": ", last.reason));
}

void Node::Drain(const std::string& signal) {
  if (!draining_.empty()) return;
  draining_ = signal;
  DrainNext();
}

void Node::DrainNext() {
  for (const Role role : {Role::kCoordinator, Role::kWorker, Role::kPs}) {
    if (left_.contains(role) || (role == Role::kCoordinator && coordinator_ == nullptr)) continue;
    if (std::exchange(drains_, role) == role) return;
    if (role == Role::kCoordinator) return coordinator_->Drain(draining_);
    if (role == Role::kWorker) return worker_->Drain(draining_);
    return ps_->Drain();
  }
}

HealthState Node::Health() const {
  HealthState all{.ready = true, .text = ""};
  const auto add = [&](Role role, const HealthState& state) {
    const auto gone = left_.find(role);
    all.ready = all.ready && state.ready && gone == left_.end();
    const std::string text =
        gone == left_.end() ? state.text : absl::StrCat("has left with ", gone->second.code);
    absl::StrAppend(&all.text, all.text.empty() ? "its " : "; its ", RoleName(role), " ", text);
  };
  add(Role::kWorker, worker_->Health());
  add(Role::kPs, ps_->Health());
  if (coordinator_ != nullptr) add(Role::kCoordinator, coordinator_->Health());
  return all;
}

void Node::AddMetrics(MetricSet& metrics) const {
  worker_->AddMetrics(metrics);
  ps_->AddMetrics(metrics);
  if (coordinator_ != nullptr) coordinator_->AddMetrics(metrics);
}

std::string Node::PageJson() { return coordinator_ == nullptr ? "{}" : coordinator_->PageJson(); }

void Node::NoteRefused(const std::string& sentence) {
  if (coordinator_ != nullptr) coordinator_->NoteRefused(sentence);
}

}  // namespace paracord
