#include "config/cluster.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "config/nearest.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kConfigBytesMax = 1 << 20;
constexpr int kDepthMax = 16;
constexpr size_t kTasksMax = 4096;
constexpr uint32_t kIndexMax = 65535;
constexpr size_t kHostBytesMax = 253;
constexpr size_t kUnixPathBytesMax = 107;  // sockaddr_un

struct JobName {
  std::string_view name;
  Role role;
};
// TensorFlow calls the coordinator "chief", and once called it "master".
constexpr JobName kJobNames[] = {{"chief", Role::kCoordinator},
                                 {"master", Role::kCoordinator},
                                 {"coordinator", Role::kCoordinator},
                                 {"worker", Role::kWorker},
                                 {"ps", Role::kPs},
                                 {"evaluator", Role::kEvaluator}};

std::vector<std::string_view> JobNameList() {
  std::vector<std::string_view> names;
  for (const JobName& job : kJobNames) names.push_back(job.name);
  return names;
}

std::optional<Role> FindRole(std::string_view name) {
  for (const JobName& job : kJobNames) {
    if (job.name == name) return job.role;
  }
  return std::nullopt;
}

// Takes digits only, where SimpleAtoi would take "+1" and " 1".
std::optional<uint32_t> ParseDigits(const std::string& text, size_t digits_max, uint32_t max) {
  uint32_t number = 0;
  const bool digits =
      !text.empty() && text.size() <= digits_max &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
  if (!digits || !absl::SimpleAtoi(text, &number) || number > max) return std::nullopt;
  return number;
}

std::optional<uint32_t> ParseIndex(const std::string& text) {
  return ParseDigits(text, 10, kIndexMax);
}

// Reads an index from a JSON number or string. A problem names the key.
std::optional<uint32_t> ReadIndex(const json& value, const std::string& key, Problems& problems) {
  std::optional<uint32_t> index;
  if (value.is_string()) index = ParseIndex(value.get<std::string>());
  if (value.is_number_unsigned() && value.get<uint64_t>() <= kIndexMax) {
    index = value.get<uint32_t>();
  }
  if (!index) {
    problems.Add(
        key, absl::StrCat("must be an index from 0 to ", kIndexMax, ", is ", JsonExcerpt(value)));
  }
  return index;
}

bool IsHostName(const std::string& host) {
  return !host.empty() && host.size() <= kHostBytesMax &&
         std::all_of(host.begin(), host.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
         });
}

// An address may have a zone: "fe80::1%eth0".
bool IsIpv6(const std::string& host) {
  const size_t percent = host.find('%');
  if (percent != std::string::npos && !IsHostName(host.substr(percent + 1))) return false;
  in6_addr unused;
  return inet_pton(AF_INET6, host.substr(0, percent).c_str(), &unused) == 1;
}

// Says why an address is malformed; "" if it is not.
std::string AddressProblem(const std::string& address) {
  if (address.empty()) return "is empty";
  if (absl::StartsWith(address, "unix:")) {
    const std::string path = address.substr(5);
    if (path.empty() || path[0] != '/') return "needs an absolute path after `unix:`";
    if (path.find('\0') != std::string::npos) return "has a zero byte in its path";
    if (path.size() > kUnixPathBytesMax) {
      return absl::StrCat("has a path of ", path.size(), " bytes; a unix socket takes at most ",
                          kUnixPathBytesMax);
    }
    return "";
  }
  if (absl::StrContains(address, "://")) return "must be host:port, without a scheme";
  if (absl::StrContains(address, ",")) return "must be one address";
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "has no port";
  const std::string host = address.substr(0, colon);
  if (!ParseDigits(address.substr(colon + 1), 5, 65535)) {
    return "has a port that is not a number from 0 to 65535";
  }
  if (host.empty()) return "has no host";
  if (host.front() == '[' || host.back() == ']') {
    const bool both = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (!both || !IsIpv6(host.substr(1, host.size() - 2))) return "has a malformed IPv6 address";
    return "";
  }
  if (absl::StrContains(host, ":")) return "has more than one colon; write IPv6 as [address]:port";
  if (!IsHostName(host)) return "has a malformed host";
  return "";
}

struct Entry {
  std::string key;  // "cluster.worker[1]"
  uint32_t index = 0;
  std::string address;
};

// One job of the cluster: a list of addresses, or an object {"index": address}.
struct JobEntries {
  std::string key;
  bool list = false;
  std::vector<Entry> entries;
};

class ClusterReader {
 public:
  explicit ClusterReader(Problems& problems) : problems_(problems) {}

  Cluster Read(const json& cluster, const std::string& key, const json* task);

 private:
  JobEntries ReadJob(const json& job, const std::string& key);
  void AddEntry(JobEntries& job, const std::string& key, uint32_t index, const json& address);
  void CheckDuplicates();
  std::optional<Task> ReadTask(const json& task);
  void PlaceOwnPs();
  void CheckOwnPlace();
  void Fill();

  Problems& problems_;
  std::map<Role, JobEntries> jobs_;
  size_t tasks_ = 0;
  Cluster cluster_;
};

Cluster ClusterReader::Read(const json& cluster, const std::string& key, const json* task) {
  JsonFields fields(cluster, key, problems_);
  for (const JobName& name : kJobNames) {
    const std::string job_key = std::string(name.name);
    const json* value = fields.FindValue(job_key);
    if (value == nullptr) continue;
    JobEntries job = ReadJob(*value, fields.PathOf(job_key));
    JobEntries& known = jobs_[name.role];
    if (job.entries.empty()) {
      if (known.entries.empty()) known = std::move(job);
    } else if (!known.entries.empty()) {
      fields.Problem(job_key, absl::StrCat("`", known.key, "` names the coordinator too"));
    } else {
      known = std::move(job);
    }
  }
  fields.ReportUnknown();
  if (tasks_ > kTasksMax) {
    problems_.Add(key, absl::StrCat("has ", tasks_, " tasks, more than ", kTasksMax));
    return Cluster();
  }
  CheckDuplicates();
  if (task != nullptr && !task->is_null()) cluster_.task = ReadTask(*task);
  if (cluster_.task) {
    PlaceOwnPs();
    CheckOwnPlace();
  }
  Fill();
  return std::move(cluster_);
}

JobEntries ClusterReader::ReadJob(const json& value, const std::string& key) {
  JobEntries job{key, value.is_array(), {}};
  if (value.is_array()) {
    for (size_t i = 0; i < value.size() && tasks_ <= kTasksMax; ++i) {
      AddEntry(job, absl::StrCat(key, "[", i, "]"), static_cast<uint32_t>(i), value[i]);
    }
  } else if (value.is_object()) {
    for (const auto& [name, address] : value.items()) {
      const std::string entry_key = absl::StrCat(key, ".", name);
      const std::optional<uint32_t> index = ReadIndex(json(name), entry_key, problems_);
      if (!index) continue;
      const auto same = std::find_if(job.entries.begin(), job.entries.end(),
                                     [&](const Entry& entry) { return entry.index == *index; });
      if (same != job.entries.end()) {
        problems_.Add(entry_key, absl::StrCat("`", same->key, "` has the same index"));
        continue;
      }
      AddEntry(job, entry_key, *index, address);
    }
  } else {
    problems_.Add(
        key, absl::StrCat("must be a list or an object of addresses, is ", JsonExcerpt(value)));
  }
  return job;
}

void ClusterReader::AddEntry(JobEntries& job, const std::string& key, uint32_t index,
                             const json& address) {
  ++tasks_;
  if (!address.is_string()) {
    return problems_.Add(key, absl::StrCat("must be an address, is ", JsonExcerpt(address)));
  }
  const std::string text = address.get<std::string>();
  const absl::Status status = CheckAddress(text, key);
  if (!status.ok()) return problems_.Add("", std::string(status.message()));
  if (absl::EndsWith(text, ":0") && !absl::StartsWith(text, "unix:")) {
    return problems_.Add(key,
                         absl::StrCat(JsonExcerpt(text), " has port 0, which nobody can dial"));
  }
  job.entries.push_back({key, index, text});
}

void ClusterReader::CheckDuplicates() {
  std::map<std::string, std::string> key_of;
  for (const auto& [role, job] : jobs_) {
    for (const Entry& entry : job.entries) {
      const auto [seen, added] = key_of.emplace(entry.address, entry.key);
      if (added) continue;
      problems_.Add(entry.key, absl::StrCat(JsonExcerpt(entry.address), " is the address of `",
                                            seen->second, "` too"));
    }
  }
}

std::optional<Task> ClusterReader::ReadTask(const json& value) {
  JsonFields fields(value, "task", problems_);
  if (!value.is_object()) return std::nullopt;
  const json* type = fields.FindValue("type");
  const json* index = fields.FindValue("index");
  if (type == nullptr && index == nullptr) return std::nullopt;  // a file that all tasks share
  if (type == nullptr) {
    fields.Problem("type", "is missing");
    return std::nullopt;
  }
  const std::optional<Role> role =
      type->is_string() ? FindRole(type->get_ref<const std::string&>()) : std::nullopt;
  if (!role) {
    const std::string wrong = type->is_string() ? type->get<std::string>() : "";
    fields.Problem("type", absl::StrCat("is ", JsonExcerpt(*type), ", which is no task type",
                                        NearestHint(wrong, JobNameList())));
    return std::nullopt;
  }
  if (index == nullptr) {
    if (*role == Role::kCoordinator) return Task{*role, 0};
    fields.Problem("index", "is missing");
    return std::nullopt;
  }
  const std::optional<uint32_t> number = ReadIndex(*index, "task.index", problems_);
  if (!number) return std::nullopt;
  return Task{*role, *number};
}

// Kubeflow's dynamic workers tell a ps only its own address, in a list of one, and no workers.
void ClusterReader::PlaceOwnPs() {
  const Task& task = *cluster_.task;
  if (task.role != Role::kPs || task.index == 0) return;
  JobEntries& ps = jobs_[Role::kPs];
  const JobEntries& workers = jobs_[Role::kWorker];
  const bool whole_cluster = workers.list && !workers.entries.empty();
  if (ps.list && ps.entries.size() == 1 && !whole_cluster) ps.entries[0].index = task.index;
}

void ClusterReader::CheckOwnPlace() {
  const Task& task = *cluster_.task;
  if (task.role == Role::kCoordinator && task.index != 0) {
    return problems_.Add("task.index",
                         absl::StrCat("is ", task.index, ", but there is one coordinator, 0"));
  }
  if (task.role == Role::kCoordinator || task.role == Role::kEvaluator) return;  // may be left out
  const std::vector<Entry>& entries = jobs_[task.role].entries;
  const bool found = std::any_of(entries.begin(), entries.end(),
                                 [&](const Entry& entry) { return entry.index == task.index; });
  if (found || !problems_.empty()) return;
  problems_.Add("task", absl::StrCat("is ", task.ToString(), ", but `cluster.", RoleName(task.role),
                                     "` has no index ", task.index));
}

void ClusterReader::Fill() {
  for (const auto& [role, job] : jobs_) {
    for (const Entry& entry : job.entries) {
      if (role == Role::kCoordinator) {
        if (entry.index != 0) problems_.Add(entry.key, "there is one coordinator, index 0");
        if (cluster_.coordinator.empty()) cluster_.coordinator = entry.address;
      } else if (role == Role::kPs) {
        if (cluster_.ps.size() <= entry.index) cluster_.ps.resize(entry.index + 1);
        cluster_.ps[entry.index] = entry.address;
      } else {
        (role == Role::kWorker ? cluster_.workers : cluster_.evaluators)[entry.index] =
            entry.address;
      }
    }
  }
}

// Checks only rpc_layer: the document's other keys belong to the platform (environment,
// session_master, job, ...).
void CheckRpcLayer(JsonFields& fields) {
  static constexpr std::string_view kLayers[] = {"grpc"};
  std::string unused;
  if (fields.FindValue("rpc_layer") != nullptr) fields.OneOf("rpc_layer", kLayers, unused);
}

void ReportMissingCluster(const json& document, Problems& problems) {
  if (document.contains("cluster")) {
    return problems.Add("cluster", "must be an object of jobs (worker, ps, chief), is null");
  }
  std::string hint;
  for (const auto& [key, value] : document.items()) {
    static constexpr std::string_view kCluster[] = {"cluster"};
    if (!NearestName(key, kCluster).empty()) {
      hint = absl::StrCat("; there is `", key, "`: did you mean `cluster`?");
    }
  }
  problems.Add("cluster", absl::StrCat("is missing", hint));
}

}  // namespace

std::string RoleName(Role role) {
  switch (role) {
    case Role::kCoordinator:
      return "coordinator";
    case Role::kWorker:
      return "worker";
    case Role::kPs:
      return "ps";
    case Role::kEvaluator:
      return "evaluator";
  }
  return "";
}

bool IsLoopback(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return false;
  std::string host = absl::AsciiStrToLower(address.substr(0, address.rfind(':')));
  if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost" || host == "ip6-localhost" || absl::StartsWith(host, "localhost.") ||
         absl::EndsWith(host, ".localhost");
}

bool StaysHere(const std::string& address) {
  return absl::StartsWith(address, "unix:") || IsLoopback(address);
}

std::string TaskElsewhere(const Cluster& cluster) {
  const auto elsewhere = [](const std::string& address) {
    return !address.empty() && !StaysHere(address);
  };
  if (elsewhere(cluster.coordinator)) {
    return absl::StrCat("cluster.chief is ", cluster.coordinator);
  }
  for (size_t i = 0; i < cluster.ps.size(); ++i) {
    if (elsewhere(cluster.ps[i])) return absl::StrCat("cluster.ps[", i, "] is ", cluster.ps[i]);
  }
  for (const auto& [index, address] : cluster.workers) {
    if (elsewhere(address)) return absl::StrCat("cluster.worker[", index, "] is ", address);
  }
  return "";
}

std::string Task::ToString() const { return absl::StrCat(RoleName(role), ":", index); }

absl::StatusOr<std::optional<Cluster>> ParseTfConfig(const std::string& text) {
  if (absl::StripAsciiWhitespace(text).empty()) return std::nullopt;
  absl::StatusOr<json> document = ParseJson(text, kConfigBytesMax, kDepthMax);
  RETURN_IF_ERROR(document.status());
  if (!document->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "must be an object with the keys cluster and task, is ", JsonExcerpt(*document)));
  }
  if (document->empty()) return std::nullopt;  // like TensorFlow
  Problems problems;
  JsonFields fields(*document, "", problems);
  Cluster cluster;
  CheckRpcLayer(fields);
  // An older operator wrote "sparseCluster" for its dynamic workers.
  const bool sparse = fields.FindValue("sparseCluster") != nullptr;
  const std::string key = sparse ? "sparseCluster" : "cluster";
  const json* value = fields.FindValue(key);
  if (sparse && fields.FindValue("cluster") != nullptr) {
    fields.Problem("sparseCluster", "`cluster` is there too");
  } else if (value == nullptr) {
    ReportMissingCluster(*document, problems);
  } else {
    cluster = ClusterReader(problems).Read(*value, key, fields.FindValue("task"));
  }
  RETURN_IF_ERROR(problems.ToStatus());
  return std::optional<Cluster>(std::move(cluster));
}

absl::StatusOr<Task> ParseTask(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::optional<Role> role = FindRole(name);
  if (!role) {
    return absl::InvalidArgumentError(absl::StrCat(
        "task: ", JsonExcerpt(text), " names no task type", NearestHint(name, JobNameList())));
  }
  if (colon == std::string::npos) {
    if (*role == Role::kCoordinator || *role == Role::kEvaluator) return Task{*role, 0};
    return absl::InvalidArgumentError(
        absl::StrCat("task: ", JsonExcerpt(text), " needs an index, such as ", name, ":0"));
  }
  const std::optional<uint32_t> index = ParseIndex(text.substr(colon + 1));
  if (!index || (*role == Role::kCoordinator && *index != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("task: ", JsonExcerpt(text),
                                                   " must have an index from 0 to ",
                                                   *role == Role::kCoordinator ? 0 : kIndexMax));
  }
  return Task{*role, *index};
}

absl::Status NoAddress(const Cluster& cluster, const std::string& whose, const std::string& key,
                       const std::string& remedy) {
  const bool none = cluster.coordinator.empty() && cluster.ps.empty() && cluster.workers.empty();
  return absl::InvalidArgumentError(
      none ? absl::StrCat("there is no cluster, so that ", whose,
                          " has no address: set TF_CONFIG, or give --cluster FILE, or ", remedy)
           : absl::StrCat("the cluster gives ", whose, " no address (key ", key,
                          "): correct --task or the cluster, or ", remedy));
}

absl::Status CheckAddress(const std::string& address, const std::string& key) {
  const std::string problem = AddressProblem(address);
  if (problem.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", JsonExcerpt(address), " ", problem));
}

absl::Status CheckAddresses(const std::vector<std::string>& addresses, const std::string& key) {
  std::map<std::string, std::string> key_of;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const std::string own = absl::StrCat(key, "[", i, "]");
    RETURN_IF_ERROR(CheckAddress(addresses[i], own));
    const auto [seen, added] = key_of.emplace(addresses[i], own);
    if (added) continue;
    return absl::InvalidArgumentError(absl::StrCat(own, ": ", JsonExcerpt(addresses[i]),
                                                   " is the address of `", seen->second, "` too"));
  }
  return absl::OkStatus();
}

}  // namespace paracord
