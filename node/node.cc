#include "node/node.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exit_code.h"

namespace paracord {
namespace {

constexpr char kPsService[] = "paracord.ParameterServer";
constexpr char kCoordinatorService[] = "paracord.Coordinator";

// Grace period for the remaining roles once one has left: they leave on their own when a job fails.
// Afterwards the node tells them to leave.
constexpr int64_t kByThemselvesMs = 3000;

constexpr int kRestartMayHelp = 128;  // from this exit code on (common/exit_code.h)

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

// Returns the callback for a role to report its end. Posts to the loop, because the node may
// destroy the role, which is still on the caller's stack.
std::function<void(int, std::string)> Node::LeaveAs(Role role) {
  return gate_.EnterOn(
      loop_, [this, role](int code, const std::string& reason) { Left(role, code, reason); });
}

void Node::Left(Role role, int code, const std::string& reason) {
  if (!left_.Add(role, code, reason)) return;
  log_.Info("its {} has left with {}: {}", RoleName(role), code, reason, "reason"_a = reason);
  if (role == Role::kCoordinator) EndCoordinator();
  const std::string why = absl::StrCat("its ", RoleName(role), " has left with ", code);
  if (TakesOthersAlong(role, code)) {
    LeaveToo(why);
  } else if (role == Role::kWorker && draining_.empty()) {
    ps_->LeaveUnlessPlaced(code, why);
  }
  if (!draining_.empty()) DrainNext();
  ExitIfAllLeft();
}

// Returns whether the remaining roles must leave, too. They stay if the worker has left with a code
// for which a restart does not help, for instance because another process took the task: other
// nodes need the partitions of this ps.
bool Node::TakesOthersAlong(Role role, int code) const {
  if (role == Role::kWorker) return code >= kRestartMayHelp;
  return code != static_cast<int>(ExitCode::kDone) || (role == Role::kCoordinator && !stays_);
}

// Tells the remaining roles to leave, unless they leave in time.
void Node::LeaveToo(const std::string& why) {
  if (!draining_.empty() || std::exchange(others_leave_, true)) return;
  loop_.PostAfter(kByThemselvesMs, gate_.Enter([this, why] {
    if (!draining_.empty()) return;
    for (const Role role : {Role::kCoordinator, Role::kWorker, Role::kPs}) {
      if (!left_.Has(role)) left_.Tell(role);
    }
    Drain(why);
  }));
}

// Destroys the coordinator that has left. Its calls and links end, which tells all workers and ps.
void Node::EndCoordinator() {
  services_->Remove(kCoordinatorService);
  start_.reset();
  coordinator_.reset();
}

void Node::ExitIfAllLeft() {
  if (coordinator_ != nullptr || !left_.Has(Role::kWorker) || !left_.Has(Role::kPs)) return;
  const Departures::Departure last = left_.Last();
  exit_(last.code, last.reason);
}

void Node::Drain(const std::string& signal) {
  if (!draining_.empty()) return;
  draining_ = signal;
  DrainNext();
}

void Node::DrainNext() {
  for (const Role role : {Role::kCoordinator, Role::kWorker, Role::kPs}) {
    if (left_.Has(role) || (role == Role::kCoordinator && coordinator_ == nullptr)) continue;
    if (std::exchange(drains_, role) == role) return;
    if (role == Role::kCoordinator) return coordinator_->Drain(draining_);
    if (role == Role::kWorker) return worker_->Drain(draining_);
    return ps_->Drain();
  }
}

HealthState Node::Health() const {
  HealthState all{.ready = true, .text = ""};
  const auto add = [&](Role role, const HealthState& state) {
    const bool gone = left_.Has(role);
    all.ready = all.ready && state.ready && !gone;
    const std::string text =
        gone ? absl::StrCat("has left with ", left_.Of(role).code) : state.text;
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
