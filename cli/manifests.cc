#include "cli/manifests.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace paracord {
namespace {

using nlohmann::json;

constexpr std::string_view kMark = "# render: ";
constexpr size_t kConfigMapBytesMax = 1000 * 1024;  // below 1 MiB, which includes metadata
constexpr char kDataDirectory[] = "/data";

bool IsUrl(const std::string& storage) { return absl::StrContains(storage, "://"); }

// Replaces the prefix `directory` of every string below `value` that is a path by /data.
void MovePaths(json& value, const std::string& directory) {
  if (value.is_string()) {
    const std::string path = value.get<std::string>();
    const std::string prefix = directory == "/" ? directory : directory + "/";
    if (absl::StartsWith(path, prefix)) {
      value = absl::StrCat(kDataDirectory, "/", path.substr(prefix.size()));
    }
  } else if (value.is_structured()) {
    for (json& each : value) MovePaths(each, directory);
  }
}

// Whether workers hold the variables, as the manifest of nodes has it.
bool AreNodes(const ManifestOptions& options) { return options.ps == 0; }

// Whether an autoscaler sets the number of workers by the use of their processors, which GPUs make
// meaningless.
bool HasAutoscaler(const ManifestOptions& options) { return options.spot && options.gpus == 0; }

std::string ClusterJson(const ManifestOptions& options) {
  if (AreNodes(options)) {
    json workers = json::array();
    for (uint64_t i = 0; i < options.workers; ++i) {
      workers.push_back(
          absl::StrCat(options.name, "-worker-", i, ".", options.name, "-worker:7400"));
    }
    return json({{"cluster", {{"worker", std::move(workers)}}}}).dump(2);
  }
  json ps = json::array();
  for (uint64_t i = 0; i < options.ps; ++i) {
    ps.push_back(absl::StrCat(options.name, "-ps-", i, ".", options.name, "-ps:7401"));
  }
  const json chief = json::array({options.name + "-coordinator:7400"});
  return json({{"cluster", {{"chief", chief}, {"ps", ps}}}}).dump(2);
}

std::string Indented(const std::string& text) {
  std::string lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::StrAppend(&lines, "    ", line, "\n");
  }
  return lines;
}

absl::StatusOr<std::string> ConfigMap(const Job& job, const std::string& directory,
                                      const ManifestOptions& options) {
  json document = json::parse(JobToJson(job));
  // A consistency that only the strategy or the cluster implies may differ in the new cluster.
  if (!job.guarantees.consistency_said) {
    for (const char* key : {"consistency", "recovery"}) document.erase(key);
  }
  const std::string model = std::exchange(document["model"], "model.json").dump();
  for (const char* key : {"data", "initial_weights"}) {
    if (document.contains(key)) MovePaths(document[key], directory);
  }
  const std::string job_json = document.dump(2), cluster_json = ClusterJson(options);
  const size_t bytes = model.size() + job_json.size() + cluster_json.size();
  if (bytes > kConfigMapBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job comes to ", bytes, " bytes with its model, and a ConfigMap holds ",
                     kConfigMapBytesMax,
                     ": put the job file into the image or onto a volume, and "
                     "change --job of the coordinator"));
  }
  return absl::StrCat("# The cluster as TF_CONFIG has it, the job, and the model.\n",
                      "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ", options.name,
                      "-job\n  labels: {app.kubernetes.io/name: paracord, ",
                      "app.kubernetes.io/instance: ", options.name, "}\ndata:\n  cluster.json: |\n",
                      Indented(cluster_json), "  job.json: |\n", Indented(job_json),
                      "  model.json: |\n", Indented(model));
}

// A probe's command up to its flags, without and with TLS.
constexpr char kProbe[] = "[paracord, health, ";
constexpr char kTlsProbe[] =
    "[paracord, health, --tls-cert=/tls/tls.crt, --tls-key=/tls/tls.key, --tls-ca=/tls/ca.crt, ";

// Returns the non-empty items as lines of YAML.
std::string Lines(const std::vector<std::string>& items) {
  std::string lines;
  for (const std::string& item : items) {
    if (!item.empty()) absl::StrAppend(&lines, lines.empty() ? "" : "\n", item);
  }
  return lines;
}

// Adds the pods' labels, their identity, and the nodes where they may run.
void AddPods(const ManifestOptions& options, bool worker,
             std::map<std::string, std::string>& values) {
  values.merge(PodValues(options.pods));
  if (!worker || options.gpus == 0) return;
  values["tolerations"] = Lines(
      {values["tolerations"], "- {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}"});
}

// Adds how much of a resource is asked for, where it is not the base's.
void AddAmounts(const ManifestOptions& options, std::map<std::string, std::string>& values) {
  values["ttl"] = options.ttl_s == 0 ? "" : absl::StrCat(options.ttl_s);
  if (!options.cpu.empty()) values["cpu"] = absl::StrCat("\"", options.cpu, "\"");
  if (!options.memory.empty()) values["memory"] = options.memory;
  if (!options.ps_cpu.empty() || !options.ps_memory.empty()) {
    const std::string memory = options.ps_memory.empty() ? kMemoryDefault : options.ps_memory;
    values["requests"] = absl::StrCat("{cpu: ", options.ps_cpu.empty() ? "500m" : options.ps_cpu,
                                      ", memory: ", memory, "}");
    values["limits"] = absl::StrCat("{memory: ", memory, "}");
  }
}

// Adds the port for the daemons' metrics and the coordinator's page.
void AddHttp(const ManifestOptions& options, const std::string& role,
             std::map<std::string, std::string>& values) {
  constexpr char kFlag[] = "- --http=0.0.0.0:7480";
  constexpr char kPort[] = "{name: http, containerPort: 7480}";
  // The pods of nodes are alike: all get the coordinator's port.
  const bool coordinator = role == "coordinator" || AreNodes(options);
  const bool shows = options.monitoring || (options.http && coordinator);
  values["http"] = shows ? kFlag : "";
  values["metrics"] = shows ? kFlag : "";
  values["metrics-ports"] = shows ? absl::StrCat("ports: [", kPort, "]") : "";
  if (shows) {
    values["ports"] = absl::StrCat("[{name: grpc, containerPort: ", coordinator ? "7400" : "7401",
                                   "}, ", kPort, "]");
  }
  values["scheme"] = "";
  if (!options.monitoring) return;
  values["service-ports"] = absl::StrCat("[{name: grpc, port: ", coordinator ? "7400" : "7401",
                                         "}, {name: http, port: 7480}]");
  if (!options.tls) return;
  values["scheme"] =
      absl::StrCat("scheme: https\ntlsConfig: {serverName: ", options.name,
                   ", ca: {secret: {name: ", options.name,
                   AreNodes(options) ? "-worker" : "-coordinator", "-tls, key: ca.crt}}}");
}

// Adds the kind of object that starts and restarts the ps or nodes.
void AddKindOfPs(const ManifestOptions& options, std::map<std::string, std::string>& values) {
  const std::string role = AreNodes(options) ? "worker" : "ps";
  const uint64_t count = AreNodes(options) ? options.workers : options.ps;
  values["ps"] = absl::StrCat(count);
  values["ps-job"] = "";
  values["ps-pod"] = "";
  if (!options.ps_job) return;
  values["ps-version"] = "batch/v1";
  values["ps-kind"] = "Job";
  values["leader"] = "batch.kubernetes.io/job-completion-index: \"0\"";
  values["budget"] = absl::StrCat("minAvailable: ", count - 1);  // a Job has no scale
  values["ps"] = values["of-set"] = "";
  // A ps exits with the coordinator's exit code, and a restart after these codes would end the same
  // way.
  values["ps-job"] = Lines(
      {values["suspend"], values["ttl"].empty() ? "" : "ttlSecondsAfterFinished: " + values["ttl"],
       absl::StrCat("completions: ", count), absl::StrCat("parallelism: ", count),
       absl::StrCat("completionMode: Indexed  # pods are called NAME-", role,
                    "-0, ..., and so are their hosts"),
       "backoffLimit: 1000000", "podFailurePolicy:", "  rules:", "  - action: FailJob",
       absl::StrCat("    onExitCodes: {containerName: ", role,
                    ", operator: In, values: [1, 2, 4, 5, 6]}"),
       "    onPodConditions: []"});
  values["ps-pod"] = absl::StrCat("restartPolicy: Never\nsubdomain: ", options.name, "-", role);
}

// The labels of the clouds' spot nodes (Google's, Amazon's, Microsoft's), as a match expression of
// YAML: `op` is In or NotIn.
std::vector<std::string> SpotNodes(const std::string& op) {
  return {"{key: cloud.google.com/gke-spot, operator: " + op + ", values: [\"true\"]}",
          "{key: eks.amazonaws.com/capacityType, operator: " + op + ", values: [SPOT]}",
          "{key: kubernetes.azure.com/scalesetpriority, operator: " + op + ", values: [spot]}"};
}

// Adds the affinity for spot nodes, which workers prefer and other pods avoid, and replaces the
// workers' Job by a Deployment.
void AddSpot(const ManifestOptions& options, const std::string& role,
             std::map<std::string, std::string>& values) {
  for (const char* key : {"worker-selector", "worker-stay", "worker-affinity", "node-affinity"}) {
    values[key] = "";
  }
  values["replicas-min"] = absl::StrCat(options.workers);
  values["replicas-max"] = absl::StrCat(4 * options.workers);
  if (!options.spot) return;
  if (role != "worker") {
    values["node-affinity"] = absl::StrCat(
        "nodeAffinity:\n  requiredDuringSchedulingIgnoredDuringExecution:\n    nodeSelectorTerms:\n"
        "    - matchExpressions:\n      - ",
        absl::StrJoin(SpotNodes("NotIn"), "\n      - "));
    return;
  }
  values["worker-version"] = "apps/v1";
  values["worker-kind"] = "Deployment";
  values["worker-restart"] = "Always";
  values["worker-of-job"] = values["workers"] = values["ttl"] = "";
  values["worker-stay"] = "- --stay  # a Deployment starts again whatever exits";
  values["worker-selector"] =
      absl::StrCat(HasAutoscaler(options) ? "" : absl::StrCat("replicas: ", options.workers, "\n"),
                   "selector:\n  matchLabels: {app.kubernetes.io/instance: ", options.name,
                   ", app.kubernetes.io/component: worker}");
  std::string prefer =
      "affinity:\n  nodeAffinity:\n    preferredDuringSchedulingIgnoredDuringExecution:";
  for (const std::string& nodes : SpotNodes("In")) {
    absl::StrAppend(&prefer, "\n    - weight: 100\n      preference:\n        matchExpressions: [",
                    nodes, "]");
  }
  values["worker-affinity"] = prefer;
  values["tolerations"] =
      Lines({values["tolerations"], "- {key: cloud.google.com/gke-spot, operator: Exists}",
             "- {key: kubernetes.azure.com/scalesetpriority, operator: Exists}"});
}

// Adds the Kueue queue that admits the Jobs.
void AddQueue(const ManifestOptions& options, std::map<std::string, std::string>& values) {
  values["suspend"] = "";
  if (options.queue.empty()) return;
  values["suspend"] = "suspend: true  # until the queue has room";
  values["labels"] =
      absl::StrCat("{app.kubernetes.io/name: paracord, app.kubernetes.io/instance: ", options.name,
                   ", kueue.x-k8s.io/queue-name: ", options.queue, "}");
}

// Adds where checkpoints are.
std::map<std::string, std::string> WithStorage(const ManifestOptions& options,
                                               std::map<std::string, std::string> values) {
  if (IsUrl(options.storage)) {
    values["dir"] = options.storage;
    values["job-volume"] = "emptyDir: {}";
  } else if (!options.storage.empty()) {
    values["job-volume"] =
        absl::StrCat("persistentVolumeClaim: {claimName: ", options.storage, "}");
  }
  return values;
}

// Returns the values for the manifest of a role; "" for a role without pods.
std::map<std::string, std::string> ValuesOf(const Job& job, const ManifestOptions& options,
                                            const std::string& role) {
  // Beyond the job's own drain_ms; a node finishes its batch as well.
  const int64_t grace_margin_s = AreNodes(options) ? 30 : 15;
  std::map<std::string, std::string> values = {
      {"image", options.image},
      {"workers", absl::StrCat(options.workers)},
      {"grace", absl::StrCat((job.timeouts.drain_ms + 999) / 1000 + grace_margin_s)},
      {"gpus", ""},
      {"device", ""},
      {"programs", ""},
      {"mounts", ""},
      {"volumes", ""},
      {"tls", ""}};
  if (options.programs) values["programs"] = "- --allow-programs";
  if (options.gpus > 0) {
    values["gpus"] = absl::StrCat("nvidia.com/gpu: ", options.gpus);
    values["device"] = options.gpus == 1 ? "- --device=cuda:0" : "- --device=cuda:all";
  } else if (job.guarantees.stages.count > 1) {
    values["device"] = absl::StrCat("- --device=cpu:", job.guarantees.stages.count);
  }
  AddPods(options, role == "worker", values);
  AddAmounts(options, values);
  AddHttp(options, role, values);
  AddQueue(options, values);
  AddKindOfPs(options, values);
  AddSpot(options, role, values);
  std::string data_mount, data_volume, tls_mount, tls_volume;
  if (!options.data.empty()) {
    data_mount = "- {name: data, mountPath: /data, readOnly: true}";
    data_volume = absl::StrCat("- name: data\n  persistentVolumeClaim: {claimName: ", options.data,
                               ", readOnly: true}");
  }
  if (options.tls) {
    values["security"] = "--tls-cert=/tls/tls.crt";
    values["tls"] = "- --tls-key=/tls/tls.key\n- --tls-ca=/tls/ca.crt";
    tls_mount = "- {name: tls, mountPath: /tls, readOnly: true}";
    tls_volume = absl::StrCat("- name: tls\n  secret: {secretName: ", options.name, "-", role,
                              "-tls, defaultMode: 0440}");
  }
  if (role == "export") {  // calls nobody, and reads no data
    values["out"] = options.export_to;
    return WithStorage(options, std::move(values));
  }
  values["mounts"] = Lines({data_mount, tls_mount});
  values["volumes"] = Lines({data_volume, tls_volume});
  return WithStorage(options, std::move(values));
}

std::string InNamespace(const std::string& manifests, const ManifestOptions& options) {
  if (options.name_space.empty()) return manifests;
  return absl::StrReplaceAll(
      manifests,
      {{"\nmetadata:\n", absl::StrCat("\nmetadata:\n  namespace: ", options.name_space, "\n")}});
}

// Returns the part of a line before its value: "- --dir=", "image: ", or only the indent.
std::string_view BeforeValue(std::string_view line, const std::string& key) {
  if (key == "job-volume" || key == "budget" || key == "leader")
    return line.substr(0, line.find_first_not_of(' '));
  if (key == "security") return line.substr(0, line.find("- ") + 2);
  const size_t equals = line.find('=');
  if ((key == "dir" || key == "out") && equals != std::string_view::npos)
    return line.substr(0, equals + 1);
  return line.substr(0, line.find(": ") + 2);
}

}  // namespace

absl::StatusOr<std::string> FillIn(std::string_view text, const std::string& name,
                                   const std::map<std::string, std::string>& values) {
  static const std::set<std::string> kOptional = {
      "dir",           "job-volume",     "security",    "requests",       "limits",
      "cpu",           "memory",         "ports",       "labels",         "storage-size",
      "service-ports", "budget",         "of-set",      "ps-kind",        "ps-version",
      "leader",        "worker-version", "worker-kind", "worker-restart", "worker-of-job"};
  std::string filled;
  for (const absl::string_view each : absl::StrSplit(std::string(text), '\n')) {
    const std::string line = absl::StrReplaceAll(each, {{std::string(kExampleName), name}});
    const size_t mark = line.find(kMark);
    if (mark == std::string::npos) {
      absl::StrAppend(&filled, line, "\n");
      continue;
    }
    const std::string key = line.substr(mark + kMark.size());
    const std::string before =
        std::string(absl::StripTrailingAsciiWhitespace(line.substr(0, mark)));
    const auto value = values.find(key);
    if (value == values.end()) {
      if (!kOptional.contains(key)) {
        return absl::FailedPreconditionError("a manifest has an unknown mark: " + line);
      }
      absl::StrAppend(&filled, before, "\n");
    } else if (!before.empty() && !value->second.empty()) {
      absl::StrAppend(&filled, std::string(BeforeValue(before, key)), value->second, "\n");
    } else {
      if (value->second.empty()) continue;
      for (const absl::string_view put : absl::StrSplit(value->second, '\n')) {
        absl::StrAppend(&filled, std::string(mark, ' '), put, "\n");
      }
    }
  }
  while (absl::EndsWith(filled, "\n\n")) filled.pop_back();
  return filled;
}

std::string ObjectName(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      name += absl::ascii_tolower(static_cast<unsigned char>(c));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  name.resize(std::min(name.size(), kObjectNameBytesMax));
  while (!name.empty() && name.back() == '-') name.pop_back();
  // A service's name is a host name, which begins with a letter.
  if (!name.empty() && absl::ascii_isdigit(static_cast<unsigned char>(name.front()))) {
    return ObjectName(absl::StrCat("job-", name));
  }
  return name;
}

absl::StatusOr<std::string> KubernetesManifests(const Job& job, const std::string& directory,
                                                const ManifestOptions& options) {
  ASSIGN_OR_RETURN(std::string all, ConfigMap(job, directory, options));
  std::vector<std::pair<std::string, std::string>> manifests = {{"", k_network_manifest}};
  if (AreNodes(options)) {
    manifests.push_back({"worker", k_leader_manifest});
    manifests.push_back({"worker", k_nodes_manifest});
  } else {
    manifests.push_back({"coordinator", k_coordinator_manifest});
    manifests.push_back({"ps", k_ps_manifest});
    manifests.push_back({"worker", k_worker_manifest});
  }
  if (options.monitoring) {
    if (!AreNodes(options)) manifests.push_back({"", k_monitors_manifest});
    manifests.push_back({"", k_pods_manifest});
    manifests.push_back({"", k_metrics_manifest});
  }
  if (!options.export_to.empty()) manifests.push_back({"export", k_export_manifest});
  if (HasAutoscaler(options)) manifests.push_back({"", k_autoscaler_manifest});
  for (auto& [role, manifest] : manifests) {
    if (options.tls) manifest = absl::StrReplaceAll(manifest, {{kProbe, kTlsProbe}});
    ASSIGN_OR_RETURN(const std::string filled,
                     FillIn(manifest, options.name, ValuesOf(job, options, role)));
    absl::StrAppend(&all, "---\n", filled);
  }
  return InNamespace(all, options);
}

absl::StatusOr<std::string> StorageManifest(const ManifestOptions& options) {
  std::map<std::string, std::string> values = {{"storage-class", ""}};
  if (!options.storage_class.empty()) {
    values["storage-class"] = "storageClassName: " + options.storage_class;
  }
  if (!options.storage_size.empty()) {
    values["storage-size"] = absl::StrCat("{requests: {storage: ", options.storage_size, "}}");
  }
  ASSIGN_OR_RETURN(const std::string claim, FillIn(k_storage_manifest, options.name, values));
  return InNamespace(claim, options);
}

}  // namespace paracord
