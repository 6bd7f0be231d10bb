// `paracord validate` predicts what a batch needs. Workers must then send, and ps accept or refuse,
// accordingly.
#include "cli/batch_needs.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/train_checks.h"
#include "common/memory_budget.h"
#include "coordinator/core/partitioner.h"
#include "coordinator/core/placement.h"
#include "exchange/encoding.h"
#include "tensor/ops.h"
#include "tests/example_job.h"
#include "tests/fakes.h"
#include "tests/keras/model_testing.h"
#include "worker/parameter_copy.h"

namespace paracord {
namespace {

VariableSpec Variable(const std::string& name, std::vector<uint64_t> shape) {
  VariableSpec variable;
  variable.set_name(name);
  for (const uint64_t axis : shape) variable.add_shape(axis);
  variable.set_trainable(true);
  return variable;
}

std::vector<VariableSpec> Variables() {
  std::vector<VariableSpec> variables = {Variable("user/embeddings", {5, 8}),
                                         Variable("film/embeddings", {100'000, 4}),
                                         Variable("dense/kernel", {300, 7})};
  variables[0].mutable_table()->set_kind(TableSpec::GROWING);
  variables[1].mutable_table()->set_kind(TableSpec::FIXED);
  return variables;
}

Optimizer Adagrad() { return ParseOptimizer(NamedSpec{"adagrad"}).value(); }

// Returns the bytes of a worker's request to a ps.
uint64_t SentBytes(const Job& job, uint32_t ps, const std::shared_ptr<const TableRows>& rows) {
  const std::vector<VariableSpec> variables = Variables();
  const auto partitions = PlacedPartitions(job, variables, {.count = 2}).value();
  Session session;
  session.set_run_id(std::string(16, 'r'));
  for (int i = 0; i < 2; ++i) session.add_ps()->set_boot_id(std::string(16, 'b'));
  for (const PartitionSpec& partition : partitions) *session.add_partitions() = partition;
  ParameterCopy copy(session, variables, {EncodingOfWire(job.wire), job.compression});
  copy.gradients().Prepare(0, rows);
  for (size_t v = 0; v < variables.size(); ++v) REQUIRE(copy.gradients().Encode(0, v));
  ExchangeOrder order;
  order.batch.emplace().set_batch(1);
  order.proof = std::string(32, 'p');
  order.rows = {rows};
  order.incoming = copy.Expect(order.rows);
  uint64_t bytes = 0;
  for (const absl::Cord& part : copy.Request(ps, "worker:0", order).parts) bytes += part.size();
  return bytes;
}

TEST_CASE("what is measured of a batch is what a worker sends of it") {
  Job job;
  job.partitioner.kind = PartitionerSpec::Kind::kFixedShards;
  job.partitioner.shards = 3;
  job.wire = GENERATE("float32", "bf16");
  if (GENERATE(false, true)) job.compression.kind = CompressionSpec::Kind::kInt8;
  const bool hot = GENERATE(false, true);
  if (hot) {
    job.guarantees.consistency = "sync";
    job.partitioner.copies = 1;
  }
  const auto rows =
      std::make_shared<const TableRows>(MostRows(Variables(), std::vector<uint64_t>{700, 900, 0}));
  const auto needs = MeasureBatch(job, Variables(), Adagrad(), {.count = 2}, rows.get());
  INFO(needs.status());
  REQUIRE(needs.ok());
  uint64_t ids = 0, row_bytes = 0;
  for (uint32_t ps = 0; ps < 2; ++ps) {
    CHECK(needs->ps[ps].request_bytes == SentBytes(job, ps, rows));
    CHECK(needs->ps[ps].limit.ok());
    ids += needs->ps[ps].ids;
    row_bytes += needs->ps[ps].row_bytes;
  }
  const uint64_t element = job.wire == "float32" ? 4 : 2;
  CHECK(ids == (hot ? 3 : 2) * (700 + 900));  // pushed, with copies to both ps, and pulled
  CHECK(row_bytes == (700 * 8 + 900 * 4) * element);
  REQUIRE(needs->tables.size() == 2);
  CHECK(needs->tables[0].ids == 700);
  CHECK(needs->tables[0].bytes == 700 * 8 * element);
  CHECK(needs->tables[0].ps_ids >= 350);
  CHECK(needs->tables[1].ids == 900);
  const std::vector<std::string> lines = NeedLines(*needs, std::nullopt);
  REQUIRE(lines.size() == 4);
  CHECK(absl::StartsWith(lines[0], "user/embeddings: 700 ids a batch"));
  CHECK(absl::StrContains(lines[2], " of 8.0 MiB, "));
  CHECK(absl::StrContains(lines[3], "is enough"));
  CHECK(CheckNeeds(*needs, uint64_t{128} << 20).ok());
}

// Returns the bytes of a request that pushes so many bytes of values: they come in pieces.
uint64_t Framed(uint64_t bytes) { return bytes + bytes / 64 + 64 * 1024; }

TEST_CASE(
    "a ps with copies holds the bytes of both, and asynchronous ones are no reason to refuse") {
  Job job;
  job.partitioner.kind = PartitionerSpec::Kind::kFixedShards;
  job.partitioner.shards = 2;
  const std::vector<VariableSpec> variables = {Variable("dense/kernel", {4'000'000, 2})};
  const auto measure = [&](const char* consistency, uint32_t copies) {
    job.guarantees.consistency = consistency;
    job.partitioner.copies = copies;
    return MeasureBatch(job, variables, Adagrad(), {.count = 2}, nullptr).value();
  };
  constexpr uint64_t kHalf = uint64_t{4'000'000} * 4;
  const BatchNeeds alone = measure("async", 0), warm = measure("async", 1);
  const BatchNeeds sync = measure("sync", 0), hot = measure("sync", 1);
  for (size_t ps = 0; ps < 2; ++ps) {
    CAPTURE(ps);
    CHECK(alone.ps[ps].variables == 2 * kHalf);  // with Adagrad's slot
    CHECK(alone.ps[ps].copy_variables == 0);
    CHECK(warm.ps[ps].variables == 2 * kHalf);
    CHECK(warm.ps[ps].copy_variables == 2 * kHalf);
    CHECK(warm.ps[ps].copy_pushed == Framed(kHalf));
    CHECK(hot.ps[ps].variables == 4 * kHalf);
    CHECK(hot.ps[ps].copy_variables == 0);
    CHECK(hot.ps[ps].pushed == Framed(2 * kHalf));
    CHECK(hot.ps[ps].rounds == 2 * sync.ps[ps].rounds);
  }
  // What a process of so much memory takes.
  const auto takes = [](const BatchNeeds& needs, uint64_t limit) {
    return CheckNeeds(needs, limit).ok();
  };
  for (const BatchNeeds* needs : {&alone, &warm, &sync, &hot}) {
    CHECK(takes(*needs, EnoughMemory(*needs)));
  }
  CHECK(EnoughMemory(warm) >= EnoughMemory(alone) + 2 * kHalf);  // alone: the least limit of all
  CHECK(takes(warm, EnoughMemory(alone)));
  CHECK(EnoughMemory(hot) >= EnoughMemory(sync) + 2 * kHalf);
  CHECK_FALSE(takes(hot, EnoughMemory(sync)));
  // The sum is the one by which a ps takes what it is to prepare beside what it holds.
  MemoryBudget memory(EnoughMemory(warm));
  REQUIRE(memory.HoldVariables(warm.ps[0].variables, warm.ps[0].pushed, 0, false).ok());
  CHECK(memory.CheckBeside(warm.ps[0].copy_variables, warm.ps[0].copy_pushed).ok());
  MemoryBudget small(EnoughMemory(alone));
  REQUIRE(small.HoldVariables(warm.ps[0].variables, warm.ps[0].pushed, 0, false).ok());
  CHECK_FALSE(small.CheckBeside(warm.ps[0].copy_variables, warm.ps[0].copy_pushed).ok());
}

TEST_CASE("a batch that no ps could take is refused with its ids, the limit and the key") {
  constexpr uint64_t kLimit = uint64_t{128} << 20;
  const auto check = [&](uint64_t ids) {
    const TableRows rows = MostRows(Variables(), std::vector<uint64_t>{ids, 0, 0});
    const auto needs = MeasureBatch(Job(), Variables(), Adagrad(), {}, &rows);
    REQUIRE(needs.ok());
    const absl::Status fits = CheckNeeds(*needs, kLimit);
    // The size that the message calls enough must be enough.
    const std::string enough = NeedLines(*needs, std::nullopt).back();
    INFO(enough);
    CHECK(CheckNeeds(*needs, uint64_t{2} << 30).ok());
    return fits;
  };
  CHECK(check(100'000).ok());
  const absl::Status refused = check(1'500'000);
  INFO(refused);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(absl::StartsWith(refused.message(), "ps:0: batch: 3000000 ids and what is pushed"));
  CHECK(absl::StrContains(refused.message(), "of what --memory-limit 128.0 MiB leaves"));
}

Job EmbeddingJob(int64_t rows, int64_t width) {
  Job job = JobFor(
      SequentialJson(
          {LayerJson("InputLayer",
                     {{"name", "id"}, {"dtype", "int64"}, {"batch_shape", {nullptr, 4}}}),
           LayerJson("Embedding", {{"name", "user"}, {"input_dim", rows}, {"output_dim", width}}),
           LayerJson("Flatten", {{"name", "flat"}})}),
      "mean_squared_error", 64);
  job.optimizer.name = "adagrad";
  return job;
}

TEST_CASE("train finds what does not fit before it starts a process") {
  PosixFiles files;
  std::vector<std::string> lines;
  Job job = EmbeddingJob(1'000'000, 16);
  CHECK(CheckFits(files, job, {.count = 2}, uint64_t{1} << 30, lines).ok());
  REQUIRE(lines.size() == 2);
  CHECK(absl::StartsWith(lines[0], "user/embeddings: at most 256 ids a batch"));
  CHECK(absl::StrContains(lines[1], " pieces of 1048576, "));

  // First the variables leave no room for a push, then no ps has room for a partition.
  absl::Status fits =
      CheckFits(files, EmbeddingJob(4'000'000, 16), {.count = 2}, uint64_t{128} << 20, lines);
  CHECK(absl::StrContains(fits.message(), "--memory-limit is 128.0 MiB"));
  job.partitioner.kind = PartitionerSpec::Kind::kFixedShards;
  job.partitioner.shards = 1;
  job.model["config"]["layers"][1]["config"]["input_dim"] = 20'000'000;
  fits = CheckFits(files, job, {.count = 2}, uint64_t{1} << 40, lines);
  INFO(fits);
  CHECK(absl::IsInvalidArgument(fits));
  CHECK(absl::StrContains(fits.message(), "a partition has 1280000000 bytes"));
  CHECK(absl::StrContains(fits.message(), "\"partitioner\""));
}

TEST_CASE(
    "train gives the ps in a worker its part of the memory, and says what the process needs") {
  PosixFiles files;
  std::vector<std::string> lines;
  const Job job = EmbeddingJob(2'000'000, 16);  // with slots, 122 MiB for each of two ps
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  for (uint64_t limit = 256; limit <= 1024; limit += 64) {
    CAPTURE(limit);
    const bool fits = CheckFits(files, job, {.count = 2}, limit / 2 * kMiB, lines).ok();
    CHECK(CheckFits(files, job, {.count = 2, .nodes = true}, limit * kMiB, lines).ok() == fits);
  }
  const absl::Status refused =
      CheckFits(files, job, {.count = 2, .nodes = true}, 256 * kMiB, lines);
  INFO(refused);
  CHECK(absl::StartsWith(refused.message(), "worker:0: variables and slots take "));
  CHECK(absl::StrContains(refused.message(), "--memory-limit is 256.0 MiB, of which the worker"));
  CHECK(absl::StrContains(refused.message(), "the cluster more of them"));
  // The size that the message demands must be enough.
  double needed = 0;
  const std::string said(refused.message());
  REQUIRE(sscanf(said.substr(said.find("at least ")).c_str(), "at least %lf MiB", &needed) == 1);
  CHECK(needed > 256);
  const auto enough = static_cast<uint64_t>(needed + 1) * kMiB;
  CHECK_FALSE(CheckFits(files, job, {.count = 2, .nodes = true}, enough - 4 * kMiB, lines).ok());
  const absl::Status then = CheckFits(files, job, {.count = 2, .nodes = true}, enough, lines);
  INFO(then);
  CHECK((then.ok() || absl::StrContains(then.message(), "batch: ")));
}

TEST_CASE("a batch that no worker without ps could take is refused with the whole limit") {
  constexpr uint64_t kLimit = uint64_t{256} << 20;
  const TableRows rows = MostRows(Variables(), std::vector<uint64_t>{1'500'000, 0, 0});
  const auto needs = MeasureBatch(Job(), Variables(), Adagrad(), {.nodes = true}, &rows);
  REQUIRE(needs.ok());
  const absl::Status refused = CheckNeeds(*needs, kLimit);
  INFO(refused);
  CHECK(absl::StartsWith(refused.message(), "worker:0: batch: 3000000 ids and what is pushed"));
  CHECK(
      absl::StrContains(refused.message(),
                        "of what the part 128.0 MiB of --memory-limit 256.0 MiB leaves: a smaller "
                        "\"batch\", more workers, or more memory"));
  CHECK(absl::StrContains(NeedLines(*needs, std::nullopt).back(), " for each worker is enough"));
  BatchNeeds of_one = *needs;
  of_one.holders.one = true;
  CHECK(absl::StrContains(CheckNeeds(of_one, kLimit).message(),
                          "leaves: a smaller \"batch\", more memory, or `strategy` "
                          "\"multi_worker_mirrored\" with more workers"));
}

TEST_CASE("train names training and test data that are missing, and their keys") {
  const TestDirectory directory;
  directory.Write("x.npy", "1\n");
  directory.Write("part-0.csv", "1\n");
  PosixFiles files;
  const auto in = [&](const char* name) { return directory / name; };
  Job job;
  job.train = {"npy", {{"features", {{"a", in("x.npy")}}}, {"labels", in("y.npy")}}};
  const absl::Status no_file = CheckDataFiles(files, job, /*resumes=*/false);
  CHECK(absl::IsNotFound(no_file));
  CHECK(no_file.message() == "data.train.labels: there is no file " + in("y.npy") +
                                 ": make or download the data first, or correct the path");
  directory.Write("y.npy", "1\n");
  CHECK(CheckDataFiles(files, job, /*resumes=*/false).ok());

  job.train = {"csv", {{"files", {in("part-*.csv"), in("clicks-*.csv")}}}};
  CHECK(CheckDataFiles(files, job, /*resumes=*/false).message() ==
        "data.train.files[1]: no file matches " + in("clicks-*.csv") +
            ": make or download the data first, or correct the path");
  job.train.options["files"] = in("part-*.csv");
  CHECK(CheckDataFiles(files, job, /*resumes=*/false).ok());
  job.test = job.train;
  job.test->options["files"] = in("part-1.csv");
  CHECK(absl::StartsWith(CheckDataFiles(files, job, /*resumes=*/false).message(),
                         "data.test.files: there is no "));
  job.test.reset();

  // A job starts although files are missing that `train` does not read or that only workers can
  // see.
  job.predict = DataSpec{"csv", {{"files", in("later.csv")}}};
  CHECK(CheckDataFiles(files, job, /*resumes=*/false).ok());
  job.train.options["files"] = "s3://bucket/part-*.csv";
  CHECK(CheckDataFiles(files, job, /*resumes=*/false).ok());
  job.train.options["files"] = "gs://bucket/part-*.csv";
  CHECK_THAT(std::string(CheckDataFiles(files, job, /*resumes=*/false).message()),
             Catch::Contains("data.train.files: gs://bucket/part-*.csv: nobody reads gs://"));
  job.train = {"images", {{"folder", directory.path()}}};
  CHECK(CheckDataFiles(files, job, /*resumes=*/false).ok());
  job.initial_weights.file = in("weights.safetensors");
  CHECK(CheckDataFiles(files, job, /*resumes=*/false).message() ==
        "initial_weights: there is no file " + in("weights.safetensors") +
            ": correct the path, or leave the key out");
  CHECK(CheckDataFiles(files, job, /*resumes=*/true).ok());  // the checkpoint has the values
  directory.Write("weights.safetensors", "");
  CHECK(CheckDataFiles(files, job, /*resumes=*/false).ok());

  job.train = {
      "mix",
      {{"mix",
        {{{"format", "csv"}, {"files", in("part-0.csv")}},
         {{"format", "text"}, {"files", in("x.npy")}, {"vocabulary_file", in("words")}}}}}};
  CHECK(absl::StartsWith(CheckDataFiles(files, job, /*resumes=*/false).message(),
                         "data.train.mix[1].vocabulary_file: there is no file "));
}

TEST_CASE("train refuses a folder, a device and an empty file as data, naming key and path") {
  const TestDirectory directory;
  const std::string empty = directory.Write("empty.csv", "");
  PosixFiles files;
  Job job;
  const auto said = [&](const std::string& path) {
    job.train = {"csv", {{"files", path}}};
    return std::string(CheckDataFiles(files, job, /*resumes=*/false).message());
  };
  CHECK(said(directory.path()) == "data.train.files: " + directory.path() +
                                      " is a folder, and data are read from files: name the file");
  CHECK(said("/dev/null") ==
        "data.train.files: /dev/null is not a regular file: name the file that holds the data");
  CHECK(said(empty) == "data.train.files: " + empty + " is empty: make or download the data anew");
  directory.Write("empty.csv2", "1\n");
  CHECK(said(directory / "empty.*").empty());  // one of several files may be empty
  job.train = {"images", {{"folder", empty}}};
  CHECK(CheckDataFiles(files, job, /*resumes=*/false).message() ==
        "data.train.folder: " + empty + " is a file, and images are read from a folder");
}

}  // namespace
}  // namespace paracord
