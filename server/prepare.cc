// Prepare: before a move, a ps reads its future partitions while serving its current ones.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "common/status_text.h"
#include "net/rpc_proto.h"
#include "server/parameter_server_impl.h"
#include "storage/checkpoint.h"

namespace paracord {

// Reads the checkpoint of the order, or only its increments over the last prepared checkpoint.
void ParameterServer::Impl::Prepare(LoadRequest request, const CallPtr& call) {
  const std::string checkpoint = request.checkpoint();
  if (!ParseCheckpointName(checkpoint).has_value() || request.fence().run_id().empty()) {
    return call->Reply(absl::InvalidArgumentError(absl::StrCat(
        "`prepare` of \"", checkpoint, "\" in run \"", request.fence().run_id(), "\"")));
  }
  auto made =
      PreparedLoad::Make(std::move(request), options_.partition_bytes_max, pinned_, memory_);
  if (!made.ok()) return call->Reply(made.status());
  std::shared_ptr<PreparedLoad> load = *std::move(made);
  std::shared_ptr<PreparedLoad> dropped;  // destroyed after the lock is released
  bool answer_now = false;
  const auto begin = [&]() -> absl::Status {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(CheckOrder(load->order().fence(), load->order().coordinator_boot_id(),
                               /*held=*/false));
    if (!orders_.preparing().waiting.empty()) {
      const bool same = orders_.preparing().load != nullptr &&
                        orders_.preparing().load->IsLike(*load) &&
                        orders_.preparing().wanted == checkpoint;
      if (!same || orders_.preparing().waiting.size() >= kWaitingMax) {
        return absl::UnavailableError(
            absl::StrCat("this ps prepares checkpoint ", orders_.preparing().wanted, " still"));
      }
      orders_.preparing().waiting.push_back(call);
      load = nullptr;
      return absl::OkStatus();
    }
    if (orders_.preparing().load != nullptr && orders_.preparing().load->IsLike(*load)) {
      load = orders_.preparing().load;
      answer_now = orders_.preparing().prepared == checkpoint;
    } else {
      dropped = std::exchange(orders_.preparing().load, load);
      orders_.preparing().prepared.clear();
    }
    if (answer_now) return absl::OkStatus();
    orders_.preparing().wanted = checkpoint;
    orders_.preparing().waiting.push_back(call);
    return absl::OkStatus();
  };
  const absl::Status begun = begin();
  if (!begun.ok()) return call->Reply(begun);
  if (answer_now) return call->Reply(ToParts(Description(/*intervals=*/false)));
  if (load == nullptr) return;
  PROBE("ps.prepare");
  const auto status = std::make_shared<absl::Status>();
  environment_.executor.Run(
      [status, load, checkpoint, &files = environment_.files,
       folder = CheckpointsDirectory(options_.dir)] {
        FAILPOINT("ps.prepare.begin");
        KnownDamage damage;
        *status = files.CheckBeneath(folder, checkpoint);
        if (!status->ok()) return;
        *status = load->partitions().Read(files, absl::StrCat(folder, "/", checkpoint), damage);
      },
      Enter([this, status, load, checkpoint] { EndPrepare(load, checkpoint, *status); }));
}

void ParameterServer::Impl::EndPrepare(const std::shared_ptr<PreparedLoad>& load,
                                       const std::string& checkpoint, const absl::Status& status) {
  std::vector<CallPtr> waiting;
  {
    MutexLock lock(mu_);
    waiting = std::exchange(orders_.preparing().waiting, {});
    // A Load may have taken the partitions meanwhile.
    if (status.ok() && orders_.preparing().load == load) orders_.preparing().prepared = checkpoint;
  }
  HeardFromCoordinator();
  if (!status.ok()) log_.Warn("cannot prepare {}: {}", checkpoint, Text(status));
  for (const CallPtr& call : waiting) {
    if (status.ok()) {
      call->Reply(ToParts(Description(/*intervals=*/false)));
    } else {
      call->Reply(OfFiles(status));
    }
  }
}

// Hands the prepared partitions to the Load that is about to run on the executor. Later orders to
// prepare begin anew.
std::shared_ptr<PreparedLoad> ParameterServer::Impl::TakePrepared() {
  MutexLock lock(mu_);
  orders_.preparing().prepared.clear();
  return std::exchange(orders_.preparing().load, nullptr);
}

}  // namespace paracord
