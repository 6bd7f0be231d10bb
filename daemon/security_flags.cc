#include "daemon/security_flags.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/nodes.h"
#include "objects/all_files.h"

namespace paracord {

void AddSecurityFlags(Flags& flags, SecurityOptions& options) {
  flags.String("tls-cert", "FILE", "use TLS, and prove with this certificate (PEM) who this is",
               &options.cert);
  flags.String("tls-key", "FILE", "the private key of --tls-cert (PEM)", &options.key);
  flags.String("tls-ca", "FILE", "use TLS, and believe the certificates that these sign (PEM)",
               &options.ca);
  flags.String("tls-crl", "FILE",
               "believe no certificate that these lists revoke (PEM); read again when it changes",
               &options.crl);
  flags.String("token-file", "FILE", "let in, or be let in, by this secret over TLS",
               &options.token_file);
  flags.String("cluster-name", "NAME",
               "the cluster in the certificates of peers (with --tls-cert: the own one's)",
               &options.cluster);
  flags.Switch("insecure", "allow plain text, without any check, to and from other machines",
               &options.insecure);
}

std::vector<std::string> SecurityArguments(const SecurityOptions& options) {
  std::vector<std::string> arguments;
  const auto add = [&](const std::string& flag, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {flag, value});
  };
  add("--tls-cert", options.cert);
  add("--tls-key", options.key);
  add("--tls-ca", options.ca);
  add("--tls-crl", options.crl);
  add("--token-file", options.token_file);
  add("--cluster-name", options.cluster);
  if (options.insecure) arguments.push_back("--insecure");
  return arguments;
}

std::vector<std::string> OpenSecrets(const SecurityOptions& options) {
  std::vector<std::string> lines;
  for (const auto& [flag, path] :
       {std::pair("--tls-key ", options.key), {"--token-file ", options.token_file}}) {
    struct stat facts {};
    if (path.empty() || ::stat(path.c_str(), &facts) != 0 || (facts.st_mode & S_IROTH) == 0)
      continue;
    lines.push_back(absl::StrCat(flag, path,
                                 " can be read by every user of this host, who may then "
                                 "speak for this process: chmod o-rwx, and replace it"));
  }
  return lines;
}

absl::Status SetUpSecurity(const SecurityOptions& options, const std::string& task, bool listens,
                           GrpcOptions& grpc) {
  RETURN_IF_ERROR(CheckSecurityOptions(options, listens));
  grpc.insecure = options.insecure;
  if (!options.tls()) return absl::OkStatus();
  static AllFiles files;
  ASSIGN_OR_RETURN(grpc.credentials, Credentials::Load(options, files));
  const std::optional<PeerIdentity> own = grpc.credentials->Current()->own;
  if (task.empty() || !own.has_value()) return absl::OkStatus();
  const std::string role = task.substr(0, task.find(':'));
  const bool same = own->Task() == task || own->Task() == role ||
                    (own->role == PeerRole::kCoordinator && role == NameOf(own->role));
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--tls-cert ", options.cert, " is of ", own->Uri(), ", and this is ", task));
}

NodeRights NodeRightsIn(const Cluster& cluster) {
  if (!HasNodes(cluster)) return {};
  // A cluster with a gap in its ps has no nodes that could start.
  return {.ps = PsAddressesOf(cluster).value_or(std::vector<std::string>()),
          .coordinator = cluster.coordinator.empty()};
}

absl::Status CheckPlainText(const SecurityOptions& options, const std::string& address,
                            const std::string& key) {
  if (options.tls() || options.insecure || StaysHere(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      key, " ", address,
      " is on another machine: give --tls-cert, --tls-key and --tls-ca, or give --insecure, which "
      "lets everybody who reaches it read and change the job"));
}

}  // namespace paracord
