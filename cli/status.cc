// paracord status: what a coordinator is doing, and which process waits for which.
#include <chrono>
#include <cstdlib>
#include <ostream>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/checkpoint_choice.h"
#include "cli/commands.h"
#include "cli/job_dir.h"
#include "cli/progress.h"
#include "cli/status_watch.h"
#include "common/human_bytes.h"
#include "common/json_text.h"
#include "common/steady_ms.h"
#include "config/cluster.h"
#include "config/flags.h"
#include "coordinator/core/job_state.h"
#include "coordinator/rival.h"
#include "daemon/security_flags.h"
#include "net/grpc/network.h"
#include "nlohmann/json.hpp"
#include "objects/all_files.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kWatchAgain(2);
constexpr char kClearScreen[] = "\x1b[H\x1b[2J";

// Checks that the coordinator at `address`, read from `dir`, leads the job there: another job may
// use the address by now.
absl::Status CheckOfDir(Files& files, const std::string& dir, const std::string& address,
                        const json& status) {
  const absl::StatusOr<bool> leads = LeadsJob(files, dir, status);
  if (!leads.ok() || *leads || status["phase"] == "ended") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(address, " is the address of another job's by now"));
}

absl::StatusOr<json> Ask(const GrpcOptions& options, const std::string& address,
                         uint64_t history_from) {
  GrpcNetwork network(options);
  constexpr int64_t kDeadlineMs = 3000;
  absl::StatusOr<json> status = AskStatus(network, address, kDeadlineMs, history_from);
  const std::string why(status.status().message());
  // What is known to be wrong needs no guess.
  const bool unknown =
      absl::StrContains(why, "no answer within") || absl::StrContains(why, "no connection within");
  if (!absl::IsDeadlineExceeded(status.status()) || !unknown) return status;
  return absl::DeadlineExceededError(
      absl::StrCat(status.status().message(),
                   ": it hangs, or cannot be reached; is that the coordinator's address "
                   "(TF_CONFIG's chief, or DIR/coordinator.address)?"));
}

// Says how long a task has been silent, which is asked, or reports, every second.
std::string SilenceText(const json& task) {
  const double seconds = task.value("silent_seconds", 0.0);
  return seconds < 2 || task.contains("away_seconds")
             ? ""
             : absl::StrFormat(", silent for %.1f s", seconds);
}

std::string OneTask(const json& ps) {
  std::string line =
      absl::StrFormat("  %-10s %-8s %d partitions, %.1f MB", ps.at("task").get<std::string>(),
                      ps.at("state").get<std::string>(), ps.at("partitions").get<uint64_t>(),
                      ps.at("bytes").get<double>() / 1e6);
  if (ps.contains("node")) absl::StrAppend(&line, ", in ", ps.at("node").get<std::string>());
  if (const auto pinned = ps.value("pinned_bytes", uint64_t{0}); pinned > 0) {
    absl::StrAppendFormat(&line, ", %.1f MB pinned by readers", static_cast<double>(pinned) / 1e6);
  }
  if (ps.contains("away_seconds")) {
    absl::StrAppendFormat(&line, ", away for %.1f s", ps.at("away_seconds").get<double>());
    if (ps.contains("away_seconds_max")) {
      absl::StrAppendFormat(&line, " of at most %d s (timeouts.ps_return_s)",
                            ps.at("away_seconds_max").get<int64_t>());
    }
    if (!ps.value("needed", true)) line += ", and the job goes on without it";
  }
  absl::StrAppend(&line, SilenceText(ps));
  if (ps.contains("problem")) absl::StrAppend(&line, ": ", ps.at("problem").get<std::string>());
  return line;
}

void PrintMove(const json& move, std::ostream& out) {
  if (move.empty()) return;
  const std::string what =
      move.value("copies", false)
          ? absl::StrCat("new copies of ", move.value("partitions", uint64_t{0}), " partitions")
          : absl::StrCat("move to ", move.value("ps", uint64_t{0}), " ps");
  out << absl::StrFormat("%s: %s%s\n", what, move.value("phase", ""),
                         move.contains("problem") ? ": " + move.value("problem", "") : "");
}

void PrintCopies(const json& copies, std::ostream& out) {
  if (copies.empty()) return;
  out << absl::StrFormat("copies: %d of %d partitions are on two ps, %s on one\n",
                         copies.value("with_both", uint64_t{0}),
                         copies.value("partitions", uint64_t{0}),
                         HumanBytes(copies.value("bytes_with_one", uint64_t{0})));
  const json by_ps = copies.value("by_ps", json::array());
  for (size_t i = 0; i < by_ps.size(); ++i) {
    const std::string problem = by_ps[i].value("problem", "");
    if (!problem.empty()) out << "  ps:" << i << " has no room for copies: " << problem << "\n";
  }
}

void PrintTables(const json& tables, std::ostream& out) {
  for (const auto& [name, table] : tables.items()) {
    out << absl::StrFormat(
        "  table %s: %d rows, %.1f MB; %d admitted, %d expired, %d evicted, %d "
        "gradients dropped\n",
        name, table.at("rows").get<uint64_t>(), table.at("bytes").get<double>() / 1e6,
        table.at("admitted").get<uint64_t>(), table.at("expired").get<uint64_t>(),
        table.at("evicted").get<uint64_t>(), table.at("dropped").get<uint64_t>());
    out << absl::StrFormat("    %.0f rows/s pulled, %.0f rows/s pushed",
                           table.value("pulled_rows_per_second", 0.0),
                           table.value("pushed_rows_per_second", 0.0));
    const json hot_ids = table.value("hot_ids", json::array());
    for (const json& hot : hot_ids) {
      out << absl::StrFormat("%s %s (%.0f %%)", &hot == &hot_ids.front() ? "; hot ids" : ",",
                             hot.value("id", ""), 100 * hot.value("share", 0.0));
    }
    out << "\n";
  }
}

// Prints what somebody should see to though the job goes on.
void PrintNotes(const json& status, std::ostream& out) {
  if (const auto again = status.value("again_to", uint64_t{0}); again > 0) {
    out << absl::StrFormat("after a restore: batches up to %d are computed again\n", again);
  }
  if (const json bad = status.value("bad_records", json::object()); !bad.empty()) {
    const json first = bad.value("first", json::array());
    out << absl::StrFormat("%d records cannot be read and are left out%s\n",
                           bad.value("records", uint64_t{0}),
                           first.empty() ? "" : ", first " + first.front().get<std::string>());
  }
  const json certificate = status.value("certificate", json::object());
  constexpr double kSoonDays = 14;  // like the alert ParacordCertificateExpires
  if (const double days = certificate.value("days_left", kSoonDays); days < kSoonDays) {
    out << absl::StrFormat(
        "the coordinator's certificate %s: replace it\n",
        days < 0 ? "has expired" : absl::StrFormat("expires in %.1f days", days));
  }
  for (const json& key : status.value("untaken", json::array())) {
    out << "not taken from the job file: " << key.get<std::string>() << "\n";
  }
}

void PrintRounds(const json& rounds, std::ostream& out) {
  if (rounds.empty()) return;
  out << absl::StrFormat("round %d of %d", rounds.value("round", uint64_t{0}),
                         rounds.value("rounds", uint64_t{0}));
  const std::string waits_for = rounds.value("waits_for", "");
  if (!waits_for.empty()) out << ", waits for " << waits_for;
  if (rounds.contains("seconds_a_round")) {
    out << absl::StrFormat(", %.3g s a round", rounds.value("seconds_a_round", 0.0));
  }
  if (const double waited = rounds.value("waited_share", 0.0); waited >= 0.005) {
    out << absl::StrFormat(", workers wait %.0f %% of the time", 100 * waited);
  }
  const auto rollbacks = rounds.value("rollbacks", uint64_t{0});
  if (rollbacks > 0)
    out << ", back to a checkpoint " << rollbacks << (rollbacks == 1 ? " time" : " times");
  if (const auto backups = rounds.value("backups", uint64_t{0}); backups > 0) {
    out << ", " << backups << (backups == 1 ? " lane" : " lanes") << " given to a second worker";
  }
  out << "\n";
}

void PrintWorker(const json& worker, std::ostream& out) {
  const double waited = worker.value("waited_share", 0.0);
  out << absl::StrFormat(
      "  %-10s %-8s %d leases, %d batches, %.0f samples/s, staleness %.2f%s%s%s%s\n",
      worker.at("task").get<std::string>(), worker.at("device").get<std::string>(),
      worker.at("leases").get<uint64_t>(), worker.at("computed").get<uint64_t>(),
      worker.at("samples_per_second").get<double>(), worker.at("staleness").get<double>(),
      waited < 0.005 ? "" : absl::StrFormat(", waits %.0f %% of the time", 100 * waited),
      worker.at("resting").get<bool>() ? ", resting after failures" : "", SilenceText(worker),
      worker.contains("waits_for") ? ", waits for " + worker.at("waits_for").get<std::string>()
                                   : "");
}

void Print(const json& status, std::ostream& out) {
  const auto number = [&](const char* key) { return status.at(key).get<uint64_t>(); };
  out << absl::StrFormat("%s: %s, epoch %d of %d, %d of %d batches, generation %d\n",
                         status.at("job").get<std::string>(), status.at("phase").get<std::string>(),
                         number("epoch"), number("epochs"), number("batches_done"),
                         number("batches"), number("generation"));
  if (status.value("insecure", false)) {
    out << "INSECURE: whoever reaches the coordinator may read, change and end this job\n";
  }
  PrintNotes(status, out);
  for (const auto& [key, title] :
       {std::pair("ending", "is ending"), std::pair("exit", "has ended")}) {
    if (!status.contains(key)) continue;
    out << absl::StrFormat("the job %s with exit code %d: %s\n", title,
                           status.at(key).at("code").get<int>(),
                           status.at(key).at("reason").get<std::string>());
  }
  if (status.contains("waiting")) {
    out << "waiting: " << status.at("waiting").get<std::string>() << "\n";
  }
  const json& loss = status.at("loss");
  const json last = status.value("last_batch_seconds", json());
  const double idle = last.is_number() ? last.get<double>() : 0;
  out << absl::StrFormat("%.0f samples/s%s%s, applied %d..%d, rejected %d%s\n",
                         status.at("samples_per_second").get<double>(),
                         idle < 3 ? "" : absl::StrFormat(" (no batch for %.1f s)", idle),
                         loss.is_number() ? absl::StrFormat(", loss %.4f", loss.get<double>()) : "",
                         number("applied_min"), number("applied_max"), number("rejected"),
                         status.at("healthy").get<bool>() ? "" : ", UNHEALTHY: not finite");
  if (const json strategy = status.value("strategy", json::object()); !strategy.empty()) {
    out << "strategy " << strategy.value("name", "") << ": " << strategy.value("why", "") << "\n";
  }
  PrintRounds(status.value("rounds", json::object()), out);
  PrintMove(status.value("move", json::object()), out);
  PrintCopies(status.value("copies", json::object()), out);
  for (const json& ps : status.at("ps")) out << OneTask(ps) << "\n";
  PrintTables(status.value("tables", json::object()), out);
  for (const json& worker : status.at("workers")) PrintWorker(worker, out);
  const json refused_tasks = status.value("refused", json::object());
  for (const auto& [task, why] : refused_tasks.items()) {
    out << absl::StrFormat("  %-10s refused: %s\n", task, why.get<std::string>());
  }
  const json& checkpoint = status.at("checkpoint");
  out << "checkpoint: "
      << (checkpoint.at("last").is_null() ? "none yet" : checkpoint.at("last").get<std::string>());
  if (!checkpoint.at("problem").get<std::string>().empty()) {
    out << "; the last round failed: " << checkpoint.at("problem").get<std::string>();
  }
  out << "\n";
  const json refused = checkpoint.value("refused", json::object());
  for (const auto& [name, why] : refused.items()) {
    out << "checkpoint " << name << " is refused: " << why.get<std::string>() << "\n";
  }
  for (const json& evaluation : status.at("evaluations")) {
    out << EpochText({{"epoch", evaluation.at("epoch")}, {"test", evaluation.at("metrics")}},
                     number("epochs"))
        << "\n";
  }
}

// Reads a summary.json as text, since it may come from another version.
std::string EndText(const std::string& title, const json& summary) {
  const auto text = [&](const char* key) {
    const auto it = summary.find(key);
    if (it == summary.end()) return std::string("?");
    return it->is_string() ? it->get<std::string>() : it->dump();
  };
  std::string lines = absl::StrCat(title, text("status"), " (", text("reason"), "), ",
                                   text("samples"), " samples\n");
  for (const auto& [key, said] : {std::pair("waiting", "what it waited for: "),
                                  std::pair("last_failure", "the last failure: ")}) {
    if (summary.contains(key)) absl::StrAppend(&lines, said, text(key), "\n");
  }
  const auto metrics = summary.find("metrics");
  if (metrics == summary.end() || !metrics->is_object()) return lines;
  for (const auto& [set, values] : metrics->items()) {
    if (!values.is_object()) continue;
    for (const auto& [name, value] : values.items()) {
      absl::StrAppend(&lines, set, " ", name, ": ", TextOf(value), "\n");
    }
  }
  return lines;
}

// Reads the summary at `path`. Returns null if there is none, and says so if the file is something
// else.
json SummaryAt(Files& files, const std::string& path, std::ostream& err) {
  const absl::StatusOr<std::string> text = files.ReadWhole(path);
  if (!text.ok()) return nullptr;
  json summary = JsonOf(*text);
  if (summary.is_object() && summary.contains("status") && summary["status"].is_string()) {
    return summary;
  }
  err << "paracord status: " << path << " is no summary of a job: it is left out\n";
  return nullptr;
}

// Shows the directory's facts when no coordinator answers: the end of the job, and the newest
// checkpoint.
int ShowDir(Files& files, const std::string& dir, const absl::Status& why, bool as_json,
            std::ostream& out, std::ostream& err) {
  json known = {{"coordinator", nullptr}, {"problem", std::string(why.message())}};
  json summary = SummaryAt(files, dir + "/" + kSummaryName, err);
  const bool ended = summary.is_object();
  // A job that was done goes on, for more epochs, and has not finished again.
  if (!ended || summary["status"] != "done") {
    json before = SummaryAt(files, dir + "/" + kDoneSummaryName, err);
    if (before.is_object()) known["done_before"] = std::move(before);
  }
  if (ended) known["summary"] = std::move(summary);
  const auto newest = NewestCheckpoint(files, dir);
  if (newest.has_value()) {
    known["checkpoint"] = {
        {"name", newest->name.ToString()},   {"step", newest->name.step},
        {"position", PositionText(*newest)}, {"created_unix_ms", newest->created_unix_ms},
        {"healthy", newest->healthy()},      {"complete", newest->complete}};
  }
  if (!ended && !newest.has_value() && !known.contains("done_before")) {
    const bool there = files.List(dir).ok();
    return Fail("status",
                absl::StrCat("no coordinator answers (", std::string(why.message()), "), and ", dir,
                             there ? " holds neither a summary nor a checkpoint" : " is not there"),
                there ? ExitCode::kPeerLost : ExitCode::kConfiguration, err);
  }
  if (as_json) {
    out << TextOf(known) << "\n";
  } else {
    out << (ended ? EndText("the job has ended: ", known["summary"])
                  : absl::StrCat("no coordinator answers: ", std::string(why.message()), "\n"));
    if (ended && absl::IsUnavailable(why)) out << "but now: " << why.message() << "\n";
    if (known.contains("done_before")) {
      out << EndText("before that it had ended: ", known["done_before"]);
    }
    if (newest.has_value()) {
      out << "newest checkpoint: " << newest->name.ToString() << ", " << PositionText(*newest)
          << ", " << AgeText(UnixMs() - newest->created_unix_ms) << " old"
          << (newest->healthy() ? "" : ", NOT HEALTHY") << (newest->complete ? ", complete" : "")
          << "\n";
    }
  }
  return static_cast<int>(ended ? ExitCode::kDone : ExitCode::kPeerLost);
}

// The failed question to the coordinator of the job in `dir`. An address that names no machine is
// the cause where it leads elsewhere than to this machine, or may be.
absl::Status WithAddressProblem(const std::string& dir, const std::string& address,
                                const absl::Status& failed) {
  const absl::Status named = CheckNamesMachine(dir, address);
  if (named.ok()) return failed;
  const bool refused = absl::IsFailedPrecondition(failed);  // before anybody was asked
  return absl::Status(failed.code(),
                      absl::StrCat(std::string(named.message()), refused ? "" : " (",
                                   refused ? "" : std::string(failed.message()) + ")"));
}

// Where a job is asked for, and how its status is shown.
struct Asked {
  std::string address, dir;
  bool as_json = false;
};

// Shows the status as it is now. Sets `ended` when the job has ended.
int ShowNow(Files& files, const GrpcOptions& options, Asked asked, std::ostream& out,
            std::ostream& err, bool& ended) {
  const std::string& dir = asked.dir;
  if (!dir.empty()) {
    asked.address = AddressIn(files, dir);
    const absl::Status checked = asked.address.empty()
                                     ? absl::OkStatus()
                                     : CheckAddress(asked.address, dir + "/coordinator.address");
    if (!checked.ok()) return ShowDir(files, dir, checked, asked.as_json, out, err);
  }
  absl::StatusOr<json> status = absl::NotFoundError(dir + "/coordinator.address is not there");
  if (!asked.address.empty()) {
    status = Ask(options, asked.address, asked.as_json ? 0 : kNoHistory);
  }
  if (status.ok() && !dir.empty()) {
    const absl::Status checked = CheckOfDir(files, dir, asked.address, *status);
    if (!checked.ok()) status = checked;
  }
  if (!status.ok()) {
    if (!dir.empty()) status = WithAddressProblem(dir, asked.address, status.status());
    if (dir.empty()) return Fail("status", status.status().message(), ExitCode::kPeerLost, err);
    const int code = ShowDir(files, dir, status.status(), asked.as_json, out, err);
    ended = code == static_cast<int>(ExitCode::kDone);
    return code;
  }
  ended = (*status)["phase"] == "ended";
  if (asked.as_json) {
    out << status->dump() << "\n";
    return 0;
  }
  try {
    Print(*status, out);
  } catch (const json::exception& error) {
    return Fail(
        "status",
        absl::StrCat("the coordinator at ", asked.address, " answers as another version does (",
                     error.what(), "): --json shows it"),
        ExitCode::kVersion, err);
  }
  return 0;
}

}  // namespace

int RunStatus(Args args, std::ostream& out, std::ostream& err) {
  std::string address;
  std::string dir;
  bool as_json = false, watch = false;
  Flags flags(
      "paracord status",
      "Asks a coordinator how its job goes. With --dir and no coordinator: what is known of it.");
  flags.String("address", "A", "of the coordinator", &address);
  flags.String("dir", "DIR", "the job's directory, instead of an address", &dir);
  flags.Switch("json", "the status as one JSON object", &as_json);
  flags.Switch("watch", "show it again every two seconds until the job has ended", &watch);
  SecurityOptions security;
  AddSecurityFlags(flags, security);
  const auto code = flags.ParseOrExit(args, "paracord status", out, err);
  if (code.has_value()) return *code;
  if (address.empty() == dir.empty()) {
    return Fail("status", "give either --address or --dir", ExitCode::kConfiguration, err);
  }
  if (const absl::Status checked =
          address.empty() ? absl::OkStatus() : CheckAddress(address, "--address");
      !checked.ok()) {
    return Fail("status", checked.message(), ExitCode::kConfiguration, err);
  }
  // In a cluster without ps the coordinator may have a worker's certificate.
  const char* const config = std::getenv("TF_CONFIG");
  const auto cluster = ParseTfConfig(config == nullptr ? "" : config);
  if (cluster.ok() && cluster->has_value()) security.nodes = NodeRightsIn(**cluster);
  GrpcOptions options;
  absl::Status safe = SetUpSecurity(security, /*task=*/"", /*listens=*/false, options);
  if (safe.ok() && !address.empty()) {
    safe = CheckPlainText(security, address, "the coordinator at");
  }
  if (!safe.ok()) return Fail("status", safe.message(), ExitCode::kConfiguration, err);
  AllFiles files;
  if (!dir.empty()) dir = AbsolutePath(dir);
  bool ended = false;
  while (true) {
    std::ostringstream shown;
    const int now = ShowNow(files, options, {address, dir, as_json}, shown, err, ended);
    if (watch && !as_json) out << kClearScreen;
    out << shown.str() << std::flush;
    if (!watch || ended) return now;
    std::this_thread::sleep_for(kWatchAgain);
  }
}

}  // namespace paracord
