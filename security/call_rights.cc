#include "security/call_rights.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr size_t kMethodMax = 100;  // bytes of an unknown method's name in an error

const CallRight* Find(std::string_view method) {
  for (const CallRight& right : CallRights()) {
    if (right.method == method) return &right;
  }
  return nullptr;
}

// Returns the index of the worker at an address, in a cluster without ps.
std::optional<uint32_t> NodeAt(const std::string& address, const NodeRights& nodes) {
  const auto found = std::find(nodes.ps.begin(), nodes.ps.end(), address);
  if (address.empty() || found == nodes.ps.end()) return std::nullopt;
  return static_cast<uint32_t>(found - nodes.ps.begin());
}

}  // namespace

std::span<const CallRight> CallRights() {
  using enum PeerRole;
  static const std::vector<CallRight> kRights = {
      {method::kExchange, kPs, {kWorker}},
      {method::kStage, kPs, {kWorker}},
      {method::kDescribe, kPs, {kCoordinator}},
      {method::kAdopt, kPs, {kCoordinator}},
      {method::kLoad, kPs, {kCoordinator}},
      {method::kSnapshot, kPs, {kCoordinator}},
      {method::kPsHold, kPs, {kCoordinator}},
      {method::kFinish, kPs, {kCoordinator}},
      {method::kJoin, kCoordinator, {kWorker}},
      {method::kWorkerHold, kCoordinator, {kWorker}},
      {method::kWork, kCoordinator, {kWorker}},
      // A coordinator asks whether another coordinator leads in DIR. A worker that scores
      // checkpoints asks for the progress of the job.
      {method::kStatus, kCoordinator, {kCoordinator, kWorker, kOperator, kMonitor}},
      {method::kScale, kCoordinator, {kOperator}},
      {"/paracord.Health/Check", {}, {kPs, kWorker, kCoordinator, kOperator, kMonitor}},
      {"/grpc.health.v1.Health/Check", {}, {kPs, kWorker, kCoordinator, kOperator, kMonitor}},
      {"/grpc.health.v1.Health/Watch", {}, {kPs, kWorker, kCoordinator, kOperator, kMonitor}},
  };
  return kRights;
}

bool Allowed(std::string_view method, PeerRole role) {
  const CallRight* const right = Find(method);
  return right != nullptr &&
         std::find(right->callers.begin(), right->callers.end(), role) != right->callers.end();
}

std::optional<PeerRole> ServerOf(std::string_view method) {
  const CallRight* const right = Find(method);
  return right == nullptr ? std::nullopt : right->served_by;
}

bool CallsAs(const PeerIdentity& peer, PeerRole role, const NodeRights& nodes) {
  if (peer.role == role) return true;
  // A certificate for every worker does not prove that the peer is worker 0.
  return role == PeerRole::kCoordinator && nodes.coordinator && peer.role == PeerRole::kWorker &&
         peer.index == 0;
}

bool Serves(const PeerIdentity& peer, PeerRole role, const std::string& address,
            const NodeRights& nodes) {
  if (role != PeerRole::kPs || peer.role != PeerRole::kWorker) return CallsAs(peer, role, nodes);
  const std::optional<uint32_t> index = NodeAt(address, nodes);
  return index.has_value() && peer.index.value_or(*index) == *index;
}

std::string ServerText(PeerRole role, const std::string& address, const NodeRights& nodes) {
  if (role == PeerRole::kCoordinator && nodes.coordinator) return "worker:0, the coordinator";
  if (role != PeerRole::kPs || nodes.ps.empty()) {
    return absl::StrCat("a ", std::string(NameOf(role)));
  }
  const std::optional<uint32_t> index = NodeAt(address, nodes);
  if (!index.has_value()) return "a ps: the own cluster (TF_CONFIG) has no worker at this address";
  return absl::StrCat("worker:", *index, ", which is the ps at this address");
}

Access::Access(PeerIdentity peer, const NodeRights& nodes) : peer_(std::move(peer)) {
  for (const PeerRole role : kPeerRoles) {
    if (CallsAs(*peer_, role, nodes)) roles_.push_back(role);
  }
}

absl::Status Access::Check(std::string_view method) const {
  if (!peer_.has_value()) return absl::OkStatus();
  for (const PeerRole role : roles_) {
    if (Allowed(method, role)) return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat(peer_->Uri(), " may not call ", OneLine(method, kMethodMax)));
}

}  // namespace paracord
