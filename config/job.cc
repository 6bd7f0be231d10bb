#include "config/job.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "config/column_order.h"
#include "config/job_data.h"
#include "config/job_file.h"
#include "config/job_model.h"
#include "config/job_rounds.h"
#include "config/job_settings.h"
#include "config/job_stages.h"
#include "config/job_tables.h"
#include "config/json_fields.h"
#include "config/limits.h"
#include "config/named_spec.h"
#include "config/program_spec.h"
#include "config/stop_when.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kCountMax = uint64_t{1} << 48;
constexpr uint64_t kMsMax = uint64_t{366} * 24 * 3600 * 1000;

class JobReader {
 public:
  JobReader(const json& document, BaseDirectory base, Problems& problems)
      : fields_(document, "", problems), base_(std::move(base)), problems_(problems) {}

  // `model` is the value of the job's key "model", or null if it could not be read.
  Job Read(json model);

 private:
  void ReadData();
  void ReadCounts();
  void ReadLearning();
  void ReadInitialWeights(const json& value);
  void ReadLosses(const CompileConfig& compiled);
  void ReadMetrics(const CompileConfig& compiled);
  void ReadStopWhen();
  void ReadModes();
  void ReadCompression();
  void ReadFailures();
  void ReadTimeouts();
  void ReadPartitioner();
  void ReadCheckpoint();
  void ReadCopies();
  std::optional<NamedSpec> ReadOr(NamedKind kind, const std::string& key,
                                  std::optional<NamedSpec> compiled);

  JsonFields fields_;
  const BaseDirectory base_;
  Problems& problems_;
  Job job_;
};

Job JobReader::Read(json model) {
  job_.model = std::move(model);
  if (fields_.Find("name") == nullptr) fields_.Problem("name", "is missing");
  fields_.String("name", job_.name);
  const auto unfit = [](unsigned char c) { return c == '/' || c < ' ' || c == 127; };
  if (job_.name.size() > 128 || std::any_of(job_.name.begin(), job_.name.end(), unfit)) {
    fields_.Problem("name", "names a directory: at most 128 bytes, no / and no control characters");
  }
  ReadData();
  ReadCounts();
  ReadLearning();
  ReadStopWhen();
  ReadModes();
  ReadCompression();
  ReadRounds(fields_, problems_, job_);
  ReadStages(fields_, job_);
  ReadFailures();
  ReadTimeouts();
  ReadPartitioner();
  ReadCheckpoint();
  ReadCopies();
  fields_.Find("model");
  fields_.ReportUnknown();
  return std::move(job_);
}

void JobReader::ReadData() {
  const json* data = fields_.Find("data");
  if (data == nullptr) return fields_.Problem("data", "is missing");
  JsonFields fields(*data, "data", problems_);
  if (data->is_object() && fields.FindValue("train") == nullptr) {
    fields.Problem("train", "is missing");
  }
  if (const json* train = fields.FindValue("train")) {
    job_.train = ReadDataSpec(*train, "data.train", base_, problems_).value_or(DataSpec());
  }
  if (const json* test = fields.FindValue("test")) {
    job_.test = ReadDataSpec(*test, "data.test", base_, problems_);
  }
  if (const json* predict = fields.FindValue("predict")) {
    job_.predict = ReadDataSpec(*predict, "data.predict", base_, problems_);
  }
  fields.ReportUnknown();
}

void JobReader::ReadCounts() {
  fields_.Integer("batch", 1, 1 << 24, job_.batch);
  fields_.Integer("accumulate", 1, 1 << 24, job_.accumulate);
  if (fields_.FindValue("threads") != nullptr) {
    fields_.Integer("threads", 1, 1024, job_.guarantees.threads.emplace(1));
  }
  if (job_.accumulate > job_.batch) {
    fields_.Problem("accumulate",
                    absl::StrCat("is ", job_.accumulate, ", more than the batch of ", job_.batch));
  }
  if (fields_.FindValue("split_batches") != nullptr) {
    fields_.Integer("split_batches", 1, 1 << 20, job_.split_batches.emplace());
  }
  fields_.Bool("shuffle", job_.each_epoch.shuffle);
  fields_.Bool("drop_last", job_.each_epoch.drop_last);
  fields_.Integer("seed", 0, std::numeric_limits<uint64_t>::max(), job_.seed);
  const bool has_epochs = fields_.FindValue("epochs") != nullptr;
  const bool has_steps = fields_.FindValue("steps") != nullptr;
  if (has_epochs) fields_.Integer("epochs", 1, uint64_t{1} << 32, job_.epochs);
  if (has_steps) {
    uint64_t steps = 0;
    fields_.Integer("steps", 1, kCountMax, steps);
    if (steps != 0) job_.steps = steps;
  }
  if (has_epochs && has_steps) fields_.Problem("steps", "give either `epochs` or `steps`");
}

// Returns what the job says of its optimizer, laid over the model's compiled one where the job
// gives options and no name.
json LaidOver(const std::optional<NamedSpec>& compiled, const json& said) {
  const bool named = !said.is_object() || said.contains("name") || said.contains("class_name");
  if (named || !compiled.has_value()) return said;
  json whole = NamedSpecToJson(*compiled);
  whole.update(said);
  return whole;
}

std::optional<NamedSpec> JobReader::ReadOr(NamedKind kind, const std::string& key,
                                           std::optional<NamedSpec> compiled) {
  const json* value = fields_.FindValue(key);
  if (value != nullptr) return ReadNamedSpec(kind, LaidOver(compiled, *value), key, problems_);
  if (!compiled && job_.model.is_object()) {
    fields_.Problem(key, "is missing, and the model's compile_config does not say it either");
  }
  return compiled;
}

void JobReader::ReadLosses(const CompileConfig& compiled) {
  const json* value = fields_.FindValue("loss");
  job_.losses = compiled.losses;
  if (value != nullptr) {
    const size_t before = problems_.lines().size();
    job_.losses = ReadByOutput(NamedKind::kLoss, *value, "loss", problems_);
    const bool said = problems_.lines().size() > before;
    if (job_.losses.empty() && !said) fields_.Problem("loss", "names no loss");
  } else if (compiled.losses.empty() && job_.model.is_object() && !IsProgram(job_.model)) {
    fields_.Problem("loss", "is missing, and the model's compile_config does not say it either");
  }
  // A single loss without an output applies to every output.
  if (job_.losses.size() == 1) {
    job_.loss = std::move(job_.losses[0]);
    job_.losses.clear();
  }
  const json* weights = fields_.FindValue("loss_weights");
  if (weights != nullptr) {
    job_.loss_weights.by_output = ReadNumbersByOutput(*weights, "loss_weights", problems_);
  } else if (value == nullptr) {
    job_.loss_weights.by_output = compiled.loss_weights;
  }
  const json* classes = fields_.FindValue("class_weight");
  if (classes == nullptr) return;
  for (const auto& [name, number] : ReadNumbersByOutput(*classes, "class_weight", problems_)) {
    int64_t id = 0;
    // Each class has one spelling: "01" would be a second weight of "1".
    if (!absl::SimpleAtoi(name, &id) || id < 0 || absl::StrCat(id) != name) {
      problems_.Add(absl::StrCat("class_weight.", name),
                    "is no number of a class, as in {\"0\": 1, \"1\": 20}");
      continue;
    }
    if (!std::isfinite(number) || number < 0) {
      problems_.Add(absl::StrCat("class_weight.", name),
                    absl::StrCat("must be a number from 0 on, is ", number));
    }
    job_.loss_weights.by_class[id] = number;
  }
}

void JobReader::ReadLearning() {
  // Problems in the model's own settings matter only where the job leaves that setting out.
  Problems of_model;
  const CompileConfig compiled = ReadCompileConfig(job_.model, of_model);
  ReadLosses(compiled);
  std::optional<NamedSpec> optimizer =
      ReadOr(NamedKind::kOptimizer, "optimizer", compiled.optimizer);
  if (optimizer) job_.optimizer = *std::move(optimizer);
  ReadMetrics(compiled);
  const bool complete = fields_.FindValue("loss") != nullptr &&
                        fields_.FindValue("optimizer") != nullptr &&
                        fields_.FindValue("metrics") != nullptr;
  if (!complete) {
    for (const std::string& line : of_model.lines()) problems_.Add("", line);
  }
  if (fields_.FindValue("initial_weights") != nullptr) {
    ReadInitialWeights(*fields_.Find("initial_weights"));
  }
}

void JobReader::ReadInitialWeights(const json& value) {
  json path = value;
  std::string key = "initial_weights";
  if (value.is_object()) {
    JsonFields fields(value, key, problems_);
    const json* file = fields.Find("file");
    if (file == nullptr) return fields.Problem("file", "is missing");
    path = *file;
    fields.Bool("partial", job_.initial_weights.partial);
    fields.ReportUnknown();
    key += ".file";
  }
  if (path.is_structured()) path = nullptr;
  MakeAbsolute(path, base_, key, problems_);
  if (path.is_string()) job_.initial_weights.file = path.get<std::string>();
}

void JobReader::ReadMetrics(const CompileConfig& compiled) {
  const json* metrics = fields_.FindValue("metrics");
  if (metrics == nullptr) {
    job_.metrics = compiled.metrics.value_or(std::vector<NamedSpec>());
    return;
  }
  if (!metrics->is_structured() || metrics->contains("name")) {
    return fields_.Problem("metrics", absl::StrCat("must be a list, is ", JsonExcerpt(*metrics)));
  }
  job_.metrics = ReadByOutput(NamedKind::kMetric, *metrics, "metrics", problems_);
}

void JobReader::ReadStopWhen() {
  if (const json* evaluate = fields_.Find("evaluate")) {
    JsonFields fields(*evaluate, "evaluate", problems_);
    fields.Integer("every_epochs", 0, uint64_t{1} << 32, job_.evaluate_every_epochs);
    fields.ReportUnknown();
  }
  const json* value = fields_.FindValue("stop_when");
  if (value == nullptr) return;
  std::optional<StopWhen> stop =
      paracord::ReadStopWhen(*value, job_.metrics, job_.evaluate_every_epochs, problems_);
  const json* data = fields_.Find("data");
  if (data != nullptr && data->is_object() &&
      (!data->contains("test") || (*data)["test"].is_null())) {
    problems_.Add("stop_when", "needs `data.test` to be measured on");
  }
  job_.stop_when = std::move(stop);
}

void JobReader::ReadModes() {
  static constexpr std::string_view kPlacement[] = {"greedy", "round_robin"};
  static constexpr JsonFields::OtherName kOtherPrecisions[] = {
      {"mixed_bfloat16", "bf16"}, {"bfloat16", "bf16"}, {"mixed_float16", "fp16"},
      {"float16", "fp16"},        {"f16", "fp16"},      {"fp32", "float32"}};
  fields_.OneOf("precision", kPrecisions, job_.precision, kOtherPrecisions);
  fields_.OneOf("placement", kPlacement, job_.partitioner.placement);
  static constexpr std::string_view kWire[] = {"float32", "bf16", "f16"};
  static constexpr JsonFields::OtherName kOtherWires[] = {
      {"float16", "f16"}, {"fp16", "f16"},    {"half", "f16"},     {"bfloat16", "bf16"},
      {"bfp16", "bf16"},  {"f32", "float32"}, {"fp32", "float32"}, {"single", "float32"}};
  fields_.OneOf("wire", kWire, job_.wire, kOtherWires);
  fields_.Bool("overlap", job_.overlap);
  const json* const tables = fields_.FindValue("tables");
  if (tables != nullptr) job_.tables = ReadTables(*tables, problems_);
}

void JobReader::ReadCompression() {
  const json* value = fields_.FindValue("compression");
  if (value == nullptr) return;
  JsonFields fields(*value, "compression", problems_);
  static constexpr std::string_view kKinds[] = {"top_k", "int8"};
  std::string kind;
  if (value->is_object() && fields.Find("kind") == nullptr) fields.Problem("kind", "is missing");
  fields.OneOf("kind", kKinds, kind);
  if (kind == "int8") job_.compression.kind = CompressionSpec::Kind::kInt8;
  if (kind == "top_k") job_.compression.kind = CompressionSpec::Kind::kTopK;
  fields.Number("ratio", 1e-9, 1, job_.compression.ratio);
  if (kind == "int8" && fields.Find("ratio") != nullptr) {
    fields.Problem("ratio", "is for top_k; int8 sends a byte for each element");
  }
  fields.ReportUnknown();
}

void JobReader::ReadFailures() {
  const json* value = fields_.Find("failures");
  if (value == nullptr) return;
  JsonFields fields(*value, "failures", problems_);
  static constexpr std::string_view kPolicies[] = {"skip", "fail"};
  std::string policy = "skip";
  fields.OneOf("policy", kPolicies, policy);
  job_.failures.skip = policy == "skip";
  fields.Integer("per_batch", 1, 1000, job_.failures.per_batch);
  fields.Integer("deaths_per_batch", 1, 1000, job_.failures.deaths_per_batch);
  fields.Number("rejected_max", 0, 1, job_.failures.rejected_max);
  fields.ReportUnknown();
}

void JobReader::ReadTimeouts() {
  const json* value = fields_.Find("timeouts");
  if (value == nullptr) return;
  JsonFields fields(*value, "timeouts", problems_);
  fields.Integer("start_s", 1, kMsMax / 1000, job_.timeouts.start_s);
  fields.Integer("worker_ms", 1, kMsMax, job_.timeouts.worker_ms);
  fields.Integer("ps_ms", 1, kMsMax, job_.timeouts.ps_ms);
  fields.Integer("ps_return_s", 0, kMsMax / 1000, job_.timeouts.ps_return_s);
  fields.Integer("orphan_ms", 1, kMsMax, job_.timeouts.orphan_ms);
  fields.Integer("drain_ms", 0, kMsMax, job_.timeouts.drain_ms);
  fields.ReportUnknown();
}

void JobReader::ReadPartitioner() {
  const json* value = fields_.Find("partitioner");
  if (value == nullptr) return;
  JsonFields fields(*value, "partitioner", problems_);
  if (!value->is_object()) return;
  static constexpr std::string_view kKinds[] = {"min_size", "max_size", "fixed_shards"};
  std::string kind;
  if (fields.Find("kind") == nullptr) fields.Problem("kind", "is missing");
  fields.OneOf("kind", kKinds, kind);
  if (kind.empty()) return;  // the kind decides which other keys are known
  PartitionerSpec& spec = job_.partitioner;
  auto required = [&](const std::string& key, uint64_t& out) {
    if (fields.Find(key) == nullptr) fields.Problem(key, "is missing");
    fields.Integer(key, 1, kCountMax, out);
  };
  if (kind == "fixed_shards") {
    spec.kind = PartitionerSpec::Kind::kFixedShards;
    required("shards", spec.shards);
  } else if (kind == "min_size") {
    spec.kind = PartitionerSpec::Kind::kMinSize;
    fields.Integer("min_shard_bytes", 1, kCountMax, spec.min_shard_bytes);
  } else {
    spec.kind = PartitionerSpec::Kind::kMaxSize;
    required("max_shard_bytes", spec.max_shard_bytes);
    spec.max_shards = std::nullopt;  // a limit that is asked for is kept
  }
  if (kind != "fixed_shards") {
    const json* max_shards = fields.Find("max_shards");
    if (max_shards != nullptr) spec.max_shards = std::nullopt;
    if (max_shards != nullptr && !max_shards->is_null()) {
      fields.Integer("max_shards", 1, kCountMax, spec.max_shards.emplace(1));
    }
  }
  fields.ReportUnknown();
}

void JobReader::ReadCheckpoint() {
  const json* value = fields_.Find("checkpoint");
  if (value == nullptr) return;
  JsonFields fields(*value, "checkpoint", problems_);
  fields.Number("every_seconds", 0, 1e9, job_.checkpoint.every_seconds);
  fields.Integer("keep", 1, 1 << 20, job_.checkpoint.keep);
  fields.Integer("full_every", 1, 1000, job_.checkpoint.full_every);
  fields.ReportUnknown();
}

// In asynchronous jobs second holders read the checkpoints that the first ones write.
void JobReader::ReadCopies() {
  fields_.Integer("copies", 0, 1, job_.partitioner.copies);
  if (job_.partitioner.copies == 0 || job_.guarantees.sync()) return;
  if (job_.checkpoint.every_seconds == 0) {
    fields_.Problem(
        "copies",
        "are read from checkpoints while an asynchronous job trains, and "
        "`checkpoint.every_seconds` is 0, which writes none: give a number above 0, or leave "
        "copies out");
  }
}

// Whether a document is what model.to_json() gives, which no job is.
bool IsModel(const json& document) {
  return document.is_object() && document.contains("class_name") && document.contains("config") &&
         !document.contains("model");
}

std::optional<Job> ReadJob(const json& document, Files* files, const BaseDirectory& base,
                           Problems& problems, const ModelTextFn& model_text = nullptr) {
  if (!document.is_object()) {
    problems.Add("", absl::StrCat("a job must be an object with the keys model and data, is ",
                                  JsonExcerpt(document)));
    return std::nullopt;
  }
  json model = ReadModel(document, files, base, problems, model_text);
  Job job = JobReader(document, base, problems).Read(std::move(model));
  TakeKerasWeights(document, base, model_text != nullptr, job, problems);
  return job;
}

}  // namespace

absl::StatusOr<Job> ReadJobFile(Files& files, const std::string& path,
                                std::span<const std::string> settings) {
  return ReadJobFile(files, path, settings, nullptr);
}

std::optional<Job> ReadJobFile(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems) {
  return ReadJobFile(files, path, settings, problems, nullptr);
}

absl::StatusOr<Job> ReadJobFile(Files& files, const std::string& path,
                                std::span<const std::string> settings,
                                const ModelTextFn& model_text) {
  Problems problems;
  std::optional<Job> job = ReadJobFile(files, path, settings, problems, model_text);
  if (problems.empty()) return *std::move(job);
  Problems named;
  for (const std::string& line : problems.lines()) {
    named.Add(absl::StrContains(line, path) ? "" : path, line);
  }
  return named.ToStatus();
}

std::optional<Job> ReadJobFile(Files& files, const std::string& path,
                               std::span<const std::string> settings, Problems& problems,
                               const ModelTextFn& model_text) {
  const absl::StatusOr<std::string> text = files.ReadWhole(path);
  if (!text.ok()) {
    problems.Add("", std::string(text.status().message()));
    return std::nullopt;
  }
  KeyOrder order;
  absl::StatusOr<json> document = ParseJson(*text, kJobBytesMax, kJobDepthMax, &order);
  if (!document.ok() ? IsKerasFileName(path) : IsModel(*document)) {
    problems.Add("", absl::StrCat(path, ": is a model of Keras, and no job: `paracord init ", path,
                                  " DATA` writes a job"));
    return std::nullopt;
  }
  if (!document.ok()) {
    problems.Add("", std::string(document.status().message()));
    return std::nullopt;
  }
  const std::filesystem::path file = AbsolutePath(path);
  // The file's directory becomes part of the job, which travels as JSON.
  if (Utf8Prefix(file.native()) < file.native().size()) {
    problems.Add("", "the path is not UTF-8: give the job another directory or name");
    return std::nullopt;
  }
  if (document->is_object() && !document->contains("name")) {
    (*document)["name"] = file.stem().string();
  }
  ApplySettings(settings, *document, order, problems);
  InheritData(*document);
  NoteColumnOrder(order, *document);
  return ReadJob(*document, &files, file.parent_path(), problems, model_text);
}

absl::StatusOr<Job> ParseJob(const std::string& canonical_json) {
  absl::StatusOr<json> document = ParseJson(canonical_json, kJobBytesMax, kJobDepthMax);
  if (!document.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("job: ", document.status().message()));
  }
  InheritData(*document);
  Problems problems;
  std::optional<Job> job = ReadJob(*document, nullptr, std::nullopt, problems);
  RETURN_IF_ERROR(problems.ToStatus());
  return *std::move(job);
}

}  // namespace paracord
