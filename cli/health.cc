// paracord health: asks a daemon whether its event loop turns, for a supervisor's health checks.
#include "net/health.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "common/status_text.h"
#include "config/cluster.h"
#include "config/flags.h"
#include "daemon/security_flags.h"
#include "monitor/local_health.h"
#include "net/grpc/network.h"
#include "net/rpc_proto.h"
#include "proto/health.pb.h"

namespace paracord {
namespace {

absl::StatusOr<HealthReply> Ask(const GrpcOptions& options, const std::string& address,
                                int64_t deadline_ms) {
  GrpcNetwork network(options);
  return AwaitProto<HealthReply>(*network.Dial(address), kHealthMethod, HealthRequest(),
                                 deadline_ms);
}

// Asks a daemon of this user on this host over a local channel, independent of certificates and of
// files that a person may replace meanwhile. nullopt: the address has to be asked over the network.
std::optional<int> RunLocal(const std::string& address, bool ready, int64_t timeout_ms,
                            std::ostream& out, std::ostream& err) {
  if (!StaysHere(address)) return std::nullopt;
  const std::optional<absl::StatusOr<LocalHealth>> health = AskLocalHealth(address, timeout_ms);
  if (!health.has_value()) return std::nullopt;
  if (!health->ok()) {
    return Fail("health", absl::StrCat(address, " does not answer: ", Text(health->status())),
                ExitCode::kFailed, err);
  }
  const std::string& text = (*health)->text;
  const size_t task = std::min(text.find(' '), text.size());
  const std::string said = absl::StrCat(text.substr(0, task), " at ", address, text.substr(task));
  if (ready && !(*health)->ready) {
    return Fail("health", said + ": it is not ready", ExitCode::kFailed, err);
  }
  out << said << "\n";
  return 0;
}

}  // namespace

int RunHealth(Args args, std::ostream& out, std::ostream& err) {
  std::string address;
  bool ready = false;
  int64_t timeout_ms = 3000;
  Flags flags(
      "paracord health",
      "Asks the daemon at ADDRESS whether its event loop turns. Exit code 0: it does; 1: it\n"
      "does not answer, or with --ready: it takes no part in a job. A daemon of this user on\n"
      "this host is asked without TLS, whatever has become of its certificate.");
  flags.Positional("ADDRESS", "where it listens: host:port or unix:/path", &address);
  flags.Switch("ready", "it also has to take part in a job, or to be done with one", &ready);
  flags.Integer("timeout-ms", "N", "for the answer", 1, 600000, &timeout_ms);
  SecurityOptions security;
  AddSecurityFlags(flags, security);
  const auto code = flags.ParseOrExit(args, "paracord health", out, err);
  if (code.has_value()) return *code;
  if (const absl::Status checked = CheckAddress(address, "ADDRESS"); !checked.ok()) {
    return Fail("health", checked.message(), ExitCode::kConfiguration, err);
  }
  if (const auto said = RunLocal(address, ready, timeout_ms, out, err)) return *said;
  GrpcOptions options;
  absl::Status safe = SetUpSecurity(security, /*task=*/"", /*listens=*/false, options);
  if (safe.ok()) safe = CheckPlainText(security, address, "the daemon at");
  if (!safe.ok()) return Fail("health", safe.message(), ExitCode::kConfiguration, err);
  const absl::StatusOr<HealthReply> reply = Ask(options, address, timeout_ms);
  if (absl::IsUnimplemented(reply.status())) {
    return Fail("health", absl::StrCat(address, " answers, but not like a daemon of this version"),
                ExitCode::kFailed, err);
  }
  if (!reply.ok()) {
    return Fail("health", absl::StrCat(address, " does not answer: ", Text(reply.status())),
                ExitCode::kFailed, err);
  }
  const std::string said = absl::StrCat(reply->task(), " at ", address, " ", reply->state());
  if (ready && !reply->ready()) {
    return Fail("health", said + ": it is not ready", ExitCode::kFailed, err);
  }
  out << said << "\n";
  return 0;
}

}  // namespace paracord
