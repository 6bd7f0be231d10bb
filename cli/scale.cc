// paracord scale: a running job goes on with more or fewer ps.
#include <chrono>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "cli/job_dir.h"
#include "cli/status_watch.h"
#include "common/human_bytes.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/cluster.h"
#include "config/flags.h"
#include "coordinator/rival.h"
#include "daemon/security_flags.h"
#include "net/grpc/network.h"
#include "net/rpc_proto.h"
#include "nlohmann/json.hpp"
#include "objects/all_files.h"
#include "proto/paracord.pb.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr int64_t kScaleMs = 10'000;                  // the coordinator's answer is awaited so long
constexpr std::chrono::milliseconds kLookAgain(200);  // between looks at the move
constexpr int64_t kLookMs = 2'000;                    // the answer to a look is awaited so long
constexpr std::chrono::seconds kLost(20);  // without an answer: a coordinator may be restarted

// Prints what moves, and what each ps holds before and after, or which move is cancelled. Returns
// whether anything is to move.
bool PrintPlan(const json& plan, bool dry_run, std::ostream& out) {
  if (plan.contains("cancels")) {
    out << plan.at("cancels").get<std::string>() << (dry_run ? " would be" : " is")
        << " cancelled\n";
    return false;
  }
  if (plan.at("partitions").get<uint64_t>() == 0 && plan.at("same").get<bool>()) {
    out << absl::StrFormat(
        "nothing to do: the job has %d ps, and its partitions are spread evenly\n",
        plan.at("ps").get<uint64_t>());
    return false;
  }
  out << absl::StrFormat("%d partitions of %s move\n", plan.at("partitions").get<uint64_t>(),
                         HumanBytes(plan.at("bytes").get<uint64_t>()));
  size_t index = 0;
  for (const json& ps : plan.at("by_ps")) {
    out << absl::StrFormat("  ps:%d %s: %s, then %s\n", index, ps.at("address").get<std::string>(),
                           HumanBytes(ps.at("bytes").get<uint64_t>()),
                           index < plan.at("ps").get<uint64_t>()
                               ? HumanBytes(ps.at("bytes_after").get<uint64_t>())
                               : "it leaves");
    ++index;
  }
  return true;
}

// Returns the move to `ps` ps described by a status. A coordinator that was started after the
// layout was written knows only the layout, not the move; the move has then ended when all ps have
// loaded by the layout.
json MoveIn(const json& status, uint64_t version, uint64_t ps) {
  json move = status.value("move", json::object());
  if (move.value("version", uint64_t{0}) == version) return move;
  const bool written = status.value("layout_version", uint64_t{0}) == version &&
                       status.value("ps", json::array()).size() == ps;
  if (!written) return move;
  const std::string phase = status.value("phase", "");
  const bool trains = phase == "training" || phase == "evaluating" || phase == "finishing";
  move = {{"version", version}, {"phase", trains ? "done" : "loading"}};
  if (!trains) move["problem"] = status.value("waiting", "");
  return move;
}

// Waits for the move of this plan to end, and prints its phases. The exit code says how the move
// ended.
int WaitForMove(GrpcNetwork& network, const std::string& address, const json& plan,
                std::ostream& out, std::ostream& err) {
  const auto version = plan.at("version").get<uint64_t>();
  using Clock = std::chrono::steady_clock;
  std::string said;
  Clock::time_point heard = Clock::now();
  while (true) {
    const absl::StatusOr<json> status = AskStatus(network, address, kLookMs);
    if (!status.ok()) {
      if (Clock::now() - heard >= kLost) {
        return Fail("scale",
                    absl::StrCat("the coordinator has not answered for ", kLost.count(),
                                 " s: the job has ended, and summary.json in its directory says "
                                 "how, or its coordinator is down: ",
                                 status.status().message()),
                    ExitCode::kPeerLost, err);
      }
      std::this_thread::sleep_for(kLookAgain);
      continue;
    }
    heard = Clock::now();
    const json move = MoveIn(*status, version, plan.at("ps").get<uint64_t>());
    const std::string phase = move.value("phase", "");
    if (move.value("version", uint64_t{0}) != version) {
      return Fail("scale",
                  "the coordinator does not know of the move: another one leads the job now, or "
                  "somebody has asked for other ps since; `paracord status` shows which ps the job "
                  "has",
                  ExitCode::kPeerLost, err);
    }
    const bool ended = phase == "done" || phase == "given up";
    if (!ended && status->value("phase", "") == "ended") {
      return Fail("scale", "the job has ended, and has not moved: its summary.json says how",
                  ExitCode::kFailed, err);
    }
    const std::string why = ended ? "" : move.value("problem", "");
    const std::string line = why.empty() ? phase : absl::StrCat(phase, ": ", why);
    if (line != said) out << line << "\n" << std::flush;
    said = line;
    if (phase == "done") {
      if (move.contains("stopped_seconds")) {
        out << absl::StrFormat("training stood still for %.2f s\n",
                               move.value("stopped_seconds", 0.0));
      }
      return 0;
    }
    if (phase == "given up") {
      return Fail("scale", absl::StrCat("the move is given up: ", move.value("problem", "")),
                  ExitCode::kFailed, err);
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

// Returns the coordinator's address: `given`, or the address of the job's leader written in `dir`.
absl::StatusOr<std::string> LeaderOf(Files& files, const std::string& given,
                                     const std::string& dir) {
  if (given.empty() == dir.empty()) {
    return absl::InvalidArgumentError("give either --address or --dir");
  }
  if (dir.empty()) return given;
  const std::string address = AddressIn(files, dir);
  if (address.empty()) {
    return absl::NotFoundError(absl::StrCat(dir, "/coordinator.address is not there"));
  }
  RETURN_IF_ERROR(CheckNamesMachine(dir, address));
  return address;
}

}  // namespace

int RunScale(Args args, std::ostream& out, std::ostream& err) {
  std::string address, dir;
  std::optional<int64_t> ps;
  std::vector<std::string> ps_addresses;
  bool dry_run = false, wait = false;
  Flags flags("paracord scale",
              "Spreads the variables of a running job over more or fewer ps. Start new ps before: "
              "the job goes on as it is until all of them answer. The number that the job has "
              "cancels a move whose layout is not written yet.");
  constexpr int64_t kPsMost = 65536;
  flags.Integer("ps", "N", "how many ps the job is to have", 1, kPsMost, &ps);
  flags.String("address", "A", "of the coordinator", &address);
  flags.String("dir", "DIR", "the job's directory, instead of the coordinator's address", &dir);
  flags.Strings("ps-address", "A",
                "of a ps that the job does not have yet, by ascending index; needed where the "
                "address does not follow from that of ps 0 (job-ps-0.job-ps:7000)",
                &ps_addresses);
  flags.Switch("dry-run", "print what would move, and move nothing", &dry_run);
  flags.Switch("wait", "until the move has ended; exit code 1 if it was given up", &wait);
  SecurityOptions security;
  AddSecurityFlags(flags, security);
  if (const auto code = flags.ParseOrExit(args, "paracord scale", out, err)) return *code;
  const auto wrong = [&](absl::string_view why) {
    return Fail("scale", why, ExitCode::kConfiguration, err);
  };
  if (!ps.has_value()) return wrong("--ps is missing: how many ps is the job to have?");
  AllFiles files;
  const auto leader = LeaderOf(files, address, dir);
  if (!leader.ok()) return wrong(leader.status().message());
  address = *leader;
  GrpcOptions options;
  absl::Status safe = CheckAddress(address, dir.empty() ? "--address" : dir);
  if (safe.ok()) safe = SetUpSecurity(security, /*task=*/"", /*listens=*/false, options);
  if (safe.ok()) safe = CheckPlainText(security, address, "the coordinator at");
  if (!safe.ok()) return wrong(safe.message());
  GrpcNetwork network(options);
  ScaleRequest request;
  request.set_ps(static_cast<uint32_t>(*ps));
  request.set_dry_run(dry_run);
  for (const std::string& one : ps_addresses) request.add_addresses(one);
  const std::unique_ptr<Link> link = network.Dial(address);
  const auto reply = AwaitProto<ScaleReply>(*link, method::kScale, request, kScaleMs);
  if (!reply.ok()) {
    const bool ours = absl::IsInvalidArgument(reply.status()) ||
                      absl::IsFailedPrecondition(reply.status()) ||
                      absl::IsPermissionDenied(reply.status());
    return Fail("scale", reply.status().message(),
                ours ? ExitCode::kConfiguration : ExitCode::kPeerLost, err);
  }
  const json plan = JsonOf(reply->json());
  try {
    const bool moves = PrintPlan(plan, dry_run, out);
    if (dry_run || !wait || !moves) return 0;
    return WaitForMove(network, address, plan, out, err);
  } catch (const json::exception& error) {
    return Fail("scale",
                absl::StrCat("the coordinator answers as another version does: ", error.what()),
                ExitCode::kVersion, err);
  }
}

}  // namespace paracord
