// paracord doctor: problems of this host, and their remedies.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/checkpoint_choice.h"
#include "cli/commands.h"
#include "cli/doctor_checks.h"
#include "cli/own_folder.h"
#include "cli/status_watch.h"
#include "common/files.h"
#include "common/steady_ms.h"
#include "config/cluster.h"
#include "config/flags.h"
#include "coordinator/rival.h"
#include "daemon/security_flags.h"
#include "net/grpc/network.h"
#include "objects/all_files.h"
#include "security/tls_context.h"
#include "storage/chain.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

struct DoctorFlags {
  std::string cluster_file;
  std::string task;
  std::string dir;
  std::vector<std::string> addresses;
  std::string device = "auto";
};

// Returns the cluster of --cluster or TF_CONFIG, with the task of --task; an empty cluster without
// both.
absl::StatusOr<Cluster> ClusterOf(Files& files, const DoctorFlags& flags) {
  std::string json;
  if (!flags.cluster_file.empty()) {
    absl::StatusOr<std::string> text = files.ReadWhole(flags.cluster_file);
    if (!text.ok()) return text.status();
    json = *std::move(text);
  } else if (const char* config = std::getenv("TF_CONFIG"); config != nullptr) {
    json = config;
  }
  absl::StatusOr<std::optional<Cluster>> parsed = ParseTfConfig(json);
  if (!parsed.ok()) return parsed.status();
  Cluster cluster = parsed->value_or(Cluster());
  if (flags.task.empty()) return cluster;
  absl::StatusOr<Task> task = ParseTask(flags.task);
  if (!task.ok()) return task.status();
  cluster.task = *task;
  return cluster;
}

void CheckCluster(Network& network, const Cluster& cluster, std::vector<Finding>& found) {
  const auto is_ours = [&](Role role, uint32_t index) {
    return cluster.task.has_value() && cluster.task->role == role &&
           (role == Role::kCoordinator || cluster.task->index == index);
  };
  if (!cluster.coordinator.empty()) {
    found.push_back(
        CheckPeer(network, "cluster.chief", cluster.coordinator, is_ours(Role::kCoordinator, 0)));
  }
  for (uint32_t i = 0; i < cluster.ps.size(); ++i) {
    if (cluster.ps[i].empty()) continue;
    found.push_back(CheckPeer(network, absl::StrCat("cluster.ps[", i, "]"), cluster.ps[i],
                              is_ours(Role::kPs, i)));
  }
}

// Loads the credentials that the flags name, and looks at the own certificate.
void CheckSecurity(Files& files, const SecurityOptions& security, GrpcOptions& options,
                   std::vector<Finding>& found) {
  if (!security.cert.empty()) {
    const absl::StatusOr<std::string> pem = files.ReadWhole(security.cert);
    const auto facts =
        pem.ok() ? ReadCertificate(*pem, "--tls-cert " + security.cert) : pem.status();
    if (facts.ok()) {
      found.push_back(CheckCertificate(security.cert, facts->expires_unix_s, UnixMs()));
      if (found.back().level == Finding::Level::kWrong) return;
    }
  }
  for (const std::string& open : OpenSecrets(security)) {
    found.push_back({Finding::Level::kDoubtful, "secrets", open, "let its owner alone read it"});
  }
  const absl::Status loaded = SetUpSecurity(security, /*task=*/"", /*listens=*/false, options);
  if (loaded.ok()) {
    if (options.credentials == nullptr) return;
    const std::string problem = options.credentials->Current()->own_problem;
    if (problem.empty()) return;
    found.push_back({Finding::Level::kWrong, "certificate", problem,
                     "take a certificate that this CA has signed (deploy/certs makes the three "
                     "files of a task), or add the other CA to --tls-ca on every host"});
    return;
  }
  found.push_back({Finding::Level::kWrong, "credentials", std::string(loaded.message()),
                   "mend these files or flags: deploy/certs makes the three files of a task"});
}

// Reports checkpoints that the files of the job in `dir` mention and that are lost.
void CheckCheckpoints(Files& files, const std::string& dir, std::vector<Finding>& found) {
  const std::string checkpoints = CheckpointsDirectory(dir);
  const auto names = ListCheckpoints(files, checkpoints);
  if (!names.ok() || names->empty()) return;
  const CheckpointName& newest = names->front();
  if (LacksLastCheckpoint(files, dir, newest)) {
    found.push_back({Finding::Level::kWrong, "checkpoint",
                     absl::StrCat(kLastIsLost, "; the newest that is there is ", newest.ToString()),
                     "put it back from a copy; else train goes on from that one"});
  }
  for (const CheckpointName& name : *names) {
    const std::string directory = checkpoints + "/" + name.ToString();
    const absl::StatusOr<Manifest> manifest = ReadManifest(files, directory);
    if (!manifest.ok() || manifest->base.empty()) continue;
    if (IsCheckpoint(files, BaseOf(directory, *manifest))) continue;
    found.push_back({Finding::Level::kWrong, "checkpoint",
                     absl::StrCat(manifest->base, " is not there any more, and ", name.ToString(),
                                  " continues it"),
                     "put it back from a copy; without it no checkpoint that continues it can be "
                     "loaded"});
  }
}

// Reports what the job's coordinator says of copies and moves, if it answers.
void CheckRunningJob(Files& files, Network& network, const std::string& coordinator,
                     const std::string& dir, std::vector<Finding>& found) {
  constexpr int64_t kDeadlineMs = 3000;
  std::string address = coordinator;
  if (address.empty() && !dir.empty()) address = AddressIn(files, dir);
  if (!CheckAddress(address, "--dir").ok()) return;
  const auto status = AskStatus(network, address, kDeadlineMs);
  if (!status.ok()) return;
  try {
    std::ranges::move(CheckCopiesAndMove(*status), std::back_inserter(found));
  } catch (const nlohmann::json::exception& error) {
    found.push_back({Finding::Level::kWrong, "coordinator",
                     absl::StrCat(address, " answers as another version does: ", error.what()),
                     "run the same version everywhere"});
  }
}

// Returns how many findings are wrong.
int PrintFindings(const std::vector<Finding>& found, std::ostream& out) {
  int wrong = 0, doubtful = 0;
  for (const Finding& finding : found) {
    const bool is_wrong = finding.level == Finding::Level::kWrong;
    const bool is_fine = finding.level == Finding::Level::kFine;
    wrong += is_wrong ? 1 : 0;
    doubtful += !is_wrong && !is_fine ? 1 : 0;
    out << absl::StrFormat("%-5s %-14s %s\n",
                           is_fine    ? "ok"
                           : is_wrong ? "WRONG"
                                      : "look",
                           finding.topic, finding.text);
    if (!finding.remedy.empty()) out << "                     " << finding.remedy << "\n";
  }
  out << (wrong == 0 && doubtful == 0 ? std::string("nothing is wrong\n")
                                      : absl::StrCat(wrong, " wrong, ", doubtful, " to look at\n"));
  return wrong;
}

}  // namespace

int RunDoctor(Args args, std::ostream& out, std::ostream& err) {
  DoctorFlags own;
  Flags flags(
      "paracord doctor",
      "Looks at this host as a daemon would find it: limits, the job's directory, the\n"
      "addresses of the cluster, the device, the programs, the certificate, the copies and the\n"
      "move of a job that runs; says what is wrong and what to do about it. Exit code 0: nothing "
      "is wrong; 1: something is.");
  flags.String("cluster", "FILE", "the cluster, as TF_CONFIG has it (instead of TF_CONFIG)",
               &own.cluster_file);
  flags.String("task", "ROLE:INDEX", "which task of the cluster is to run here", &own.task);
  flags.String("dir", "DIR", "the job's directory", &own.dir);
  flags.Strings("address", "A", "of a daemon that should answer", &own.addresses);
  flags.String("device", "DEVICE", "what a worker here would compute on", &own.device);
  SecurityOptions security;
  AddSecurityFlags(flags, security);
  const auto code = flags.ParseOrExit(args, "paracord doctor", out, err);
  if (code.has_value()) return *code;
  AllFiles files;
  const absl::StatusOr<Cluster> cluster = ClusterOf(files, own);
  if (!cluster.ok()) {
    return Fail("doctor", cluster.status().message(), ExitCode::kConfiguration, err);
  }
  std::vector<Finding> found = CheckLimits();
  const absl::StatusOr<std::string> folder = OwnFolder();
  if (folder.ok()) std::ranges::move(CheckPrograms(*folder), std::back_inserter(found));
  found.push_back(CheckFailpoints());
  found.push_back(CheckDevice(own.device));
  if (!own.dir.empty()) {
    std::ranges::move(CheckJobDir(files, AbsolutePath(own.dir), UnixMs()),
                      std::back_inserter(found));
    CheckCheckpoints(files, AbsolutePath(own.dir), found);
  }
  GrpcOptions options;
  CheckSecurity(files, security, options, found);
  GrpcNetwork network(options);
  CheckCluster(network, *cluster, found);
  CheckRunningJob(files, network, cluster->coordinator,
                  own.dir.empty() ? "" : AbsolutePath(own.dir), found);
  for (const std::string& address : own.addresses) {
    found.push_back(CheckPeer(network, "--address", address, /*ours=*/false));
  }
  return PrintFindings(found, out) == 0 ? 0 : static_cast<int>(ExitCode::kFailed);
}

}  // namespace paracord
