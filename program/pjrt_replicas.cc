#include "program/pjrt_replicas.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/strategy.h"

namespace paracord {

absl::Status PjrtReplicas::CheckJob(const Job& job, const ProgramFile& file) {
  const GuaranteesSpec& guarantees = job.guarantees;
  const bool sync = guarantees.sync() || WaitsForStrategy(guarantees);
  if (ReplicasOf(file) == 1 || (sync && guarantees.reduce_fast)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.file: the program was exported for ", ReplicasOf(file),
      " replicas, which add up the lanes of a round in an order of their own: give the job "
      "`consistency` \"sync\" and `reduce` \"fast\", or export it without replicas"));
}

absl::StatusOr<std::unique_ptr<PjrtReplicas>> PjrtReplicas::Make(const ProgramFile& file,
                                                                 const Batch& schema,
                                                                 const ProgramTables& tables,
                                                                 const PjrtClient& client,
                                                                 const PjrtUse& use) {
  const size_t wanted = ReplicasOf(file), devices = client.devices();
  if (devices != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.file: the program was exported for ", wanted, " replicas, and --device ", use.device,
        " names ", devices, devices == 1 ? " device" : " devices", ": name ", wanted,
        " (pjrt:PATH:N,M or pjrt:PATH:all), or export it with replicas=", devices));
  }
  std::unique_ptr<PjrtReplicas> replicas(new PjrtReplicas(client));
  for (PjrtBatch& batch : replicas->batches_) {
    RETURN_IF_ERROR(batch.Match(file, schema, tables, /*inputs_alone=*/false));
  }
  return replicas;
}

absl::Status PjrtReplicas::Try(const CompiledModule& compiled,
                               const std::vector<PjrtClient::Argument>& arguments,
                               void* taken) const {
  PjrtClient::Run run(client_, compiled.loaded);
  RETURN_IF_ERROR(
      run.Start(std::vector<std::vector<PjrtClient::Argument>>(batches_.size(), arguments)));
  for (size_t replica = 0; replica < batches_.size(); ++replica) {
    for (size_t i = 0; i < compiled.loaded.results.size(); ++i) {
      RETURN_IF_ERROR(run.Fetch(i, taken, replica));
      RETURN_IF_ERROR(run.Await(i, replica));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> PjrtReplicas::Compute(const CompiledModule& step,
                                                          std::span<const KeyedBatch> batches,
                                                          ConstTensors values, MutableTensors sum) {
  const uint32_t examples = step.module->batch;
  std::vector<std::vector<PjrtClient::Argument>> arguments;
  for (size_t i = 0; i < batches.size(); ++i) {
    const Batch& batch = *batches[i].batch;
    if (batch.examples != examples) {
      return absl::InvalidArgumentError("batches of different sizes are not added up on devices");
    }
    RETURN_IF_ERROR(batches_[i].Check(batch));
    RETURN_IF_ERROR(batches_[i].Take(batch, RowsInUse()));
    batches_[i].SetKey(batches[i].key);
    arguments.push_back(batches_[i].Arguments(step, values, 0, examples));
  }
  PjrtClient::Run run(client_, step.loaded);
  RETURN_IF_ERROR(OfRun(run.Start(arguments)));
  // Each replica has its own loss, and all have the sums.
  std::vector<float> losses(batches.size());
  const std::vector<ModuleResult>& results = step.module->results;
  const auto each = [&](const auto& function) -> absl::Status {
    for (size_t i = 0; i < results.size(); ++i) {
      const bool loss = results[i].kind == ModuleResult::Kind::kLoss;
      for (size_t replica = 0; replica < (loss ? losses.size() : 1); ++replica) {
        void* const to = loss ? &losses[replica] : sum[results[i].index].data();
        RETURN_IF_ERROR(OfRun(function(i, to, replica)));
      }
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(
      each([&](size_t i, void* to, size_t replica) { return run.Fetch(i, to, replica); }));
  RETURN_IF_ERROR(each([&](size_t i, void*, size_t replica) { return run.Await(i, replica); }));
  return std::vector<double>(losses.begin(), losses.end());
}

}  // namespace paracord
