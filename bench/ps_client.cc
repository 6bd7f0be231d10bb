#include "ps_client.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "config/job.h"
#include "measure.h"
#include "net/rpc_proto.h"
#include "nlohmann/json.hpp"
#include "proto/protocol.h"
#include "storage/checkpoint.h"

namespace paracord::bench {
namespace {

const char* const kCoordinator = "00112233445566778899aabbccddeeff";
const char* const kRun = "ffeeddccbbaa99887766554433221100";
constexpr int64_t kDeadlineMs = 120000;
constexpr double kStartSeconds = 30;  // for a process that has just been started

}  // namespace

std::string PsJob::JobJson() const {
  Job job;
  job.name = "bench";
  job.model = {{"class_name", "Sequential"}, {"config", {{"layers", nlohmann::json::array()}}}};
  job.train = {"npy", {{"features", "/f.npy"}, {"labels", "/l.npy"}}};
  job.loss = {"mean_squared_error"};
  job.optimizer = {optimizer};
  job.batch = 1;
  if (lanes > 0) {
    job.guarantees.consistency = "sync";
    job.guarantees.recovery = "rollback";
    job.guarantees.round_batches = lanes;
  }
  return JobToJson(job);
}

DataPlan PsJob::Plan() const {
  DataPlan plan;
  plan.set_records(uint64_t{1} << 40);
  plan.set_batch(1);
  plan.set_split_batches(1u << 30);
  if (lanes > 0) {
    plan.set_lanes(lanes);
    plan.set_records(uint64_t{lanes} << 30);
  }
  plan.set_fingerprint("bench");
  return plan;
}

std::vector<VariableSpec> PsJob::Variables() const {
  VariableSpec variable;
  variable.set_name("v");
  variable.add_shape(partitions);
  variable.add_shape(partition_bytes / sizeof(float));
  variable.set_dtype(FLOAT32);
  variable.set_trainable(true);
  variable.mutable_initializer()->set_name("zeros");
  return {variable};
}

std::vector<PartitionSpec> PsJob::Partitions() const {
  std::vector<PartitionSpec> specs(partitions);
  for (uint32_t i = 0; i < partitions; ++i) {
    specs[i].set_id(i);
    specs[i].set_name(absl::StrCat("v/part_", i));
    specs[i].set_row_begin(i);
    specs[i].set_row_end(i + 1);
  }
  return specs;
}

std::unique_ptr<Child> StartPs(const std::string& address, const std::string& dir, int threads) {
  const nlohmann::json cluster = {
      {"cluster", {{"chief", {"unix:/nobody"}}, {"ps", {address}}, {"worker", {"unix:/no-one"}}}}};
  return std::make_unique<Child>(
      std::vector<std::string>{Program("paracord-ps"), "--task", "ps:0", "--dir", dir, "--threads",
                               absl::StrCat(threads), "--log-level", "warn"},
      std::vector<std::string>{"TF_CONFIG=" + TextOf(cluster)}, dir + "/log");
}

std::string FreeTcpAddress() {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(fd, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
    Fail("no free port");
  }
  close(fd);
  return absl::StrCat("127.0.0.1:", ntohs(at.sin_port));
}

template <class Reply, class Request>
Reply Ask(Link& link, std::string_view method, const Request& request) {
  const double begun = Seconds();
  while (true) {
    absl::StatusOr<Reply> reply = AwaitProto<Reply>(link, method, request, kDeadlineMs);
    if (reply.ok()) return *std::move(reply);
    const bool starting = absl::IsUnavailable(reply.status());
    if (!starting || Seconds() - begun > kStartSeconds) Fail(reply.status().ToString());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}
template PsDescription Ask(Link&, std::string_view, const DescribeRequest&);
template SnapshotReply Ask(Link&, std::string_view, const SnapshotRequest&);
template JoinReply Ask(Link&, std::string_view, const JoinRequest&);
template WorkReply Ask(Link&, std::string_view, const WorkRequest&);

Fence LoadPs(Link& link, const PsJob& job, uint64_t generation, const std::string& checkpoint) {
  LoadRequest load;
  Fence& fence = *load.mutable_fence();
  fence.set_run_id(kRun);
  fence.set_generation(generation);
  fence.set_boot_id(Ask<PsDescription>(link, method::kDescribe, DescribeRequest()).boot_id());
  fence.set_protocol(kProtocol);
  AdoptRequest adopt;
  adopt.set_boot_id(fence.boot_id());
  adopt.set_generation(generation);
  adopt.set_coordinator_boot_id(kCoordinator);
  adopt.set_protocol(kProtocol);
  Ask<PsDescription>(link, method::kAdopt, adopt);
  load.set_coordinator_boot_id(kCoordinator);
  load.set_job_json(job.JobJson());
  *load.mutable_plan() = job.Plan();
  for (const VariableSpec& variable : job.Variables()) *load.add_variables() = variable;
  for (const PartitionSpec& partition : job.Partitions()) *load.add_partitions() = partition;
  load.set_checkpoint(checkpoint);
  Ask<PsDescription>(link, method::kLoad, load);
  return fence;
}

SnapshotReply OrderSnapshot(Link& link, const Fence& fence, const std::string& dir,
                            uint64_t round) {
  SnapshotRequest order;
  *order.mutable_fence() = fence;
  order.set_coordinator_boot_id(kCoordinator);
  order.set_round(round);
  order.set_directory(RoundDirectory(fence.generation(), round));
  order.set_ps_count(1);
  std::filesystem::create_directories(dir + "/checkpoints/" + order.directory());
  return Ask<SnapshotReply>(link, method::kSnapshot, order);
}

std::string CommitSnapshot(const PsJob& job, const Fence& fence, const std::string& dir,
                           uint64_t round, const SnapshotReply& written) {
  Manifest manifest;
  manifest.job_name = "bench";
  manifest.job_json = job.JobJson();
  manifest.run_id = fence.run_id();
  manifest.plan = job.Plan();
  manifest.variables = job.Variables();
  for (const PartitionSpec& spec : job.Partitions()) {
    ManifestPartition partition;
    partition.spec = spec;
    const PartitionDescription& now = written.partitions(static_cast<int>(spec.id()));
    partition.updates = now.updates();
    partition.applied = now.ledger().applied();
    manifest.partitions.push_back(partition);
  }
  manifest.files = {{written.file(), written.bytes(), written.crc32c(), fence.boot_id()}};
  manifest.name = {LeastApplied(manifest), fence.generation(), round};
  const std::string checkpoints = dir + "/checkpoints/";
  const std::string name = manifest.name.ToString();
  PosixFiles files;
  absl::Status done =
      files.Rename(checkpoints + RoundDirectory(fence.generation(), round), checkpoints + name);
  if (done.ok()) {
    done = files.WriteAtomic(absl::StrCat(checkpoints, name, "/", std::string(kManifestName)),
                             ManifestToText(manifest));
  }
  if (!done.ok()) Fail(done.ToString());
  return name;
}

struct Exchanger::Waiting {
  std::promise<absl::StatusOr<absl::Cord>> promise;
  bool pushed = false;
};

Exchanger::Exchanger(Link& link, Fence fence, const PsJob& job, uint64_t split)
    : link_(link), fence_(std::move(fence)), split_(split), rounds_(job.lanes > 0) {
  const uint64_t elements = job.partition_bytes / sizeof(float);
  for (uint32_t i = 0; i < job.partitions; ++i) {
    gradients_.push_back(std::make_shared<SharedFloats>(elements, 0.001f));
    values_.emplace_back(elements);
  }
}

void Exchanger::Start(bool push, bool pull) {
  ExchangeRequest header;
  std::vector<PieceView> pieces;
  *header.mutable_fence() = fence_;
  header.set_worker("worker:bench");
  for (uint32_t i = 0; i < gradients_.size(); ++i) {
    if (pull) header.add_pull()->set_partition(i);
    if (!push) continue;
    const uint64_t bytes = gradients_[i]->size() * sizeof(float);
    PartitionPush& entry = *header.add_push();
    entry.set_partition(i);
    entry.set_bytes(bytes);
    pieces.push_back({i, 0,
                      absl::MakeCordFromExternal(
                          absl::string_view(reinterpret_cast<char*>(gradients_[i]->data()), bytes),
                          [held = gradients_[i]](absl::string_view) {})});
  }
  if (push) {
    header.mutable_batch()->set_split(split_);
    header.mutable_batch()->set_batch(next_batch_++);
  }
  if (rounds_ && pull) {
    header.set_state(next_batch_);
    header.set_wait_ms(500);
  }
  waiting_ = std::make_shared<Waiting>();
  waiting_->pushed = push;
  link_.Call(method::kExchange, EncodeExchange(header, std::move(pieces)), kDeadlineMs,
             [waiting = waiting_](absl::StatusOr<absl::Cord> reply) {
               waiting->promise.set_value(std::move(reply));
             });
}

void Exchanger::Finish() {
  absl::StatusOr<DecodedReply> decoded = absl::UnknownError("no reply");
  do {
    const absl::StatusOr<absl::Cord> reply = waiting_->promise.get_future().get();
    if (!reply.ok()) Fail(reply.status().ToString());
    decoded = DecodeExchangeReply(*reply);
    if (!decoded.ok()) Fail(decoded.status().ToString());
    for (const PartitionState& state : decoded->header.partitions()) {
      if (waiting_->pushed && state.outcome() != PUSH_APPLIED && state.outcome() != PUSH_TAKEN) {
        Fail(absl::StrCat("a push was answered with ", PushOutcome_Name(state.outcome())));
      }
    }
    if (decoded->header.waits()) Start(false, true);
  } while (decoded->header.waits());
  for (const PieceView& piece : decoded->pieces) {
    char* to = reinterpret_cast<char*>(values_.at(piece.partition).data()) + piece.offset;
    for (const absl::string_view chunk : piece.data.Chunks()) {
      std::memcpy(to, chunk.data(), chunk.size());
      to += chunk.size();
    }
  }
}

}  // namespace paracord::bench
