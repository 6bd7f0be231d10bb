// A ps with fakes around it, adopted and loaded with a small model: a matrix in two partitions, a
// vector, and an untrained variable. Owned by a target; one thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/json_text.h"
#include "config/job.h"
#include "config/proofs.h"
#include "exchange/codec.h"
#include "net/rpc_proto.h"
#include "proto/protocol.h"
#include "server/parameter_server.h"
#include "tests/data/memory_files.h"
#include "tests/fakes.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

class Ps {
 public:
  static constexpr char kRun[] = "0123456789abcdef0123456789abcdef";
  static constexpr char kProofKey[] = "the coordinator's key";
  static constexpr uint32_t kPartitions = 4;
  static constexpr uint32_t kTrained = 3;  // the first partitions
  static constexpr uint64_t kElements[kPartitions] = {9, 6, 2, 4};
  static constexpr uint64_t kSplits = 4;  // splits or lanes of an epoch
  static constexpr uint32_t kSplitBatches = 3;
  static constexpr uint64_t kEpochs = 2;

  explicit Ps(bool lanes = false) : lanes_(lanes) {
    BeQuiet();
    PsOptions options;
    options.dir = "/dir";
    options.partition_bytes_max = 1 << 20;
    options.staged_bytes_max = 1 << 12;
    ps = std::make_unique<ParameterServer>(options,
                                           Environment{loop, network, files, executor, random},
                                           [this](int, const std::string&) { ++exits; });
    loop.RunPosted();
  }

  std::shared_ptr<FakeCall> Send(std::string_view method, absl::Cord request) {
    auto call = std::make_shared<FakeCall>();
    ps->Handle(method, std::move(request), call);
    loop.RunPosted();
    Demand(call->answered <= 1, "a call is answered once");
    return call;
  }
  std::shared_ptr<FakeCall> Send(std::string_view method,
                                 const google::protobuf::Message& request) {
    return Send(method, absl::Cord(request.SerializeAsString()));
  }

  absl::Status Adopt(uint64_t generation, const std::string& coordinator) {
    AdoptRequest request;
    request.set_boot_id(ps->boot_id());
    request.set_generation(generation);
    request.set_coordinator_boot_id(coordinator);
    request.set_protocol(kProtocol);
    request.set_proof_key(kProofKey);
    return Send(method::kAdopt, request)->reply.status();
  }
  Fence MakeFence() const {
    Fence fence;
    fence.set_run_id(kRun);
    fence.set_generation(ps->generation());
    fence.set_boot_id(ps->boot_id());
    fence.set_protocol(kProtocol);
    return fence;
  }
  absl::Status Load(const std::string& coordinator) {
    LoadRequest request;
    *request.mutable_fence() = MakeFence();
    request.set_coordinator_boot_id(coordinator);
    request.set_job_json(JobText());
    request.mutable_plan()->set_records(kSplits * kSplitBatches);
    request.mutable_plan()->set_batch(1);
    request.mutable_plan()->set_split_batches(kSplitBatches);
    if (lanes_) request.mutable_plan()->set_lanes(kSplits);
    AddVariable(request, "kernel", {5, 3}, true);
    AddVariable(request, "bias", {2}, true);
    AddVariable(request, "frozen", {4}, false);
    AddPartition(request, 0, 0, 3);
    AddPartition(request, 0, 3, 5);
    AddPartition(request, 1, 0, 2);
    AddPartition(request, 2, 0, 4);
    return Send(method::kLoad, request)->reply.status();
  }
  // Returns a push whose gradient is `value` in every element of every trained partition.
  DecodedRequest PushOf(uint64_t epoch, uint64_t split, uint32_t batch, float value) const {
    DecodedRequest request;
    *request.header.mutable_fence() = MakeFence();
    request.header.mutable_batch()->set_epoch(epoch);
    request.header.mutable_batch()->set_split(split);
    request.header.mutable_batch()->set_batch(batch);
    request.header.set_proof(
        LeaseProofOf(kProofKey, request.header.fence().generation(), epoch, split));
    for (uint32_t id = 0; id < kTrained; ++id) {
      const std::vector<float> gradient(kElements[id], value);
      const absl::string_view bytes(reinterpret_cast<const char*>(gradient.data()),
                                    gradient.size() * sizeof(float));
      PartitionPush* push = request.header.add_push();
      push->set_partition(id);
      push->set_bytes(bytes.size());
      request.pieces.push_back({id, 0, absl::Cord(bytes)});
    }
    return request;
  }
  static absl::Cord Encoded(const DecodedRequest& request) {
    absl::Cord whole;
    for (const absl::Cord& part : EncodeExchange(request.header, request.pieces)) {
      whole.Append(part);
    }
    return whole;
  }
  PsDescription Describe() {
    DescribeRequest request;
    request.set_ledgers(true);
    return ParseMessage<PsDescription>(*Send(method::kDescribe, request)->reply).value();
  }

  MemoryFiles files;
  ManualLoop loop;
  NoNetwork network;
  ManualExecutor executor{loop};
  SeededRandom random{99};
  int exits = 0;
  std::unique_ptr<ParameterServer> ps;

 private:
  static const std::string& JobText() {
    static const std::string text = [] {
      Job job;
      job.name = "fuzz";
      job.epochs = kEpochs;
      job.model = JsonOf(R"({"class_name": "Sequential", "config": {"layers": []}})");
      job.train = {"idx", {{"features", "/f"}, {"labels", "/l"}}};
      job.loss = {"mean_squared_error"};
      job.optimizer = {"sgd", {{"learning_rate", 1.0}}};
      return JobToJson(job);
    }();
    return text;
  }
  static void AddVariable(LoadRequest& request, const std::string& name,
                          const std::vector<uint64_t>& shape, bool trainable) {
    VariableSpec& variable = *request.add_variables();
    variable.set_name(name);
    for (const uint64_t dimension : shape) variable.add_shape(dimension);
    variable.set_dtype(FLOAT32);
    variable.set_trainable(trainable);
    variable.mutable_initializer()->set_name("zeros");
  }
  static void AddPartition(LoadRequest& request, uint32_t variable, uint64_t begin, uint64_t end) {
    PartitionSpec& partition = *request.add_partitions();
    partition.set_id(static_cast<uint32_t>(request.partitions_size() - 1));
    partition.set_variable(variable);
    partition.set_name(request.variables(static_cast<int>(variable)).name() + "/part_" +
                       std::to_string(begin == 0 ? 0 : 1));
    partition.set_row_begin(begin);
    partition.set_row_end(end);
  }

  const bool lanes_;
};

}  // namespace paracord::fuzz
