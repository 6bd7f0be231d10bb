#include "coordinator/core/job_record.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

Job RecordedJob() {
  Job job;
  job.batch = 10;
  job.epochs = 2;
  return job;
}

JobFacts Facts() {
  JobFacts facts;
  facts.set_records(100);
  facts.set_fingerprint("files");
  facts.add_metric_names("loss");
  VariableSpec& variable = *facts.add_variables();
  variable.set_name("dense/kernel");
  variable.add_shape(4);
  variable.add_shape(3);
  variable.set_dtype(FLOAT32);
  variable.set_trainable(true);
  return facts;
}

TEST_CASE("a job that is begun is fixed as soon as it is written, and no sooner") {
  const Job job = RecordedJob();
  JobRecord record(job);
  CHECK_FALSE(record.begun());
  REQUIRE(record.Begin("run", Facts(), 2).ok());
  CHECK(record.begun());
  CHECK_FALSE(record.fixed());
  const std::optional<JobState> written = record.BeginWrite(/*claiming=*/false);
  REQUIRE(written.has_value());
  CHECK(written->run_id == "run");
  CHECK_FALSE(record.EndWrite(absl::UnavailableError("the disk is full"), 0));
  CHECK_FALSE(record.fixed());
  REQUIRE(record.BeginWrite(false).has_value());
  CHECK(record.EndWrite(absl::OkStatus(), 2000));
  CHECK(record.fixed());
  REQUIRE(record.BeginWrite(false).has_value());
  CHECK_FALSE(record.EndWrite(absl::OkStatus(), 3000));  // the job was fixed before
  CHECK(record.fixed());
}

TEST_CASE("the lanes of a job are the batches of its rounds, by default the cluster's workers") {
  Job job = RecordedJob();
  job.guarantees.staleness = 3;
  JobRecord record(job);
  CHECK(record.Begin("run", Facts(), 0).message().find("round_batches: is missing") == 0);
  JobRecord named(job);
  REQUIRE(named.Begin("run", Facts(), 3).ok());
  CHECK(named.plan().lanes() == 3);
  CHECK(named.plan().split_batches() == RoundsPerEpoch(named.plan()));
  job.guarantees.round_batches = 1;
  JobRecord said(job);
  REQUIRE(said.Begin("run", Facts(), 3).ok());
  CHECK(said.plan().lanes() == 1);
  CHECK(said.plan().split_batches() == BatchesPerEpoch(said.plan()));
  JobFacts many = Facts();
  many.set_records(uint64_t{1} << 50);
  CHECK(JobRecord(job).Begin("run", many, 3).message().find("a larger batch or round_batches") !=
        std::string::npos);
}

TEST_CASE("a write of nothing fixes no job") {
  const Job job = RecordedJob();
  JobRecord record(job);
  REQUIRE(record.BeginWrite(false).has_value());
  CHECK_FALSE(record.EndWrite(absl::OkStatus(), 0));
  CHECK_FALSE(record.fixed());
}

TEST_CASE("a restored job is fixed when it is written anew, as the job that is asked for now") {
  const Job job = RecordedJob();
  JobRecord first(job);
  REQUIRE(first.Begin("run", Facts(), 2).ok());
  JobState saved = *first.BeginWrite(false);
  saved.counters.computed = 7;
  Job longer = RecordedJob();
  longer.epochs = 5;
  JobRecord second(longer);
  second.Restore(saved);
  CHECK(second.run_id() == "run");
  CHECK(second.counters().computed == 7);
  CHECK(second.job_json() == JobToJson(longer));
  CHECK(second.fingerprint() != first.fingerprint());
  CHECK(second.Extent(std::nullopt).batches() == 50);
  CHECK_FALSE(second.fixed());
  REQUIRE(second.BeginWrite(false).has_value());
  CHECK(second.EndWrite(absl::OkStatus(), 0));
}

TEST_CASE("a manifest stands for a job.state that is missing") {
  const Job job = RecordedJob();
  JobRecord first(job);
  REQUIRE(first.Begin("run", Facts(), 2).ok());
  Manifest manifest;
  manifest.run_id = "run";
  manifest.plan = first.plan();
  manifest.variables = first.variables();
  manifest.partitions.resize(1);
  manifest.partitions[0].spec = first.Placed(1).value()[0];
  manifest.summary["metric_names"] = {"loss", 3};
  JobRecord second(job);
  second.Restore(manifest);
  CHECK(second.run_id() == "run");
  CHECK(second.metric_names() == std::vector<std::string>{"loss"});
  CHECK(second.Placed(2).value().size() == 1);
  CHECK_FALSE(second.Differs(Facts()).has_value());
}

TEST_CASE("a worker that has found something else cannot take part, and is told what") {
  const Job job = RecordedJob();
  JobRecord record(job);
  REQUIRE(record.Begin("run", Facts(), 2).ok());
  CHECK_FALSE(record.Differs(Facts()).has_value());
  const auto differs = [&](auto edit) {
    JobFacts facts = Facts();
    edit(facts);
    return record.Differs(facts).value_or("");
  };
  CHECK(differs([](JobFacts& f) { f.set_records(99); }).starts_with("it finds 99 training"));
  CHECK(differs([](JobFacts& f) { f.set_test_records(1); }).starts_with("it finds 1 test"));
  CHECK(differs([](JobFacts& f) { f.set_fingerprint("other"); }).find("other") !=
        std::string::npos);
  CHECK(differs([](JobFacts& f) { f.mutable_variables(0)->set_shape(0, 5); }) ==
        "its model has another variable dense/kernel");
  CHECK(differs([](JobFacts& f) { f.clear_variables(); }) ==
        "its model lacks variables of the job");
  CHECK(differs([](JobFacts& f) { f.add_metric_names("auc"); }) ==
        "its model has the metrics loss, auc, and the job has loss");
  // Absent facts do not differ.
  CHECK(differs([](JobFacts& f) { f.clear_metric_names(); }).empty());
}

TEST_CASE("a program that predicts other outputs than the job's is refused, also after a resume") {
  const Job job = RecordedJob();
  JobFacts facts = Facts();
  facts.add_outputs("click (1)");
  facts.add_outputs("buy (1)");
  JobRecord first(job);
  REQUIRE(first.Begin("run", facts, 2).ok());
  const absl::StatusOr<JobState> saved =
      ParseJobState(JobStateToText(*first.BeginWrite(false)), "job.state");
  REQUIRE(saved.ok());
  JobRecord second(job);
  second.Restore(*saved);
  CHECK_FALSE(second.Differs(facts).has_value());
  facts.set_outputs(1, "buy (2)");
  CHECK(second.Differs(facts).value_or("") ==
        "its model has the outputs click (1), buy (2), and the job has click (1), buy (1)");
  facts.set_outputs(1, "two\nlines");
  CHECK(second.Differs(facts).value_or("") == "facts: the outputs are no names with shapes");

  JobRecord older(job);  // from an older job.state, without outputs
  JobState without = *saved;
  without.outputs.clear();
  older.Restore(without);
  CHECK_FALSE(older.Differs(Facts()).has_value());
}

TEST_CASE("facts that no job can be begun by are refused with what is wrong") {
  const Job job = RecordedJob();
  JobFacts facts = Facts();
  facts.add_metric_names("two\nlines");
  CHECK(JobRecord(job).Begin("run", facts, 2).message().find("no metric can be named") !=
        std::string::npos);
  facts = Facts();
  facts.set_records(0);
  CHECK_FALSE(JobRecord(job).Begin("run", facts, 2).ok());
  facts = Facts();
  facts.clear_variables();
  CHECK_FALSE(JobRecord(job).Begin("run", facts, 2).ok());
}

}  // namespace
}  // namespace paracord
