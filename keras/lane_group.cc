#include "keras/lane_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "keras/keras_program.h"

namespace paracord {

// A program of the group. Whatever a device computes besides sums may make it allocate memory in
// its next sum.
class LaneProgram : public GradientProgram {
 public:
  LaneProgram(std::shared_ptr<LaneGroup> lanes, size_t rank, std::unique_ptr<KerasProgram> program)
      : lanes_(std::move(lanes)), rank_(rank), program_(std::move(program)) {}

  const std::vector<VariableSpec>& variables() const override { return program_->variables(); }
  const std::vector<std::string>& metric_names() const override { return program_->metric_names(); }
  std::string Summary() const override { return program_->Summary(); }
  std::string Doubt(const Batch& batch) const override { return program_->Doubt(batch); }
  std::string Memory() const override { return program_->Memory(); }
  int64_t MultiplyAdds() const override { return program_->MultiplyAdds(); }
  bool host_memory() const override { return program_->host_memory(); }

  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& batch) override {
    return program_->RowsOf(batch);
  }
  void UseRows(std::shared_ptr<const TableRows> rows) override {
    program_->UseRows(std::move(rows));
  }
  void OnGradient(std::function<void(size_t)> there) override {
    program_->OnGradient(std::move(there));
  }
  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override {
    return lanes_->Compute(member(), batch, batch_key, values, gradients);
  }
  std::vector<MetricState> TakeTrainingMetrics() override {
    return program_->TakeTrainingMetrics();
  }
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override {
    member().disturbed = true;
    return program_->Evaluate(batch, values, states);
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override {
    member().disturbed = true;
    return program_->Predict(batch, values);
  }
  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override {
    return program_->LookAt(batch, counts);
  }

 private:
  LaneGroup::Member& member() const { return lanes_->members_[rank_]; }

  const std::shared_ptr<LaneGroup> lanes_;  // outlives the program, which waits in it
  const size_t rank_;
  const std::unique_ptr<KerasProgram> program_;
};

LaneGroup::LaneGroup(std::vector<std::string> devices)
    : names_(std::move(devices)), meets_(names_.size()) {}

std::unique_ptr<GradientProgram> LaneGroup::Join(const std::shared_ptr<LaneGroup>& lanes,
                                                 std::unique_ptr<KerasProgram> program,
                                                 GroupOps* group) {
  Member& member = lanes->members_.emplace_back();
  member.program = program.get();
  member.group = group;
  member.tables = std::ranges::any_of(program->variables(),
                                      [](const VariableSpec& v) { return v.has_table(); });
  return std::make_unique<LaneProgram>(lanes, lanes->members_.size() - 1, std::move(program));
}

// Rows of tables are others in every batch, so memory for their copies may grow in any step.
void LaneGroup::Begin(std::span<const LaneShare> lanes) {
  bool alike = true;
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    const uint32_t examples = i < lanes.size() ? lanes[i].examples : 0;
    const bool other = std::exchange(member.examples, examples) != examples;
    if (std::exchange(member.disturbed, false) || other || member.tables) alike = false;
    member.joins = i < lanes.size();
    member.owes = true;
  }
  alike_ = alike ? std::min(alike_ + 1, kNewSteps) : 0;
  for (size_t i = 0; i < members_.size(); ++i) {
    members_[i].program->UseSums(
        {.held = alike_ < kNewSteps, .factor = i < lanes.size() ? lanes[i].factor : 1});
  }
}

absl::StatusOr<double> LaneGroup::Compute(Member& member, const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) {
  if (!std::exchange(member.joins, false)) {
    member.disturbed = true;
    member.program->UseSums({.adds = false});
    return member.program->ComputeGradients(batch, batch_key, values, gradients);
  }
  RETURN_IF_ERROR(lost());
  // After a batch that does not fit the model Complete adds zeros. Once the program has begun, any
  // sum may have been issued.
  RETURN_IF_ERROR(member.program->CheckTrainingBatch(batch));
  member.owes = false;
  absl::StatusOr<double> loss =
      member.program->ComputeGradients(batch, batch_key, values, gradients);
  TookPart(member, loss.status());
  member.disturbed = !loss.ok();
  if (!loss.ok()) RETURN_IF_ERROR(lost());
  return loss;
}

absl::Status LaneGroup::Complete(size_t device) {
  Member& member = members_[device];
  member.joins = false;
  if (!std::exchange(member.owes, false)) return absl::OkStatus();
  RETURN_IF_ERROR(lost());
  absl::Status added = member.program->AddZeros();
  TookPart(member, added);
  return added;
}

// Gives the group up if a device leaves the other devices waiting.
void LaneGroup::TookPart(Member& member, const absl::Status& status) {
  if (status.ok() || (member.program->part_ended() && !absl::IsDataLoss(status))) return;
  {
    MutexLock lock(mu_);
    if (!lost_.ok()) return;
    const auto rank = static_cast<size_t>(&member - members_.data());
    lost_ = absl::DataLossError(absl::StrCat("NCCL cannot add up the gradients of ",
                                             absl::StrJoin(names_, ", "), ": ", names_[rank], ": ",
                                             status.message()));
  }
  meets_.Abort();
  for (const Member& each : members_) each.group->Abort();
}

absl::Status LaneGroup::lost() {
  MutexLock lock(mu_);
  return lost_;
}

}  // namespace paracord
