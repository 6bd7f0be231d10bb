// paracord status: what a coordinator is doing, and who waits for whom.
#include <future>
#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "common/flags.h"
#include "common/grpc_network.h"
#include "common/protocol.h"
#include "common/rpc_proto.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {
namespace {

using nlohmann::json;

absl::StatusOr<json> Ask(const std::string& address) {
  GrpcNetwork network;
  const std::unique_ptr<Link> link = network.Dial(address);
  std::promise<absl::StatusOr<StatusReply>> answer;
  constexpr int64_t kDeadlineMs = 3000;
  CallProto<StatusReply>(
      *link, method::kStatus, StatusRequest(), kDeadlineMs,
      [&](absl::StatusOr<StatusReply> reply) { answer.set_value(std::move(reply)); });
  ASSIGN_OR_RETURN(const StatusReply reply, answer.get_future().get());
  json status = json::parse(reply.json(), nullptr, false);
  if (status.is_discarded()) return absl::InternalError(address + " answers with damaged JSON");
  return status;
}

std::string OneTask(const json& ps) {
  std::string line =
      absl::StrFormat("  %-10s %-8s %d partitions, %.1f MB", ps.at("task").get<std::string>(),
                      ps.at("state").get<std::string>(), ps.at("partitions").get<uint64_t>(),
                      ps.at("bytes").get<double>() / 1e6);
  if (ps.contains("away_seconds")) {
    absl::StrAppendFormat(&line, ", away for %.1f s", ps.at("away_seconds").get<double>());
  }
  if (ps.contains("problem")) absl::StrAppend(&line, ": ", ps.at("problem").get<std::string>());
  return line;
}

void Print(const json& status) {
  const auto number = [&](const char* key) { return status.at(key).get<uint64_t>(); };
  std::cout << absl::StrFormat(
      "%s: %s, epoch %d of %d, %d of %d batches, generation %d\n",
      status.at("job").get<std::string>(), status.at("phase").get<std::string>(), number("epoch"),
      number("epochs"), number("batches_done"), number("batches"), number("generation"));
  if (status.contains("waiting")) {
    std::cout << "waiting: " << status.at("waiting").get<std::string>() << "\n";
  }
  std::cout << absl::StrFormat("%.0f samples/s, applied %d..%d, rejected %d%s\n",
                               status.at("samples_per_second").get<double>(), number("applied_min"),
                               number("applied_max"), number("rejected"),
                               status.at("healthy").get<bool>() ? "" : ", UNHEALTHY: not finite");
  for (const json& ps : status.at("ps")) std::cout << OneTask(ps) << "\n";
  for (const json& worker : status.at("workers")) {
    std::cout << absl::StrFormat(
        "  %-10s %-8s %d leases, %d batches, %.0f samples/s, staleness %.2f%s\n",
        worker.at("task").get<std::string>(), worker.at("device").get<std::string>(),
        worker.at("leases").get<uint64_t>(), worker.at("computed").get<uint64_t>(),
        worker.at("samples_per_second").get<double>(), worker.at("staleness").get<double>(),
        worker.at("resting").get<bool>() ? ", resting after failures" : "");
  }
  const json& checkpoint = status.at("checkpoint");
  std::cout << "checkpoint: "
            << (checkpoint.at("last").is_null() ? "none yet"
                                                : checkpoint.at("last").get<std::string>());
  if (!checkpoint.at("problem").get<std::string>().empty()) {
    std::cout << "; the last round failed: " << checkpoint.at("problem").get<std::string>();
  }
  std::cout << "\n";
  for (const json& evaluation : status.at("evaluations")) {
    std::cout << EvaluationText(evaluation, number("epochs")) << "\n";
  }
}

int Fail(const std::string& why, ExitCode code) {
  std::cerr << "paracord status: " << why << "\n";
  return static_cast<int>(code);
}

}  // namespace

int RunStatus(Args args) {
  std::string address;
  std::string dir;
  bool as_json = false;
  Flags flags("paracord status", "Asks a coordinator how its job goes.");
  flags.String("address", "A", "of the coordinator", &address);
  flags.String("dir", "DIR", "the job's directory, instead of an address", &dir);
  flags.Switch("json", "the status as one JSON object", &as_json);
  const absl::Status parsed = flags.Parse(args);
  if (flags.help_wanted()) {
    std::cout << flags.Help();
    return 0;
  }
  if (!parsed.ok()) return Fail(std::string(parsed.message()), ExitCode::kConfiguration);
  if (address.empty() == dir.empty()) {
    return Fail("give either --address or --dir", ExitCode::kConfiguration);
  }
  PosixFiles files;
  if (address.empty()) {
    const absl::StatusOr<std::string> found = files.ReadWhole(dir + "/coordinator.address");
    if (!found.ok()) return Fail(std::string(found.status().message()), ExitCode::kConfiguration);
    address = std::string(absl::StripAsciiWhitespace(*found));
  }
  const absl::StatusOr<json> status = Ask(address);
  if (!status.ok()) {
    if (absl::StatusOr<std::string> summary = files.ReadWhole(dir + "/summary.json");
        !dir.empty() && summary.ok()) {
      std::cout << *summary;  // the job has ended
      return 0;
    }
    return Fail(std::string(status.status().message()), ExitCode::kPeerLost);
  }
  if (as_json) {
    std::cout << status->dump() << "\n";
  } else {
    Print(*status);
  }
  return 0;
}

}  // namespace paracord
