// Writes the canonical form of a job, and decides which of its keys may change on resume.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/json_text.h"
#include "config/column_order.h"
#include "config/job.h"
#include "config/job_data.h"
#include "config/job_rounds.h"
#include "config/job_stages.h"
#include "config/job_tables.h"
#include "config/json_fields.h"
#include "config/named_spec.h"
#include "config/program_spec.h"
#include "proto/paracord.pb.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kDifferencesMax = 20;  // two models can differ everywhere

template <class T>
json OrNull(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

json DataToJson(const DataSpec& spec) {
  json object = spec.options;
  object["format"] = spec.format;
  return object;
}

json DataToJson(const Job& job) {
  json data = {{"train", DataToJson(job.train)},
               {"test", job.test ? DataToJson(*job.test) : json()}};
  // Without `predict` the text equals the text from before the key existed.
  if (job.predict.has_value()) data["predict"] = DataToJson(*job.predict);
  return data;
}

json PartitionerToJson(const PartitionerSpec& spec) {
  switch (spec.kind) {
    case PartitionerSpec::Kind::kFixedShards:
      return {{"kind", "fixed_shards"}, {"shards", spec.shards}};
    case PartitionerSpec::Kind::kMinSize:
      return {{"kind", "min_size"},
              {"min_shard_bytes", spec.min_shard_bytes},
              {"max_shards", OrNull(spec.max_shards)}};
    case PartitionerSpec::Kind::kMaxSize:
      return {{"kind", "max_size"},
              {"max_shard_bytes", spec.max_shard_bytes},
              {"max_shards", OrNull(spec.max_shards)}};
  }
  return nullptr;
}

json CompressionToJson(const CompressionSpec& spec) {
  switch (spec.kind) {
    case CompressionSpec::Kind::kTopK:
      return {{"kind", "top_k"}, {"ratio", spec.ratio}};
    case CompressionSpec::Kind::kInt8:
      return {{"kind", "int8"}};
    case CompressionSpec::Kind::kNone:
      break;
  }
  return nullptr;
}

json InitialWeightsToJson(const Job& job) {
  if (!job.initial_weights.partial) return OrNull(job.initial_weights.file);
  return {{"file", OrNull(job.initial_weights.file)}, {"partial", true}};
}

json StopWhenToJson(const Job& job) {
  json stop_when;
  if (job.stop_when) {
    stop_when["metric"] = job.stop_when->metric;
    if (job.stop_when->at_least) stop_when["at_least"] = *job.stop_when->at_least;
    if (job.stop_when->at_most) stop_when["at_most"] = *job.stop_when->at_most;
    stop_when["patience"] = OrNull(job.stop_when->patience);
    stop_when["min_delta"] = job.stop_when->min_delta;
    stop_when["mode"] = job.stop_when->larger_is_better ? "max" : "min";
    stop_when["restore_best"] = job.stop_when->restore_best;
  }
  return stop_when;
}

json ToJson(const Job& job) {
  json metrics = json::array();
  for (const NamedSpec& metric : job.metrics) metrics.push_back(NamedSpecToJson(metric));
  json losses = json::array();
  for (const NamedSpec& loss : job.losses) losses.push_back(NamedSpecToJson(loss));
  json class_weight = json::object();
  for (const auto& [id, weight] : job.loss_weights.by_class)
    class_weight[std::to_string(id)] = weight;
  if (job.losses.empty()) losses = job.loss.name.empty() ? json() : NamedSpecToJson(job.loss);
  const TimeoutsSpec& timeouts = job.timeouts;
  json object = {
      {"name", job.name},
      {"model", job.model},
      {"data", DataToJson(job)},
      {"batch", job.batch},
      {"accumulate", job.accumulate},
      {"split_batches", OrNull(job.split_batches)},
      {"shuffle", job.each_epoch.shuffle},
      {"drop_last", job.each_epoch.drop_last},
      {"seed", job.seed},
      {"epochs", job.steps ? json() : json(job.epochs)},  // `steps` replaces epochs
      {"steps", OrNull(job.steps)},
      {"initial_weights", InitialWeightsToJson(job)},
      {"loss", losses},  // a program may have its own loss
      {"loss_weights", job.loss_weights.by_output},
      {"class_weight", class_weight},
      {"metrics", metrics},
      {"optimizer", NamedSpecToJson(job.optimizer)},
      {"evaluate", {{"every_epochs", job.evaluate_every_epochs}}},
      {"stop_when", StopWhenToJson(job)},
      {"precision", job.precision},
      {"wire", job.wire},
      {"compression", CompressionToJson(job.compression)},
      {"overlap", job.overlap},
      {"failures",
       {{"policy", job.failures.skip ? "skip" : "fail"},
        {"per_batch", job.failures.per_batch},
        {"deaths_per_batch", job.failures.deaths_per_batch},
        {"rejected_max", job.failures.rejected_max}}},
      {"timeouts",
       {{"start_s", timeouts.start_s},
        {"worker_ms", timeouts.worker_ms},
        {"ps_ms", timeouts.ps_ms},
        {"ps_return_s", timeouts.ps_return_s},
        {"orphan_ms", timeouts.orphan_ms},
        {"drain_ms", timeouts.drain_ms}}},
      {"tables", TablesToJson(job.tables)},
      {"partitioner", PartitionerToJson(job.partitioner)},
      {"placement", job.partitioner.placement},
      {"checkpoint",
       {{"every_seconds", job.checkpoint.every_seconds},
        {"keep", job.checkpoint.keep},
        {"full_every", job.checkpoint.full_every}}},
  };
  if (job.partitioner.copies > 0) object["copies"] = job.partitioner.copies;
  GuaranteesToJson(job.guarantees, object);
  StagesToJson(job.guarantees.stages, object);
  return object;
}

// Describes a difference; for texts of several lines, by the first line that differs.
std::string Difference(const json& before, const json& now) {
  if (!before.is_string() || !now.is_string() ||
      before.get_ref<const std::string&>().find('\n') == std::string::npos) {
    return absl::StrCat("was ", JsonExcerpt(before), " and is now ", JsonExcerpt(now));
  }
  const std::vector<std::string> lines = absl::StrSplit(before.get_ref<const std::string&>(), '\n');
  const std::vector<std::string> others = absl::StrSplit(now.get_ref<const std::string&>(), '\n');
  size_t line = 0;
  while (line < lines.size() && line < others.size() && lines[line] == others[line]) ++line;
  const auto text = [&](const std::vector<std::string>& of) {
    return line < of.size() ? JsonExcerpt(of[line]) : std::string("missing");
  };
  return absl::StrCat("line ", line + 1, " was ", text(lines), " and is now ", text(others));
}

// Says how a change of the key at `path` may be made or avoided when a job resumes; "" of most
// keys.
std::string ResumeAdvice(const std::string& path, const json& before) {
  constexpr std::string_view kFiles = "model.files.";
  if (path.starts_with(kFiles)) {
    return absl::StrCat(" without --accept-change ", path.substr(kFiles.size()));
  }
  if (path != "name" || !before.is_string()) return "";
  return absl::StrCat(" (the name of the job's file, unless the file has the key: write \"name\": ",
                      JsonExcerpt(before), " there, or --set name=", before.get<std::string>(),
                      ")");
}

// Notes each place where two values differ, by its full key; `resumes` adds that a change is
// refused.
void Compare(const json& before, const json& now, const std::string& path, bool resumes,
             Problems& problems) {
  const bool both_nan = before.is_number_float() && now.is_number_float() &&
                        std::isnan(before.get<double>()) && std::isnan(now.get<double>());
  if (before == now || both_nan || problems.lines().size() > kDifferencesMax) return;
  if (before.is_object() && now.is_object()) {
    json keys = before;
    keys.update(now);
    for (const auto& [key, unused] : keys.items()) {
      Compare(before.value(key, json()), now.value(key, json()),
              path.empty() ? key : absl::StrCat(path, ".", key), resumes, problems);
    }
  } else if (before.is_array() && now.is_array() && before.size() == now.size()) {
    for (size_t i = 0; i < before.size(); ++i) {
      Compare(before[i], now[i], absl::StrCat(path, "[", i, "]"), resumes, problems);
    }
  } else {
    problems.Add(
        path, absl::StrCat(Difference(before, now), resumes ? ", but cannot change on resume" : "",
                           resumes ? ResumeAdvice(path, before) : ""));
  }
}

void EraseWhatMayDiffer(json& job) {
  // These keys decide where to compute, how values travel and how long a job trains; checkpoints do
  // not depend on them.
  for (const char* key :
       {"epochs", "steps", "stop_when", "evaluate", "checkpoint", "failures", "timeouts", "wire",
        "compression", "overlap", "backup", "copies", "strategy", "stages"}) {
    job.erase(key);
  }
  job["optimizer"].erase("learning_rate");
  // Whether rows travel alone does not matter for a checkpoint, either. Lazy tables and tables with
  // an optimizer of their own have other numbers, and growing tables another layout.
  json kept = json::object();
  for (const auto& [layer, table] : job["tables"].items()) {
    if (!table.is_object()) continue;
    const bool own = table["update"] == "lazy" || table["kind"] == "growing";
    if (own || table.contains("optimizer")) kept[layer] = table;
  }
  job["tables"] = kept;
  job["data"].erase("predict");
  const bool by_name = !IsProgram(job["model"]) || IsStableHlo(job["model"]);
  for (json& source : job["data"]) {
    if (by_name) EraseColumnOrder(source);
    if (source.is_object()) ErasePaths(source);
  }
  // The model's compile_config is redundant: loss, metrics and optimizer of the job hold the same
  // settings.
  if (job["model"].is_object()) job["model"].erase("compile_config");
}

// A short form of what a job says about a layer's table.
json TableSaid(const json& tables, const std::string& layer) {
  if (!tables.is_object()) return tables;      // "auto" or "off"
  if (!tables.contains(layer)) return "auto";  // the default for unnamed layers
  const json& table = tables[layer];
  json said = {{"kind", table["kind"]}, {"update", table["update"]}};
  if (table.contains("optimizer")) said["optimizer"] = table["optimizer"]["name"];
  return said;
}

// Notes each table with state of its own in only one of the two jobs, and removes the table there.
// `before` and `now` are the jobs' own texts.
void CompareTables(const json& before, const json& now, json& old_tables, json& new_tables,
                   Problems& problems) {
  json layers = old_tables;
  layers.update(new_tables);
  for (const auto& [layer, unused] : layers.items()) {
    if (old_tables.contains(layer) == new_tables.contains(layer)) continue;
    problems.Add("tables." + layer, Difference(TableSaid(before, layer), TableSaid(now, layer)) +
                                        ", but cannot change on resume");
    old_tables.erase(layer);
    new_tables.erase(layer);
  }
}

}  // namespace

std::string JobToJson(const Job& job) { return PythonTextOf(ToJson(job)); }

std::string PsSettings(const Job& job) {
  const json all = ToJson(job);
  return TextOf(json{{"optimizer", all["optimizer"]},
                     {"timeouts", all["timeouts"]},
                     {"epochs", all["epochs"]},
                     {"steps", all["steps"]}});
}

absl::Status CheckResumable(Job before, const Job& now, const DataPlan& plan,
                            std::span<const std::string> accepted) {
  // Where a job leaves the cut of its epochs open, the data plan decides.
  const auto planned = [](const auto& said, uint32_t size) {
    return said.has_value() && size > 0 ? std::optional(size) : std::nullopt;
  };
  const bool lanes = plan.lanes() > 0;
  before.split_batches = planned(now.split_batches, lanes ? 0 : plan.split_batches());
  before.guarantees.round_batches = planned(now.guarantees.round_batches, plan.lanes());
  // Nobody reads the initial weights of a job that resumes, because the checkpoint has its
  // variables. So their file may lie in another folder; a file of another name is another file.
  std::optional<std::string>& weights = before.initial_weights.file;
  const std::optional<std::string>& weights_now = now.initial_weights.file;
  const auto file_name = [](const std::string& path) {
    return std::filesystem::path(path).filename();
  };
  if (weights && weights_now && file_name(*weights) == file_name(*weights_now)) {
    weights = weights_now;
  }
  json old_json = ToJson(before);
  json new_json = ToJson(now);
  const json old_tables = old_json["tables"], new_tables = new_json["tables"];
  EraseWhatMayDiffer(old_json);
  EraseWhatMayDiffer(new_json);
  Problems problems;
  CompareTables(old_tables, new_tables, old_json["tables"], new_json["tables"], problems);
  for (const std::string& file : accepted) {
    bool known = false;
    for (json* job : {&old_json, &new_json}) {
      json& model = (*job)["model"];
      if (!IsProgram(model) || !model.contains("files")) continue;
      known = model["files"].erase(file) > 0 || known;
    }
    if (!known) {
      problems.Add("--accept-change",
                   absl::StrCat("the job's program has no file ", file, " in its `files`"));
    }
  }
  Compare(old_json, new_json, "", /*resumes=*/true, problems);
  const std::string &strategy = before.guarantees.strategy, &other = now.guarantees.strategy;
  if (before.guarantees.consistency != now.guarantees.consistency && strategy != other) {
    problems.Add("strategy", Difference(strategy, other) + ", which changes `consistency`");
  }
  return problems.ToStatus();
}

std::vector<std::string> JobDifferences(const Job& before, const Job& now) {
  Problems problems;
  Compare(ToJson(before), ToJson(now), "", /*resumes=*/false, problems);
  return problems.lines();
}

}  // namespace paracord
