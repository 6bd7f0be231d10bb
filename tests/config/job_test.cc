// Tests the keys of job files, the report of all problems at once, and the canonical form.
#include "config/job.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/json_text.h"
#include "config/job_data.h"
#include "config/json_fields.h"
#include "tests/batches.h"
#include "tests/fakes.h"
#include "tests/sanitized.h"

namespace paracord {
namespace {

using nlohmann::json;

const char kModel[] = R"({"class_name": "Sequential", "config": {"layers": []}})";

json MinimalJson() {
  return JsonOf(R"({
    "name": "j", "model": {"class_name": "Sequential", "config": {"layers": []}},
    "data": {"train": {"format": "idx", "features": "/d/x", "labels": "/d/y"},
             "test": {"format": "idx", "features": "/d/tx", "labels": "/d/ty"}},
    "loss": "mse", "metrics": ["accuracy"], "optimizer": "sgd"})");
}

Job MinimalJob() {
  absl::StatusOr<Job> job = ParseJob(TextOf(MinimalJson()));
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  return *std::move(job);
}

// Returns the problem of the minimal job with one key (a JSON pointer) set to `value`, or removed
// if `value` is "erase".
std::string ProblemOf(const std::string& pointer, const std::string& value) {
  json document = MinimalJson();
  const json::json_pointer place(pointer);
  if (value == "erase") {
    document.at(place.parent_pointer()).erase(place.back());
  } else {
    document[place] = JsonOf(value);
  }
  return std::string(ParseJob(TextOf(document)).status().message());
}

TEST_CASE("a job with only the required keys has the documented defaults") {
  const Job job = MinimalJob();
  CHECK(job.batch == 64);
  CHECK(!job.split_batches);
  CHECK(job.epochs == 1);
  CHECK(!job.steps);
  CHECK(job.each_epoch.shuffle);
  CHECK(job.guarantees.consistency == "async");
  CHECK(job.loss.name == "mean_squared_error");
  CHECK(job.optimizer.name == "sgd");
  CHECK(job.partitioner.kind == PartitionerSpec::Kind::kMinSize);
  CHECK(job.partitioner.min_shard_bytes == 262144);
  CHECK(job.partitioner.max_shards == 8u);
  CHECK(job.timeouts.worker_ms == 10000);
  CHECK(job.checkpoint.keep == 3);
  CHECK(job.failures.skip);
}

TEST_CASE("a job that is no object is one problem, not a list of missing keys") {
  for (const char* text : {"null", "[]", "3", R"("job")"}) {
    const std::string message(ParseJob(text).status().message());
    CHECK(message ==
          absl::StrCat("a job must be an object with the keys model and data, is ", text));
  }
}

TEST_CASE("a job file is read with its model and relative paths") {
  const TestDirectory directory;
  directory.Write("models/m.json", kModel);
  const std::string path = directory.Write("jobs/cnn.json", R"({
    "model": "../models/m.json",
    "data": {"train": {"format": "idx", "features": "x-*.gz", "labels": ["y0", "/abs/y1"],
                       "scale": 0.5}},
    "initial_weights": "./w.safetensors",
    "loss": {"name": "huber", "delta": 2.0}, "metrics": ["acc", {"name": "mae"}],
    "optimizer": {"name": "Adam", "learning_rate": 0.001},
    "steps": 100, "epochs": null, "seed": 18446744073709551615})");
  PosixFiles files;
  absl::StatusOr<Job> job = ReadJobFile(files, path);
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  CHECK(job->name == "cnn");
  CHECK(job->model == JsonOf(kModel));
  CHECK(job->train.options["features"] == directory / "jobs/x-*.gz");
  CHECK(job->train.options["labels"] == json({directory / "jobs/y0", "/abs/y1"}));
  CHECK(job->train.options["scale"] == 0.5);
  CHECK(!job->test);
  CHECK(job->initial_weights.file == directory / "jobs/w.safetensors");
  CHECK(job->loss.options["delta"] == 2.0);
  CHECK(job->metrics[0].name == "accuracy");
  CHECK(job->metrics[1].name == "mean_absolute_error");
  CHECK(job->optimizer.name == "adam");
  CHECK(job->steps == 100u);
  CHECK(job->seed == 18446744073709551615u);
}

TEST_CASE("paths of every format and of every source of a mix become absolute") {
  const TestDirectory directory;
  const std::string path = directory.Write("jobs/mix.json", std::string(R"({"model": )") + kModel +
                                                                R"(,
    "data": {"train": {"mix": [
      {"weight": 3, "format": "csv", "files": ["a*.csv"], "label": "y",
       "features": [{"column": "c", "kind": "categorical", "vocabulary_file": "words"}]},
      {"format": "text", "files": "t", "vocabulary_from": "/abs/v", "window": 4}]},
      "test": {"format": "images", "folder": "i", "size": [2, 2], "part": {"to": 0.5}}},
    "loss": "mse", "optimizer": "sgd"})");
  PosixFiles files;
  const absl::StatusOr<Job> job = ReadJobFile(files, path);
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  CHECK(job->train.format == "mix");
  const json& csv = job->train.options["mix"][0];
  CHECK(csv["files"][0] == directory / "jobs/a*.csv");
  CHECK(csv["features"][0]["vocabulary_file"] == directory / "jobs/words");
  CHECK(csv["weight"] == 3);
  const json& text = job->train.options["mix"][1];
  CHECK(text["files"] == directory / "jobs/t");
  CHECK(text["vocabulary_from"] == "/abs/v");
  CHECK(job->test->options["folder"] == directory / "jobs/i");
  const absl::StatusOr<Job> again = ParseJob(JobToJson(*job));
  REQUIRE(again.ok());
  CHECK(JobToJson(*again) == JobToJson(*job));
}

TEST_CASE("the canonical form has every key, is stable, and reads back as the same job") {
  Job job = MinimalJob();
  const std::string text = JobToJson(job);
  for (const char* key : {"steps", "initial_weights", "stop_when", "timeouts", "placement"}) {
    CHECK(JsonOf(text).contains(key));
  }
  CHECK(JobToJson(*ParseJob(text)) == text);

  job.steps = 7;
  job.test.reset();
  job.initial_weights.file = "/w";
  job.optimizer.options = {{"learning_rate", {{"name", "exponential_decay"}, {"decay", 0.5}}}};
  job.partitioner = {PartitionerSpec::Kind::kMaxSize, 1, 1, 1 << 20, std::nullopt};
  job.failures.skip = false;
  job.wire = "bf16";
  job.compression = {CompressionSpec::Kind::kTopK, 0.25};
  job.overlap = true;
  job.checkpoint.every_seconds = 0.125;
  const std::string other = JobToJson(job);
  absl::StatusOr<Job> again = ParseJob(other);
  INFO(again.status().ToString());
  REQUIRE(again.ok());
  CHECK(JobToJson(*again) == other);
  CHECK(again->partitioner.max_shards == std::nullopt);
  CHECK(again->checkpoint.every_seconds == 0.125);
  CHECK(again->compression.kind == CompressionSpec::Kind::kTopK);
  CHECK(again->compression.ratio == 0.25);
  job.compression = {CompressionSpec::Kind::kInt8};
  CHECK(ParseJob(JobToJson(job))->compression.kind == CompressionSpec::Kind::kInt8);
  job.initial_weights.partial = true;
  CHECK(ParseJob(JobToJson(job))->initial_weights.file == "/w");
  CHECK(ParseJob(JobToJson(job))->initial_weights.partial);
}

TEST_CASE("min_size cuts into 8 parts at most unless told, max_size has no such limit") {
  json document = MinimalJson();
  document["partitioner"] = {{"kind", "max_size"}, {"max_shard_bytes", 1000}};
  CHECK(ParseJob(TextOf(document))->partitioner.max_shards == std::nullopt);
  document["partitioner"] = {{"kind", "min_size"}};
  CHECK(ParseJob(TextOf(document))->partitioner.max_shards == 8u);
  document["partitioner"] = {{"kind", "min_size"}, {"max_shards", nullptr}};
  CHECK(ParseJob(TextOf(document))->partitioner.max_shards == std::nullopt);
  document["partitioner"] = {{"kind", "fixed_shards"}, {"shards", 4}};
  CHECK(ParseJob(TextOf(document))->partitioner.shards == 4);
}

struct Bad {
  const char* pointer;
  const char* value;
  const char* expected;
};

const Bad kBadValues[] = {
    {"/name", "erase", "name: is missing"},
    {"/name", "\"\"", "name: must be a string"},
    {"/name", "3", "name: must be a string"},
    {"/name", "\"a/../b\"", "name: names a directory"},
    {"/name", "\"a\\nb\"", "name: names a directory"},
    {"/model", "erase", "model: is missing"},
    {"/model", "\"m.json\"", "model: must be the JSON"},
    {"/model", "[]", "model: must be the JSON"},
    {"/data", "erase", "data: is missing"},
    {"/data", "[]", "data: must be an object"},
    {"/data/train", "erase", "data.train: is missing"},
    {"/data/train", "\"x\"", "data.train: must be an object"},
    {"/data/validation", "{}", "data.validation: unknown key"},
    {"/data/train/format", "erase", "data.train.format: is missing"},
    {"/data/train/format", "\"idxx\"", "data.train.format: is \"idxx\""},
    {"/data/train", R"({"mix": 3})", "data.train.mix: must be a list of sources"},
    {"/data/train", R"({"mix": [3]})", "data.train.mix[0]: must be an object"},
    {"/data/train", R"({"mix": [{"format": "idxx"}]})", "data.train.mix[0].format: is"},
    {"/data/train", R"({"mix": [{"format": "csv", "files": ["/a", 3]}]})",
     "data.train.mix[0].files[1]: must be a path"},
    {"/data/train/features", "\"x\"", "data.train.features: must be an absolute path"},
    {"/data/train/features", "3", "data.train.features: must be a path"},
    {"/data/train/features", "[]", "data.train.features: must be a path"},
    {"/data/test/labels", "[\"/a\", 1]", "data.test.labels[1]: must be a path"},
    {"/batch", "0", "batch: must be an integer from 1"},
    {"/batch", "1.5", "batch: must be an integer"},
    {"/batch", "64.0", "batch: must be an integer"},
    {"/batch", "-1", "batch: must be an integer"},
    {"/batch", "\"64\"", "batch: must be an integer"},
    {"/batch", "null", "batch: must be an integer"},
    {"/batch", "4294967296", "batch: must be an integer"},
    {"/batch", "18446744073709551680", "batch: must be an integer"},
    {"/batch_size", "64", "batch_size: unknown key; did you mean `batch`"},
    {"/batches", "64", "batches: unknown key; did you mean `batch`"},
    {"/accumulate", "65", "accumulate: is 65, more than the batch"},
    {"/split_batches", "0", "split_batches: must be an integer"},
    {"/shuffle", "1", "shuffle: must be true or false"},
    {"/seed", "-1", "seed: must be an integer"},
    {"/seed", "18446744073709551616", "seed: must be an integer"},
    {"/epochs", "0", "epochs: must be an integer"},
    {"/steps", "0", "steps: must be an integer"},
    {"/steps", "1e3", "steps: must be an integer"},
    {"/initial_weights", "\"w\"", "initial_weights: must be an absolute path"},
    {"/initial_weights", "[\"/w\"]", "initial_weights: must be a path"},
    {"/initial_weights", R"({"partial": true})", "initial_weights.file: is missing"},
    {"/initial_weights", R"({"file": ["/w"]})", "initial_weights.file: must be a path"},
    {"/initial_weights", R"({"file": "/w", "partial": 1})",
     "initial_weights.partial: must be true or false"},
    {"/initial_weights", R"({"file": "/w", "part": true})",
     "initial_weights.part: unknown key; there is: file, partial"},
    {"/loss", "erase", "loss: is missing, and the model's compile_config"},
    {"/loss", "3", "loss: must be a name"},
    {"/loss", "{}", "loss.name: is missing"},
    {"/class_weight", R"({"cat": 2})", "class_weight.cat: is no number of a class"},
    {"/class_weight", R"({"1": 2, "01": 3})", "class_weight.01: is no number of a class"},
    {"/class_weight", R"({"-1": 2})", "class_weight.-1: is no number of a class"},
    {"/class_weight", R"({"0": 1, "1": -2})", "class_weight.1: must be a number from 0 on, is -2"},
    {"/class_weight", R"({" 1": 2})", "class_weight. 1: is no number of a class"},
    {"/optimizer", "erase", "optimizer: is missing, and the model's"},
    {"/optimizer", "{\"learning_rate\": 1}", "optimizer.name: is missing"},
    {"/optimizer", "{\"name\": 1}", "optimizer.name: must be a string"},
    {"/optimizer", "{\"class_name\": \"Adam\", \"config\": 1}", "optimizer.config: must be"},
    {"/optimizer", "{\"class_name\": \"Adam\", \"conf\": {}}", "did you mean `config`"},
    {"/metrics", "\"accuracy\"", "metrics: must be a list"},
    {"/metrics", "[1]", "metrics[0]: must be a name"},
    {"/evaluate", "3", "evaluate: must be an object"},
    {"/evaluate", "{\"every_epoch\": 1}", "evaluate.every_epoch: unknown key; did you mean"},
    {"/evaluate", "{\"every_epochs\": -1}", "evaluate.every_epochs: must be an integer"},
    {"/stop_when", "{\"metric\": \"accuracy\"}", "stop_when: needs one of"},
    {"/stop_when", "{\"metric\": \"accuracy\", \"at_least\": 1, \"at_most\": 2}", "needs one of"},
    {"/stop_when", "{\"at_least\": 1}", "stop_when.metric: is missing"},
    {"/stop_when", R"({"metric": "loss", "patience": -1})", "stop_when.patience: must be an int"},
    {"/stop_when", R"({"metric": "loss", "patience": 1, "min_delta": -1})",
     "stop_when.min_delta: must be a number from 0"},
    {"/stop_when", R"({"metric": "loss", "at_most": 1, "min_delta": 1})",
     "stop_when.min_delta: applies only with `patience` or `restore_best`"},
    {"/stop_when", R"({"metric": "loss", "patience": 1, "mode": "auto"})",
     "stop_when.mode: is \"auto\", but there is only: min, max"},
    {"/stop_when", R"({"metric": "loss", "patience": 1, "restore_best_weights": true})",
     "stop_when.restore_best_weights: unknown key; did you mean `restore_best`?"},
    {"/stop_when", "{\"metric\": \"accurcy\", \"at_least\": 1}", "did you mean `accuracy`"},
    {"/stop_when", "{\"metric\": \"accuracy\", \"at_least\": \"1\"}", "stop_when.at_least: must"},
    {"/recovery", "\"rollback\"", "recovery: is \"rollback\", but there is only: replay"},
    {"/precision", "\"mixed_float16\"", "float32, tf32, bf16, fp16; did you mean `fp16`?"},
    {"/precision", "\"bfloat16\"", "did you mean `bf16`?"},
    {"/placement", "\"random\"", "placement: is \"random\", but there is only: greedy"},
    {"/wire", "\"bf61\"", "wire: is \"bf61\", but there is only: float32, bf16, f16; did you mean"},
    {"/wire", "\"float16\"", "float32, bf16, f16; did you mean `f16`?"},
    {"/wire", "\"fp16\"", "did you mean `f16`?"},
    {"/wire", "\"half\"", "did you mean `f16`?"},
    {"/wire", "\"bfloat16\"", "did you mean `bf16`?"},
    {"/wire", "\"fp32\"", "did you mean `float32`?"},
    {"/wire", "16", "wire: is 16"},
    {"/overlap", "1", "overlap: "},
    {"/compression", "\"top_k\"", "compression: must be an object"},
    {"/compression", "{}", "compression.kind: is missing"},
    {"/compression", "{\"kind\": \"topk\"}", "did you mean `top_k`"},
    {"/compression", "{\"kind\": \"top_k\", \"ratio\": 0}", "compression.ratio: must be a number"},
    {"/compression", "{\"kind\": \"top_k\", \"ratio\": 1.5}", "compression.ratio: must be"},
    {"/compression", "{\"kind\": \"int8\", \"ratio\": 0.5}", "compression.ratio: is for top_k"},
    {"/compression", "{\"kind\": \"int8\", \"rate\": 1}", "compression.rate: unknown key"},
    {"/failures/policy", "\"ignore\"", "failures.policy: is \"ignore\""},
    {"/failures/per_batch", "0", "failures.per_batch: must be"},
    {"/failures/deaths_per_batch", "0", "failures.deaths_per_batch: must be"},
    {"/failures/rejected_max", "1.5", "failures.rejected_max: must be a number from 0 to 1"},
    {"/failures/rejected_max", "\"0\"", "failures.rejected_max: must be a number"},
    {"/timeouts/worker_ms", "0", "timeouts.worker_ms: must be"},
    {"/timeouts/worker_s", "1", "timeouts.worker_s: unknown key; did you mean `worker_ms`"},
    {"/timeouts/start_s", "0.5", "timeouts.start_s: must be"},
    {"/timeouts/ps_ms", "9223372036854775807", "timeouts.ps_ms: must be"},
    {"/partitioner", "{}", "partitioner.kind: is missing"},
    {"/partitioner", "\"min_size\"", "partitioner: must be an object"},
    {"/partitioner", "{\"kind\": \"hash\"}", "partitioner.kind: is \"hash\""},
    {"/partitioner", "{\"kind\": \"fixed_shards\"}", "partitioner.shards: is missing"},
    {"/partitioner", "{\"kind\": \"max_size\"}", "partitioner.max_shard_bytes: is missing"},
    {"/partitioner", "{\"kind\": \"min_size\", \"shards\": 2}", "partitioner.shards: unknown"},
    {"/partitioner", "{\"kind\": \"min_size\", \"max_shards\": 0}", "partitioner.max_shards: mu"},
    {"/checkpoint/every_seconds", "-1", "checkpoint.every_seconds: must be a number from 0"},
    {"/checkpoint/keep", "0", "checkpoint.keep: must be"},
    {"/checkpoint/keeep", "1", "checkpoint.keeep: unknown key; did you mean `keep`"},
    {"/optimiser", "\"adam\"", "optimiser: unknown key; did you mean `optimizer`"},
};

TEST_CASE("every wrong value is named by its full key") {
  for (const Bad& bad : kBadValues) {
    INFO(bad.pointer << " = " << bad.value);
    const std::string problem = ProblemOf(bad.pointer, bad.value);
    INFO(problem);
    CHECK(absl::StrContains(problem, bad.expected));
  }
}

TEST_CASE("steps and epochs together are refused") {
  json document = MinimalJson();
  document["steps"] = 5;
  document["epochs"] = 2;
  CHECK(absl::StrContains(ParseJob(TextOf(document)).status().message(), "steps: give either"));
}

TEST_CASE("stopping on a metric needs test data") {
  json document = MinimalJson();
  document["data"].erase("test");
  document["stop_when"] = {{"metric", "loss"}, {"at_most", 0.1}};
  CHECK(absl::StrContains(ParseJob(TextOf(document)).status().message(), "stop_when: needs `data"));
}

TEST_CASE("all problems of a job are reported at once, one line each") {
  json document = MinimalJson();
  document["batch"] = 0;
  document["seeds"] = 1;
  document["timeouts"]["ps_ms"] = "soon";
  document["data"].erase("train");
  document.erase("loss");
  const std::string message(ParseJob(TextOf(document)).status().message());
  const std::vector<std::string> lines = absl::StrSplit(message, '\n');
  CHECK(lines.size() == 5);
  for (const char* key : {"batch:", "seeds:", "timeouts.ps_ms:", "data.train:", "loss:"}) {
    CHECK(absl::StrContains(message, key));
  }
}

TEST_CASE("hostile documents give an error, not a crash") {
  for (const std::string& text : std::vector<std::string>{
           "", "null", "[]", "3", "\"x\"", "{}", "{\"a\"", std::string(1000000, '['),
           "{\"name\": 1e999}", "{\"name\": \"\xff\"}",
           R"({"model": {"model": {}}, "data": {}})"}) {
    CHECK(ParseJob(text).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("a job cut off or with any byte changed gives a job or an error, not a crash") {
  json document = MinimalJson();
  document["optimizer"] = {{"class_name", "Adam"}, {"config", {{"learning_rate", 0.1}}}};
  document["partitioner"] = {{"kind", "max_size"}, {"max_shard_bytes", 5}};
  document["stop_when"] = {{"metric", "loss"}, {"at_most", 0.5}};
  const std::string text = TextOf(document);
  for (size_t i = 0; i < text.size(); i += UnderSanitizers(5, 1)) {
    CHECK(!ParseJob(text.substr(0, i)).ok());
    for (char c : {'0', '"', '{', '[', ',', '}', ']', '-', ':', 'x', '\xff', '\0'}) {
      std::string changed = text;
      changed[i] = c;
      absl::StatusOr<Job> job = ParseJob(changed);
      if (job.ok()) CHECK(ParseJob(JobToJson(*job)).ok());
    }
  }
}

TEST_CASE("a model's compile_config fills in what the job leaves out, and nothing else") {
  json document = MinimalJson();
  document["model"]["compile_config"] = {
      {"optimizer", "Adam"}, {"loss", "mae"}, {"metrics", {"acc", "mse"}}};
  CHECK(ParseJob(TextOf(document))->loss.name == "mean_squared_error");
  CHECK(ParseJob(TextOf(document))->optimizer.name == "sgd");
  CHECK(ParseJob(TextOf(document))->metrics.size() == 1);
  for (const char* key : {"loss", "optimizer", "metrics"}) document.erase(key);
  absl::StatusOr<Job> job = ParseJob(TextOf(document));
  REQUIRE(job.ok());
  CHECK(job->loss.name == "mean_absolute_error");
  CHECK(job->optimizer.name == "adam");
  CHECK(job->metrics.size() == 2);

  document["model"]["compile_config"]["loss"] = {"mse", "mae"};
  job = ParseJob(TextOf(document));
  REQUIRE(job.ok());
  REQUIRE(job->losses.size() == 2);
  CHECK(job->losses[1].output == "#1");
  const absl::StatusOr<Job> again = ParseJob(JobToJson(*job));
  REQUIRE(again.ok());
  CHECK(JobToJson(*again) == JobToJson(*job));
  // If only one of several outputs has a loss, the loss keeps the output's name.
  for (const auto& [loss, output] :
       std::map<json, std::string>{{{"mse", nullptr}, "#0"},
                                   {{nullptr, "mse"}, "#1"},
                                   {json{{"b", "mse"}}, "b"},
                                   {json{{"a", nullptr}, {"b", "mse"}}, "b"},
                                   {json::array({"mse"}), ""},
                                   {"mse", ""}}) {
    for (const bool compiled : {true, false}) {
      CAPTURE(loss, compiled);
      json one = document;
      (compiled ? one["model"]["compile_config"] : one)["loss"] = loss;
      job = ParseJob(TextOf(one));
      REQUIRE(job.ok());
      CHECK(job->losses.empty());
      CHECK(job->loss.name == "mean_squared_error");
      CHECK(job->loss.output == output);
      CHECK(ParseJob(JobToJson(*job))->loss.output == output);
    }
  }
  document["model"]["compile_config"]["loss"] = 3;
  CHECK(absl::StrContains(ParseJob(TextOf(document)).status().message(),
                          "model.compile_config.loss: must be a name"));
  document["loss"] = "mse";
  document["optimizer"] = "sgd";
  document["metrics"] = json::array();
  CHECK(ParseJob(TextOf(document)).ok());
}

TEST_CASE("on resume only what cannot change the past may differ") {
  Job before = MinimalJob();
  Job now = before;
  now.epochs = 9;
  now.stop_when = StopWhen{"loss", std::nullopt, 0.5};
  now.evaluate_every_epochs = 2;
  now.checkpoint.keep = 9;
  now.failures.per_batch = 9;
  now.timeouts.ps_ms = 9;
  now.wire = "f16";
  now.compression.kind = CompressionSpec::Kind::kInt8;
  now.overlap = true;
  now.optimizer.options["learning_rate"] = 0.5;
  now.model["compile_config"] = {{"jit_compile", true}};
  CHECK(CheckResumable(before, now, PlanOf(1, 1, 4)).ToString() == "OK");
  now.epochs = 1;
  now.steps = 4;
  CHECK(CheckResumable(before, now, PlanOf(1, 1, 4)).ToString() == "OK");
  before.split_batches = 8;  // an absent key keeps the plan's value
  CHECK(CheckResumable(before, now, PlanOf(1, 1, 8)).ToString() == "OK");
  before.split_batches.reset();
  now.split_batches = 8;  // the plan's value
  CHECK(CheckResumable(before, now, PlanOf(1, 1, 8)).ToString() == "OK");
  CHECK(CheckResumable(before, now, PlanOf(1, 1, 4)).message() ==
        "split_batches: was 4 and is now 8, but cannot change on resume");

  now.batch = 32;
  now.seed = 2;
  now.optimizer.options["momentum"] = 0.9;
  now.train.options["scale"] = 2;
  now.model["config"]["layers"] = {1};
  now.partitioner.max_shards = 2;
  now.test.reset();
  const std::string message(CheckResumable(before, now, PlanOf(1, 1, 4)).message());
  INFO(message);
  for (const char* key :
       {"batch: was 64 and is now 32", "seed:", "optimizer.momentum: was null",
        "data.train.scale:", "model.config.layers:", "partitioner.max_shards:", "data.test:"}) {
    CHECK(absl::StrContains(message, key));
  }
}

TEST_CASE("on resume the data's files may lie elsewhere") {
  const auto check = [](const char* before_text, const char* now_text) {
    Job before = MinimalJob();
    Job now = before;
    for (const auto& [job, text] : {std::pair(&before, before_text), {&now, now_text}}) {
      Problems problems;
      job->train = ReadDataSpec(json::parse(text), "data.train", "/d", problems).value();
      CHECK(problems.lines().empty());
      job->test = job->train;
    }
    return std::string(CheckResumable(before, now, PlanOf(1, 1, 4)).message());
  };
  CHECK(
      check(R"({"format": "npy", "features": {"a": "a-*.npy"}, "labels": "y.npy"})",
            R"({"format": "npy", "features": {"a": ["0.npy", "1.npy"]}, "labels": "/e/y.npy"})") ==
      "");
  CHECK(check(R"({"mix": [{"weight": 2, "format": "npz", "file": "d", "features": "x"}]})",
              R"({"mix": [{"weight": 2, "format": "npz", "file": "e", "features": "x"}]})") == "");
  CHECK(check(R"({"format": "csv", "files": "a.csv",
                  "features": [{"column": "c", "vocabulary_file": "v"}], "label": "y"})",
              R"({"format": "csv", "files": "b.csv",
                  "features": [{"column": "c", "vocabulary_file": "w"}], "label": "y"})") == "");
  CHECK(absl::StrContains(check(R"({"format": "npz", "file": "d", "features": "x"})",
                                R"({"format": "npz", "file": "d", "features": "y"})"),
                          "data.train.features: was \"x\" and is now \"y\""));
  CHECK(absl::StrContains(check(R"({"format": "npy", "features": "x", "labels": "y"})",
                                R"({"format": "npy", "features": "x"})"),
                          "data.train.labels: was"));
}

}  // namespace
}  // namespace paracord
