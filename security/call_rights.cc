#include "security/call_rights.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr size_t kMethodMax = 100;  // bytes of an unknown method that an error shows

const CallRight* Find(std::string_view method) {
  for (const CallRight& right : CallRights()) {
    if (right.method == method) return &right;
  }
  return nullptr;
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
      // A coordinator asks whether another one holds its directory, and a worker that scores
      // checkpoints how the job goes.
      {method::kStatus, kCoordinator, {kCoordinator, kWorker, kOperator, kMonitor}},
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

bool StandsFor(const PeerIdentity& peer, PeerRole role, NodeRights nodes) {
  if (peer.role == role) return true;
  if (peer.role != PeerRole::kWorker) return false;
  if (role == PeerRole::kPs) return nodes.ps;
  // An identity without an index is that of every worker.
  return role == PeerRole::kCoordinator && nodes.coordinator && peer.index.value_or(0) == 0;
}

absl::Status Access::Check(std::string_view method) const {
  if (!peer_.has_value()) return absl::OkStatus();
  for (const PeerRole role : kPeerRoles) {
    if (StandsFor(*peer_, role, nodes_) && Allowed(method, role)) return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat(peer_->Uri(), " may not call ", OneLine(method, kMethodMax)));
}

}  // namespace paracord
