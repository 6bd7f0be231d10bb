#include "e2e/cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "e2e/counting_job.h"
#include "net/rpc_proto.h"
#include "proto/paracord.pb.h"
#include "proto/protocol.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

constexpr int kRestartMayHelp = 128;

std::string FileName(std::string task) {
  std::replace(task.begin(), task.end(), ':', '-');
  return task;
}

template <class Reply, class Request>
absl::StatusOr<Reply> Ask(Link& link, std::string_view method, const Request& request) {
  return AwaitProto<Reply>(link, method, request, 1000);
}

}  // namespace

std::string FreeTcpAddress() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  // The socket never listens, and stays open until the test ends. The kernel then gives its port to
  // no process that asks for any free port, but a daemon may bind the port by number.
  const int yes = 1;
  REQUIRE(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0);
  return absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
}

Cluster::Cluster(ClusterOptions options) : options_(std::move(options)) {
  std::filesystem::create_directories(dir());
  WriteJob(options_.job);
  const auto add = [&](const std::string& task) {
    addresses_[task] =
        options_.tcp ? FreeTcpAddress() : absl::StrCat("unix:", root(), "/", FileName(task));
  };
  add("coordinator");
  for (uint32_t i = 0; i < ps() + options_.spare_ps; ++i) add(absl::StrCat("ps:", i));
  for (uint32_t i = 0; options_.nodes && i < options_.workers; ++i) {
    add(absl::StrCat("worker:", i));
  }
  addresses_["coordinator"] = addresses_[leader()];
  announced_ = addresses_;
}

Cluster::~Cluster() {
  if (std::uncaught_exceptions() == 0) return;
  for (const auto& [task, process] : processes_) ShowEndOfLog(task);
}

void Cluster::ShowEndOfLog(const std::string& task) const {
  const std::string log = Log(task);
  constexpr size_t kTail = 3000;
  std::cerr << "---- " << task << "\n" << log.substr(log.size() - std::min(log.size(), kTail));
}

void Cluster::WriteJob(const json& patch) { WriteCountingJob(root(), patch); }

void Cluster::Announce(const std::string& task, const std::string& address) {
  announced_[task] = address;
}

std::string Cluster::LogPath(const std::string& task) const {
  return absl::StrCat(root(), "/", FileName(task), ".log");
}

std::string Cluster::Log(const std::string& task) const { return ReadText(LogPath(task)); }

bool Cluster::Logged(const std::string& task, const std::string& text) const {
  return Log(task).find(text) != std::string::npos;
}

std::vector<std::string> Cluster::Command(const std::string& task) const {
  const std::string role = task.substr(0, task.find(':'));
  if (role == "worker" && !options_.worker.empty()) {
    std::vector<std::string> foreign = options_.worker;
    foreign.insert(foreign.end(), {announced_.at("coordinator"), task});
    return foreign;
  }
  const std::string program = role == "evaluator" ? "worker" : role;
  std::vector<std::string> command = {absl::StrCat(PARACORD_BIN_DIR "/paracord-", program),
                                      "--task", task == "coordinator" ? "coordinator:0" : task,
                                      "--dir", dirs_.contains(task) ? dirs_.at(task) : dir()};
  if (role == "coordinator") command.insert(command.end(), {"--job", job()});
  // Tests of the network must not have workers find a ps in shared memory.
  const bool by_network = options_.tcp || announced_ != addresses_;
  const bool holds = role == "ps" || (role == "worker" && options_.nodes);
  if (holds && by_network) command.push_back("--shared-memory=false");
  if (role == "worker" && options_.nodes) command.insert(command.end(), {"--job", job()});
  if (role == "worker") {
    command.insert(command.end(), {"--allow-programs", "--device", options_.device, "--threads",
                                   absl::StrCat(options_.threads)});
  }
  // A second coordinator, at an address that no process knows.
  if (role == "coordinator" && task != role) {
    command[2] = "coordinator:0";
    command.insert(command.end(), {"--listen", absl::StrCat("unix:", root(), "/second")});
  } else if (addresses_.contains(task)) {
    command.insert(command.end(), {"--listen", addresses_.at(task)});
  }
  return command;  // ends with the address to listen at, or a worker's number of threads
}

void Cluster::Start(const std::string& task, const Variables& environment,
                    const std::vector<std::string>& arguments) {
  json cluster;
  if (leader() == "coordinator") cluster["chief"] = {announced_.at("coordinator")};
  for (uint32_t i = 0; i < ps(); ++i) {
    cluster["ps"].push_back(announced_.at(absl::StrCat("ps:", i)));
  }
  for (uint32_t i = 0; i < options_.workers; ++i) {
    // Nobody dials a worker that is not a node, so any address will do.
    const std::string any =
        absl::StrCat(options_.unix_workers ? "unix:/worker" : "127.0.0.1:", i + 1);
    cluster["worker"].push_back(options_.nodes ? announced_.at(absl::StrCat("worker:", i)) : any);
  }
  Variables all = environment;
  all.insert(options_.environment.begin(), options_.environment.end());
  all["TF_CONFIG"] = TextOf(json({{"cluster", cluster}}));
  if (task.starts_with("worker") && options_.batch_ms > 0 && !all.contains("PARACORD_FAILPOINTS")) {
    all["PARACORD_FAILPOINTS"] = absl::StrCat("worker.computed=stall:", options_.batch_ms);
  }
  std::vector<std::string> command = Command(task);
  if (!arguments.empty()) command.resize(command.size() - 2);  // the caller says where to listen
  command.insert(command.end(), arguments.begin(), arguments.end());
  processes_[task] = std::make_unique<Process>(command, all, LogPath(task));
}

void Cluster::StartAll() {
  for (uint32_t i = 0; i < ps(); ++i) Start(absl::StrCat("ps:", i));
  if (leader() == "coordinator") Start("coordinator");
  for (uint32_t i = 0; i < options_.workers; ++i) Start(absl::StrCat("worker:", i));
}

std::vector<std::pair<std::string, Exit>> Cluster::Supervise() {
  std::vector<std::pair<std::string, Exit>> left;
  for (auto& [task, process] : processes_) {
    const std::optional<Exit> exit = process->Poll();
    if (exit.has_value() && (*exit < 0 || *exit >= kRestartMayHelp)) left.emplace_back(task, *exit);
  }
  for (const auto& [task, exit] : left) Start(task);
  return left;
}

int Cluster::Finish(int64_t wait_ms) {
  int code = -1;
  WaitUntil(wait_ms, [&] {
    Supervise();
    const std::optional<Exit> exit = at(leader()).Poll();
    if (!exit.has_value() || *exit < 0 || *exit >= kRestartMayHelp) return false;
    code = *exit;
    return true;
  });
  return code;
}

bool Cluster::WaitAllGone(int64_t wait_ms) {
  const auto gone = [](auto& item) { return !item.second->running(); };
  const bool all =
      WaitUntil(wait_ms, [&] { return std::all_of(processes_.begin(), processes_.end(), gone); });
  for (auto& item : processes_) {
    if (!gone(item)) ShowEndOfLog(item.first);
  }
  return all;
}

void Cluster::KillAll() {
  for (auto& [task, process] : processes_) process->Signal(SIGKILL);
  processes_.clear();
}

Link& Cluster::LinkTo(const std::string& address) {
  std::unique_ptr<Link>& link = links_[address];
  if (link == nullptr) link = network_.Dial(address);
  return *link;
}

json Cluster::Status() {
  const auto reply =
      Ask<StatusReply>(LinkTo(address("coordinator")), method::kStatus, StatusRequest());
  return reply.ok() ? JsonOf(reply->json()) : json();
}

json Cluster::StatusOf(const std::string& kind, const std::string& task) {
  const json status = Status();
  if (!status.is_object()) return {};
  for (const json& entry : status.at(kind)) {
    if (entry.at("task") == task) return entry;
  }
  return {};
}

uint64_t Cluster::BatchesDone() {
  const json status = Status();
  return status.is_object() ? status.at("batches_done").get<uint64_t>() : 0;
}

bool Cluster::WaitForBatches(uint64_t batches, int64_t wait_ms) {
  return WaitUntil(wait_ms, [&] { return BatchesDone() >= batches; });
}

json Cluster::Describe(const std::string& task) {
  DescribeRequest request;
  const auto reply = Ask<PsDescription>(LinkTo(address(task)), method::kDescribe, request);
  if (!reply.ok()) return {};
  json partitions = json::object();
  for (const PartitionDescription& partition : reply->partitions()) {
    partitions[absl::StrCat(partition.id())] = partition.ledger().applied();
  }
  return {{"boot_id", reply->boot_id()},
          {"loaded_generation", reply->loaded_generation()},
          {"applied", partitions}};
}

json Cluster::Summary() const { return JsonOf(ReadText(dir() + "/summary.json")); }

}  // namespace paracord::e2e
