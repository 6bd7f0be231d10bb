// A daemon whose certificate has expired, or does not fit its key, waits for better files before it
// starts, as it waits for storage: an operator or a certificate manager is about to replace them.
#include <signal.h>
#include <time.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/log_format.h"
#include "common/steady_ms.h"
#include "common/thread_loop.h"
#include "daemon/daemon_process.h"

namespace paracord {
namespace {

constexpr int64_t kKeysPatienceS = 600;

}  // namespace

absl::Status AwaitSecurity(const DaemonFlags& flags, const std::string& task,
                           const std::string& address, GrpcOptions& grpc) {
  const bool listens = !address.empty();
  absl::Status status = SetUpSecurity(flags.security, task, listens, grpc);
  if (!absl::IsUnavailable(status)) return status;
  SetUpLogging(flags.log_level, flags.log_format);
  const Logger log("credentials");
  log.Warn("{}: waits for a better one, at most {} s", std::string(status.message()),
           kKeysPatienceS);
  BlockLeaveSignals();
  ThreadLoop loop;
  MonitorSource source;
  source.task = task.empty() ? "worker" : task;
  source.health = [&] {
    return HealthState{false, "waits for its certificate: " + std::string(status.message())};
  };
  const std::unique_ptr<Monitor> health = ServeLocalHealth(address, loop, std::move(source));
  const int64_t end_ms = SteadyMs() + kKeysPatienceS * 1000;
  std::function<void()> look = [&] {
    constexpr int64_t kAgainMs = 1000;
    status = SetUpSecurity(flags.security, task, listens, grpc);
    const sigset_t signals = LeaveSignals();
    const timespec at_once{};
    const int signal = sigtimedwait(&signals, nullptr, &at_once);
    if (signal > 0) status = absl::CancelledError(SignalName(signal) + " before the start");
    if (!absl::IsUnavailable(status) || SteadyMs() >= end_ms) return loop.Stop();
    loop.PostAfter(kAgainMs, look);
  };
  loop.Post(look);
  loop.Run();
  if (status.ok()) log.Info("the certificate can be used now");
  return status;
}

ExitCode SecurityExitCode(const absl::Status& status) {
  if (absl::IsCancelled(status)) return ExitCode::kDrained;
  return absl::IsUnavailable(status) ? ExitCode::kPeerLost : ExitCode::kConfiguration;
}

}  // namespace paracord
