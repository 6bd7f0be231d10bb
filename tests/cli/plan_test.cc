// Tests the lines about checkpoints and growing tables in a job's plan.
#include "cli/plan.h"

#include <catch2/catch.hpp>
#include <sstream>

namespace paracord {
namespace {

TEST_CASE("what checkpoints take on disk is printed, and a table without an end is named") {
  Job job;
  job.checkpoint.keep = 3;
  std::vector<VariableSpec> variables(2);
  for (VariableSpec& variable : variables) variable.set_trainable(true);
  variables[0].set_name("user/embeddings");
  variables[0].add_shape(16);
  variables[0].add_shape(8);
  variables[0].mutable_table()->set_kind(TableSpec::GROWING);
  variables[1].set_name("dense/kernel");
  variables[1].add_shape(1024);
  const Optimizer adagrad = ParseOptimizer(NamedSpec{"adagrad"}).value();
  const auto said = [&] {
    std::ostringstream out;
    PrintCheckpoints(job, variables, adagrad, out);
    return out.str();
  };
  CHECK(said() ==
        "checkpoints: a full one takes 8.0 KiB and 80 for each row of user/embeddings; at most 4 "
        "are on disk at once: 32.0 KiB and the rows of growing tables\n"
        "note: tables.user.rows_max is missing: the table grows with every new id, by 92 bytes of "
        "the ps' memory for each row, which --memory-limit does not bound; \"expire\" removes rows "
        "that no batch touches\n");
  variables[0].mutable_table()->set_rows_max(1024);
  job.checkpoint.full_every = 5;
  CHECK(said() ==
        "checkpoints: a full one takes 8.0 KiB and 80 for each row of user/embeddings; at most 3 "
        "full ones and 8 that continue them, which have at most a quarter of the rows of growing "
        "tables, are on disk at once: 88.0 KiB, and 400.0 KiB of rows\n");

  // Admission's counters are in every checkpoint: 16 shards of 64 counters of 4 bytes.
  variables[0].mutable_table()->set_admit_after(3);
  variables[0].mutable_table()->set_candidates(1000);
  CHECK(said().starts_with("checkpoints: a full one takes 12.0 KiB and 80 for each row"));
}

TEST_CASE("the rounds of a job are printed with the effective batch and what counts them") {
  Job job;
  job.batch = 64;
  const auto said = [&](std::optional<size_t> workers) {
    std::ostringstream out;
    const absl::Status printed = PrintRounds(job, workers, out);
    return printed.ok() ? out.str() : std::string(printed.message());
  };
  CHECK(said(3).empty());
  job.guarantees.staleness = 2;
  CHECK(said(3) ==
        "rounds: of 3 batches of 64, an effective batch of 192; no gradient lacks more than 2 of "
        "them. The end of the job counts rounds; updates, learning-rate schedules, steps and "
        "`expire` count batches\n");
  CHECK(said(0).find("round_batches: is missing") == 0);
  CHECK(said(std::nullopt).find("rounds: of as many batches of 64 as the cluster names workers;") ==
        0);
  job.guarantees.round_batches = 8;
  CHECK(said(std::nullopt).find("rounds: of 8 batches of 64, an effective batch of 512;") == 0);
  job.guarantees.staleness.reset();
  job.guarantees.consistency = "sync";
  job.guarantees.round_batches = 4;
  CHECK(said(std::nullopt) ==
        "rounds: of 4 batches of 64, an effective batch of 256; each is one update. Updates, "
        "learning-rate schedules, `expire` and the end of the job count rounds; steps count "
        "batches\n");
}

}  // namespace
}  // namespace paracord
