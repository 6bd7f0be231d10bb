// A ps for tests. Everything around the ps is fake, except for files, which are in a temporary
// directory. The default model has a matrix in two partitions, a vector, and an untrained variable.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/json_text.h"
#include "common/memory_budget.h"
#include "config/job.h"
#include "config/partitions.h"
#include "exchange/codec.h"
#include "net/rpc_proto.h"
#include "proto/protocol.h"
#include "server/parameter_server.h"
#include "spdlog/spdlog.h"
#include "storage/checkpoint.h"
#include "store/pinned_bytes.h"
#include "tests/fakes.h"
#include "tests/floats.h"
#include "tests/parts.h"
#include "tests/watched_files.h"

namespace paracord {

inline VariableSpec TestVariable(const std::string& name, std::vector<uint64_t> shape,
                                 bool trainable = true) {
  VariableSpec variable;
  variable.set_name(name);
  for (const uint64_t dimension : shape) variable.add_shape(dimension);
  variable.set_dtype(FLOAT32);
  variable.set_trainable(trainable);
  variable.mutable_initializer()->set_name("zeros");
  return variable;
}

inline PartitionSpec TestPartition(uint32_t id, uint32_t variable, const std::string& name,
                                   uint64_t row_begin, uint64_t row_end, uint32_t ps = 0) {
  PartitionSpec partition;
  partition.set_id(id);
  partition.set_variable(variable);
  partition.set_name(name);
  partition.set_row_begin(row_begin);
  partition.set_row_end(row_end);
  partition.set_ps(ps);
  return partition;
}

struct TestModel {
  Job job;
  DataPlan plan;
  std::vector<VariableSpec> variables;
  std::vector<PartitionSpec> partitions;

  TestModel() {
    job.name = "test";
    job.epochs = 1000;
    job.model = JsonOf(R"({"class_name": "Sequential", "config": {"layers": []}})");
    job.train = {"idx", {{"features", "/f"}, {"labels", "/l"}}};
    job.loss = {"mean_squared_error"};
    job.optimizer = {"sgd", {{"learning_rate", 1.0}}};
    plan.set_records(1000);
    plan.set_batch(10);
    plan.set_split_batches(10);
    variables = {TestVariable("dense/kernel", {5, 3}), TestVariable("dense/bias", {2}),
                 TestVariable("frozen", {4}, /*trainable=*/false)};
    partitions = {TestPartition(0, 0, "dense/kernel/part_0", 0, 3),
                  TestPartition(1, 0, "dense/kernel/part_1", 3, 5),
                  TestPartition(2, 1, "dense/bias/part_0", 0, 2),
                  TestPartition(3, 2, "frozen/part_0", 0, 4)};
  }
  uint64_t Elements(uint32_t id) const {
    return PartitionElements(variables[partitions[id].variable()], partitions[id]);
  }
  bool Trained(uint32_t id) const { return variables[partitions[id].variable()].trainable(); }
};

struct Pulled {
  ExchangeReply header;
  std::map<uint32_t, Floats> values;  // keyed by partition
  const PartitionState& State(uint32_t id) const {
    for (const PartitionState& state : header.partitions()) {
      if (state.partition() == id) return state;
    }
    FAIL("no state of partition " << id);
    return header.partitions(0);
  }
};

class TestPs {
 public:
  static constexpr char kRun[] = "0123456789abcdef0123456789abcdef";

  explicit TestPs(TestModel m = TestModel(), std::string dir = "", uint32_t index = 0,
                  uint64_t pinned_bytes_max = PinnedBytes::kUnlimited,
                  uint64_t staged_bytes_max = uint64_t{1} << 30, bool stay = false,
                  std::shared_ptr<MemoryBudget> memory = nullptr)
      : model(std::move(m)), dir_(dir.empty() ? own_directory_.path() : dir) {
    spdlog::set_level(spdlog::level::off);
    PsOptions options;
    options.index = index;
    options.dir = dir_;
    options.partition_bytes_max = uint64_t{1} << 26;
    options.pinned_bytes_max = pinned_bytes_max;
    options.staged_bytes_max = staged_bytes_max;
    options.stay = stay;
    options.memory = std::move(memory);
    ps = std::make_unique<ParameterServer>(
        options, Environment{loop, network, files, executor, random},
        [this](int code, std::string) { exits.push_back(code); });
    loop.RunPosted();
  }

  template <class Request>
  std::shared_ptr<FakeCall> Send(std::string_view method, const Request& request) {
    auto call = std::make_shared<FakeCall>();
    ps->Handle(method, absl::Cord(request.SerializeAsString()), call);
    loop.RunPosted();
    return call;
  }
  template <class Reply>
  static absl::StatusOr<Reply> Answer(const std::shared_ptr<FakeCall>& call) {
    if (call->answered != 1) return absl::UnknownError("not answered once");
    if (!call->reply.ok()) return call->reply.status();
    return ParseMessage<Reply>(*call->reply);
  }
  template <class Reply, class Request>
  absl::StatusOr<Reply> Call(std::string_view method, const Request& request) {
    return Answer<Reply>(Send(method, request));
  }

  PsDescription Describe(bool ledgers = true) {
    DescribeRequest request;
    request.set_ledgers(ledgers);
    return *Call<PsDescription>(method::kDescribe, request);
  }
  std::string boot_id() { return Describe(false).boot_id(); }

  AdoptRequest AdoptOrder(uint64_t generation, const std::string& coordinator = "c1") {
    AdoptRequest request;
    request.set_boot_id(boot_id());
    request.set_generation(generation);
    request.set_coordinator_boot_id(coordinator);
    request.set_protocol(kProtocol);
    return request;
  }
  absl::Status Adopt(uint64_t generation, const std::string& coordinator = "c1") {
    return Call<PsDescription>(method::kAdopt, AdoptOrder(generation, coordinator)).status();
  }
  Fence MakeFence() {
    const PsDescription now = Describe(false);
    Fence fence;
    fence.set_run_id(kRun);
    fence.set_generation(now.generation());
    fence.set_boot_id(now.boot_id());
    fence.set_protocol(kProtocol);
    return fence;
  }
  LoadRequest LoadOrder(const std::string& checkpoint = "") {
    LoadRequest request;
    *request.mutable_fence() = MakeFence();
    request.set_coordinator_boot_id(Describe(false).coordinator_boot_id());
    request.set_job_json(JobToJson(model.job));
    *request.mutable_plan() = model.plan;
    for (const VariableSpec& variable : model.variables) *request.add_variables() = variable;
    for (const PartitionSpec& partition : model.partitions) *request.add_partitions() = partition;
    request.set_checkpoint(checkpoint);
    return request;
  }
  absl::Status Load(const std::string& checkpoint = "") {
    return Call<PsDescription>(method::kLoad, LoadOrder(checkpoint)).status();
  }
  // Adopts the ps in generation 1 and loads the model.
  TestPs& Ready() {
    REQUIRE(Adopt(1).ok());
    REQUIRE(Load().ok());
    return *this;
  }

  // Returns a push whose gradient is `value` in every element of every trained partition.
  DecodedRequest PushOf(uint64_t split, uint32_t batch, float value, uint64_t epoch = 0) {
    DecodedRequest request;
    *request.header.mutable_fence() = MakeFence();
    request.header.mutable_batch()->set_epoch(epoch);
    request.header.mutable_batch()->set_split(split);
    request.header.mutable_batch()->set_batch(batch);
    for (const PartitionSpec& partition : model.partitions) {
      if (!model.Trained(partition.id())) continue;
      const Floats gradient(model.Elements(partition.id()), value);
      PartitionPush* push = request.header.add_push();
      push->set_partition(partition.id());
      push->set_bytes(gradient.size() * sizeof(float));
      request.pieces.push_back({partition.id(), 0, CordOf(gradient)});
    }
    return request;
  }
  void AddPulls(DecodedRequest& request) const {
    for (const PartitionSpec& partition : model.partitions) {
      request.header.add_pull()->set_partition(partition.id());
    }
  }
  // Thread-safe, as Handle is.
  absl::StatusOr<Pulled> Exchange(const DecodedRequest& request) {
    const absl::Cord whole = Joined(EncodeExchange(request.header, request.pieces));
    return ExchangeBytes(whole);
  }
  absl::StatusOr<Pulled> ExchangeBytes(const absl::Cord& bytes) {
    auto call = std::make_shared<FakeCall>();
    ps->Handle(method::kExchange, bytes, call);
    if (call->answered != 1) return absl::UnknownError("not answered once");
    if (!call->reply.ok()) return call->reply.status();
    absl::StatusOr<DecodedReply> reply = DecodeExchangeReply(*call->reply);
    if (!reply.ok()) return reply.status();
    Pulled pulled{.header = reply->header, .values = {}};
    for (const PieceView& piece : reply->pieces) {
      Floats& values = pulled.values[piece.partition];
      if (piece.offset != values.size() * sizeof(float)) return absl::UnknownError("offset");
      const std::string data(piece.data);
      const size_t before = values.size();
      values.resize(before + data.size() / sizeof(float));
      std::memcpy(values.data() + before, data.data(), data.size());
    }
    return pulled;
  }
  Pulled PullAll() {
    DecodedRequest request;
    *request.header.mutable_fence() = MakeFence();
    AddPulls(request);
    const absl::StatusOr<Pulled> pulled = Exchange(request);
    REQUIRE(pulled.ok());
    return *pulled;
  }

  SnapshotRequest SnapshotOrder(uint64_t round, uint32_t ps_count = 1, uint32_t index = 0) {
    SnapshotRequest request;
    *request.mutable_fence() = MakeFence();
    request.set_coordinator_boot_id(Describe(false).coordinator_boot_id());
    request.set_round(round);
    request.set_directory(RoundDirectory(request.fence().generation(), round));
    request.set_ps(index);
    request.set_ps_count(ps_count);
    REQUIRE(files.MakeDirectories(dir() + "/checkpoints/" + request.directory()).ok());
    return request;
  }

  const std::string& dir() const { return dir_; }

  TestModel model;
  WatchedFiles files;
  ManualLoop loop;
  NoNetwork network;
  ManualExecutor executor{loop};
  SeededRandom random{99};
  std::vector<int> exits;
  std::unique_ptr<ParameterServer> ps;

 private:
  TestDirectory own_directory_;
  std::string dir_;
};

inline PsHoldRequest HoldOrder(TestPs& ps, const std::string& coordinator = "c1") {
  PsHoldRequest request;
  *request.mutable_fence() = ps.MakeFence();
  request.set_coordinator_boot_id(coordinator);
  return request;
}

}  // namespace paracord
