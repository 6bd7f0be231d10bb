#include "program/workload.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "config/shape.h"
#include "data/skipping_source.h"
#include "program/prepared_batches.h"

namespace paracord {
namespace {

// How many batches are prepared before they are needed; with tables, the trainer peeks at these.
constexpr size_t kPrepared = 2, kPreparedWithTables = kUpcomingMax;

// What readers hold of files whose records are read in their order: 8 MiB of offsets, and arrays of
// which a batch takes a large part.
constexpr uint64_t kInOrderEntries = uint64_t{1} << 20, kInOrderHeldBytes = uint64_t{16} << 20;

std::string ColumnText(const Column& column) {
  const Shape shape(column.shape.begin(), column.shape.end());
  return absl::StrCat(column.text ? "strings" : "numbers", " of shape ", ShapeName(shape));
}

void AddFacts(const GradientProgram& program, JobFacts& facts) {
  for (const VariableSpec& variable : program.variables()) *facts.add_variables() = variable;
  for (const std::string& name : program.metric_names()) facts.add_metric_names(name);
  for (const std::string& output : program.Outputs()) facts.add_outputs(output);
}

}  // namespace

absl::Status CheckSameColumns(const Batch& train, const Batch& test) {
  Problems problems;
  for (const auto& [what, ours, theirs] : {std::tuple("input", &train.inputs, &test.inputs),
                                           std::tuple("targets", &train.targets, &test.targets)}) {
    if (ours->size() != theirs->size()) {
      problems.Add("data.test", absl::StrCat("has ", theirs->size(), " columns of ", what,
                                             ", data.train has ", ours->size()));
      continue;
    }
    for (size_t i = 0; i < ours->size(); ++i) {
      const Column& mine = (*ours)[i];
      const Column& other = (*theirs)[i];
      const std::string name = mine.name.empty() ? "" : absl::StrCat(" \"", mine.name, "\"");
      if (ours->size() > 1 && mine.name != other.name) {
        problems.Add("data.test",
                     absl::StrCat(what, name, " is called \"", other.name, "\" there"));
      } else if (mine.text != other.text || mine.shape != other.shape) {
        problems.Add("data.test", absl::StrCat(what, name, " is ", ColumnText(other),
                                               ", that of data.train ", ColumnText(mine)));
      }
    }
  }
  return problems.ToStatus();
}

absl::Status CheckBatchSizes(const GradientProgram& program, const Job& job, uint64_t records) {
  const std::vector<uint32_t> sizes = program.BatchSizes();
  if (sizes.empty()) return absl::OkStatus();
  const uint64_t last = job.each_epoch.drop_last ? 0 : records % job.batch;
  Problems ignored;
  if (BadRecordsSkipped(job.train.options, ignored) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.train.bad_records: the program computes batches of ",
                     absl::StrJoin(sizes, ", "), " examples alone, and none with fewer"));
  }
  for (const uint64_t size : {std::min<uint64_t>(records, job.batch), last}) {
    if (size == 0 || std::find(sizes.begin(), sizes.end(), size) != sizes.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "data.train: ", records, " records in batches of ", job.batch, " make one of ", size,
        " examples, and the program computes batches of ", absl::StrJoin(sizes, ", "),
        " alone; with \"drop_last\": true an epoch has whole batches alone"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Workload> OpenWorkload(Files& files, Job job, const BuildProgramFn& build,
                                      const KeepPlace& keep,
                                      const std::shared_ptr<MemoryShare>& memory) {
  job.train.keep = keep;
  job.train.memory = memory;
  if (job.test.has_value()) {
    job.test->keep = keep;
    job.test->memory = memory;
  }
  Workload workload;
  ASSIGN_OR_RETURN(std::unique_ptr<DataSource> train, OpenDataSource(files, job.train));
  ASSIGN_OR_RETURN(workload.program, build(job, train->schema()));
  RETURN_IF_ERROR(CheckBatchSizes(*workload.program, job, train->records()));
  JobFacts& facts = workload.facts;
  facts.set_records(train->records());
  std::string fingerprint = train->fingerprint();
  for (const std::string& line : train->Warnings()) {
    workload.warnings.push_back("data.train: " + line);
  }
  if (job.test.has_value()) {
    ASSIGN_OR_RETURN(workload.test, OpenDataSource(files, *job.test));
    RETURN_IF_ERROR(CheckSameColumns(train->schema(), workload.test->schema()));
    facts.set_test_records(workload.test->records());
    for (const std::string& line : workload.test->Warnings()) {
      workload.warnings.push_back("data.test: " + line);
    }
    absl::StrAppend(&fingerprint, "+", workload.test->fingerprint());
  }
  facts.set_fingerprint(fingerprint);
  AddFacts(*workload.program, facts);
  // In synchronous training the ps clip the mean of a round.
  if (!job.guarantees.sync()) {
    workload.clip = ReadGradientClip(job.optimizer, workload.program->variables());
  }
  const bool tables =
      std::ranges::any_of(workload.program->variables(),
                          [](const VariableSpec& variable) { return variable.has_table(); });
  workload.feed = MakePreparedBatches(std::move(train), tables ? kPreparedWithTables : kPrepared);
  return workload;
}

absl::StatusOr<Workload> OpenSource(Files& files, const Job& job, DataSpec data,
                                    const BuildProgramFn& build, const KeepPlace& keep) {
  data.keep = keep;
  Workload workload;
  ASSIGN_OR_RETURN(workload.test, OpenDataSource(files, data));
  ASSIGN_OR_RETURN(workload.program, build(job, workload.test->schema()));
  workload.facts.set_test_records(workload.test->records());
  workload.facts.set_fingerprint(workload.test->fingerprint());
  AddFacts(*workload.program, workload.facts);
  workload.warnings = workload.test->Warnings();
  return workload;
}

Job PredictingJob(Job job, DataSpec data) {
  job.train = std::move(data);
  job.train.inputs_alone = true;
  job.train.index_entries_max = std::min(job.train.index_entries_max, kInOrderEntries);
  job.train.held_bytes_max = std::min(job.train.held_bytes_max, kInOrderHeldBytes);
  job.train.unpacked_bytes_max = std::min(job.train.unpacked_bytes_max, kInOrderHeldBytes);
  job.test.reset();
  job.predict.reset();
  job.loss = {};
  job.losses.clear();
  job.loss_weights = {};
  job.metrics.clear();
  job.stop_when.reset();
  job.accumulate = 1;  // a prediction is not computed in slices
  job.guarantees.stages = {};
  return job;
}

}  // namespace paracord
