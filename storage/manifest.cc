// Writes and reads MANIFEST.json and the JSON in a ps file.
#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "config/partitions.h"
#include "storage/checkpoint.h"
#include "storage/ledger_json.h"
#include "storage/sealed_json.h"

namespace paracord {
namespace {

using nlohmann::json, nlohmann::ordered_json;

constexpr char kFormatName[] = "paracord.checkpoint";
constexpr char kPsFormatName[] = "paracord.ps";
constexpr char kChecksumKey[] = "manifest_crc32c";

ordered_json PlanToJson(const DataPlan& plan) {
  ordered_json object = {{"records", plan.records()},
                         {"test_records", plan.test_records()},
                         {"batch", plan.batch()},
                         {"split_batches", plan.split_batches()},
                         {"shuffle", plan.shuffle()},
                         {"seed", plan.seed()},
                         {"fingerprint", plan.fingerprint()}};
  if (plan.drop_last()) object["drop_last"] = true;
  if (plan.lanes() > 0) object["lanes"] = plan.lanes();
  return object;
}

DataPlan PlanFromJson(const json& value) {
  DataPlan plan;
  plan.set_records(value.at("records").get<uint64_t>());
  plan.set_test_records(value.at("test_records").get<uint64_t>());
  plan.set_batch(value.at("batch").get<uint32_t>());
  plan.set_split_batches(value.at("split_batches").get<uint32_t>());
  plan.set_shuffle(value.at("shuffle").get<bool>());
  plan.set_drop_last(value.value("drop_last", false));
  plan.set_lanes(value.value("lanes", uint32_t{0}));
  plan.set_seed(value.at("seed").get<uint64_t>());
  plan.set_fingerprint(value.at("fingerprint").get<std::string>());
  return plan;
}

ordered_json TableToJson(const TableSpec& table) {
  const bool growing = table.kind() == TableSpec::GROWING;
  ordered_json object = {{"kind", growing                            ? "growing"
                                  : table.kind() == TableSpec::FIXED ? "fixed"
                                                                     : "unknown"},
                         {"lazy", table.lazy()}};
  if (!table.optimizer().empty()) object["optimizer"] = table.optimizer();
  if (!growing) return object;
  object["admit_after"] = table.admit_after();
  object["admit_probability"] = table.admit_probability();
  object["candidates"] = table.candidates();
  object["expire_batches"] = table.expire_batches();
  object["rows_max"] = table.rows_max();
  return object;
}

TableSpec TableFromJson(const json& value) {
  TableSpec table;
  table.set_lazy(value.at("lazy").get<bool>());
  table.set_optimizer(value.value("optimizer", ""));
  if (value.at("kind") == "fixed") table.set_kind(TableSpec::FIXED);
  if (value.at("kind") != "growing") return table;
  table.set_kind(TableSpec::GROWING);
  table.set_admit_after(value.at("admit_after").get<uint32_t>());
  table.set_admit_probability(value.at("admit_probability").get<double>());
  table.set_candidates(value.at("candidates").get<uint64_t>());
  table.set_expire_batches(value.at("expire_batches").get<uint64_t>());
  table.set_rows_max(value.at("rows_max").get<uint64_t>());
  return table;
}

ordered_json VariableToJson(const VariableSpec& variable) {
  ordered_json options = ordered_json::object();
  const auto& map = variable.initializer().options();
  for (const auto& [key, value] : std::map<std::string, double>(map.begin(), map.end())) {
    options[key] = value;
  }
  ordered_json object{
      {"name", variable.name()},
      {"shape", std::vector<uint64_t>(variable.shape().begin(), variable.shape().end())},
      {"dtype", variable.dtype() == FLOAT32 ? "float32" : "unspecified"},
      {"trainable", variable.trainable()},
      {"initializer", {{"name", variable.initializer().name()}, {"options", options}}}};
  if (variable.moving_average() != 0) object["moving_average"] = variable.moving_average();
  if (!variable.constraint().empty()) object["constraint"] = variable.constraint();
  if (variable.has_norm()) {
    const NormConstraint& norm = variable.norm();
    object["norm"] = {{"least", norm.least()},
                      {"most", norm.most()},
                      {"rate", norm.rate()},
                      {"axes", std::vector<uint32_t>(norm.axes().begin(), norm.axes().end())}};
  }
  if (variable.has_table()) object["table"] = TableToJson(variable.table());
  return object;
}

VariableSpec VariableFromJson(const json& value) {
  VariableSpec variable;
  variable.set_name(value.at("name").get<std::string>());
  for (const uint64_t n : value.at("shape").get<std::vector<uint64_t>>()) variable.add_shape(n);
  variable.set_dtype(value.at("dtype") == "float32" ? FLOAT32 : DTYPE_UNSPECIFIED);
  variable.set_trainable(value.at("trainable").get<bool>());
  variable.set_moving_average(value.value("moving_average", 0.0));
  variable.set_constraint(value.value("constraint", ""));
  if (const auto norm = value.find("norm"); norm != value.end()) {
    variable.mutable_norm()->set_least(norm->at("least").get<double>());
    variable.mutable_norm()->set_most(norm->at("most").get<double>());
    variable.mutable_norm()->set_rate(norm->at("rate").get<double>());
    for (const uint32_t axis : norm->at("axes").get<std::vector<uint32_t>>()) {
      variable.mutable_norm()->add_axes(axis);
    }
  }
  if (const auto table = value.find("table"); table != value.end()) {
    *variable.mutable_table() = TableFromJson(*table);
  }
  const json& initializer = value.at("initializer");
  variable.mutable_initializer()->set_name(initializer.at("name").get<std::string>());
  for (const auto& [key, option] : initializer.at("options").items()) {
    (*variable.mutable_initializer()->mutable_options())[key] = option.get<double>();
  }
  return variable;
}

ordered_json PartitionToJson(const ManifestPartition& partition) {
  const PartitionSpec& spec = partition.spec;
  ordered_json object = {{"name", spec.name()},
                         {"variable", spec.variable()},
                         {"row_begin", spec.row_begin()},
                         {"row_end", spec.row_end()},
                         {"ps", spec.ps()},
                         {"updates", partition.updates},
                         {"applied", partition.applied},
                         {"rejected", partition.rejected},
                         {"healthy", partition.healthy}};
  if (partition.delta) object["delta"] = true;
  return object;
}

ManifestPartition PartitionFromJson(const json& value, uint32_t id) {
  ManifestPartition partition;
  partition.spec.set_id(id);
  partition.spec.set_name(value.at("name").get<std::string>());
  partition.spec.set_variable(value.at("variable").get<uint32_t>());
  partition.spec.set_row_begin(value.at("row_begin").get<uint64_t>());
  partition.spec.set_row_end(value.at("row_end").get<uint64_t>());
  partition.spec.set_ps(value.at("ps").get<uint32_t>());
  partition.updates = value.at("updates").get<uint64_t>();
  partition.applied = value.at("applied").get<uint64_t>();
  partition.rejected = value.at("rejected").get<uint64_t>();
  partition.healthy = value.at("healthy").get<bool>();
  partition.delta = value.value("delta", false);
  return partition;
}

ManifestFile FileFromJson(const json& value) {
  ManifestFile file;
  file.name = value.at("name").get<std::string>();
  file.bytes = value.at("bytes").get<uint64_t>();
  const std::string crc = value.at("crc32c").get<std::string>();
  if (!absl::SimpleHexAtoi(crc, &file.crc32c)) {
    throw json::other_error::create(501, "crc32c is not hexadecimal", &value);
  }
  file.boot_id = value.at("boot_id").get<std::string>();
  return file;
}

Manifest FromJson(const json& root) {
  Manifest manifest;
  manifest.min_reader_version = root.at("min_reader_version").get<uint32_t>();
  manifest.job_name = root.at("job_name").get<std::string>();
  manifest.run_id = root.at("run_id").get<std::string>();
  manifest.name.generation = root.at("generation").get<uint64_t>();
  manifest.name.round = root.at("round").get<uint64_t>();
  manifest.name.step = root.at("step").get<uint64_t>();
  manifest.complete = root.at("complete").get<bool>();
  manifest.created_unix_ms = root.at("created_unix_ms").get<int64_t>();
  manifest.plan = PlanFromJson(root.at("data_plan"));
  for (const json& item : root.at("variables")) {
    manifest.variables.push_back(VariableFromJson(item));
  }
  for (const json& item : root.at("partitions")) {
    const uint32_t id = static_cast<uint32_t>(manifest.partitions.size());
    manifest.partitions.push_back(PartitionFromJson(item, id));
  }
  for (const json& item : root.at("files")) manifest.files.push_back(FileFromJson(item));
  manifest.summary = root.value("summary", json());
  manifest.base = root.value("base", "");
  manifest.job_json = root.at("job").get<std::string>();
  return manifest;
}

// Checks that the partitions of each variable are contiguous and cover axis 0.
absl::Status CheckCut(const Manifest& manifest) {
  size_t next = 0;
  for (uint32_t v = 0; v < manifest.variables.size(); ++v) {
    const VariableSpec& variable = manifest.variables[v];
    const uint64_t rows = variable.shape_size() == 0 ? 1 : variable.shape(0);
    uint64_t row = 0;
    for (; next < manifest.partitions.size() && manifest.partitions[next].spec.variable() == v;
         ++next) {
      if (manifest.partitions[next].spec.row_begin() != row) break;
      row = manifest.partitions[next].spec.row_end();
    }
    if (row != rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("the partitions of ", variable.name(), " do not cut its rows"));
    }
  }
  if (next != manifest.partitions.size()) {
    return absl::InvalidArgumentError("the partitions do not follow their variables");
  }
  return absl::OkStatus();
}

// Checks that the base is an older checkpoint, and exists if partitions are deltas.
absl::Status CheckBase(const Manifest& manifest) {
  const auto order = [](const CheckpointName& name) {
    return std::pair(name.generation, name.round);
  };
  const std::optional<CheckpointName> base = ParseCheckpointName(manifest.base);
  const bool older = base.has_value() && order(*base) < order(manifest.name);
  if (!manifest.base.empty() && !older) {
    return absl::InvalidArgumentError(
        absl::StrCat("it continues ", manifest.base, ", which is no older checkpoint"));
  }
  for (const ManifestPartition& partition : manifest.partitions) {
    if (!partition.delta) continue;
    if (older && manifest.variables[partition.spec.variable()].has_table()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("partition ", partition.spec.name(), " continues nothing"));
  }
  return absl::OkStatus();
}

// Checks that all partitions of a synchronous job have the same state.
absl::Status CheckStates(const Manifest& manifest) {
  const json job = json::parse(manifest.job_json, nullptr, /*allow_exceptions=*/false);
  if (!job.is_object() || job.value("consistency", json()) != "sync") return absl::OkStatus();
  const ManifestPartition* first = nullptr;
  for (const ManifestPartition& partition : manifest.partitions) {
    if (!manifest.variables[partition.spec.variable()].trainable()) continue;
    if (first == nullptr) first = &partition;
    if (partition.applied == first->applied && partition.rejected == first->rejected) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("it is of a synchronous job, and its partitions are of different states: ",
                     first->spec.name(), " has ", first->applied, " batches (and ", first->rejected,
                     " rejected), ", partition.spec.name(), " has ", partition.applied, " (and ",
                     partition.rejected, ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckManifest(const Manifest& manifest) {
  RETURN_IF_ERROR(CheckDataPlan(manifest.plan));
  RETURN_IF_ERROR(CheckVariables(manifest.variables));
  std::set<std::string_view> names;
  std::vector<uint64_t> bytes_left;  // per file: bytes left for further partitions
  for (const ManifestFile& file : manifest.files) bytes_left.push_back(file.bytes);
  for (const ManifestPartition& partition : manifest.partitions) {
    const PartitionSpec& spec = partition.spec;
    RETURN_IF_ERROR(CheckPartition(manifest.variables, spec));
    const auto refuse = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat("partition ", spec.name(), " ", what));
    };
    if (!names.insert(spec.name()).second) return refuse("stands twice");
    if (spec.ps() >= manifest.files.size()) return refuse("has no file");
    const VariableSpec& variable = manifest.variables[spec.variable()];
    // Only the file knows the number of rows in a growing table or a delta.
    const uint64_t bytes = IsGrowing(variable) || partition.delta
                               ? 0
                               : PartitionElements(variable, spec) * sizeof(float);
    if (bytes > bytes_left[spec.ps()]) {
      return refuse(absl::StrCat("has no room in ", manifest.files[spec.ps()].name));
    }
    bytes_left[spec.ps()] -= bytes;
  }
  const uint32_t count = static_cast<uint32_t>(manifest.files.size());
  for (uint32_t i = 0; i < count; ++i) {
    if (manifest.files[i].name != PsFileName(i, count)) {
      return absl::InvalidArgumentError(
          absl::StrCat("file ", i, " is called ", manifest.files[i].name));
    }
  }
  RETURN_IF_ERROR(CheckBase(manifest));
  RETURN_IF_ERROR(CheckStates(manifest));
  return CheckCut(manifest);
}

// Finds negative, fractional and too large numbers, which get<>() would silently convert. All
// numbers in a manifest are unsigned integers.
bool HasOddNumber(const json& value, int depth = 0) {
  if (depth > 16) return true;
  if (value.is_number()) return !value.is_number_unsigned();
  if (!value.is_structured()) return false;
  return std::any_of(value.begin(), value.end(),
                     [&](const json& item) { return HasOddNumber(item, depth + 1); });
}

}  // namespace

std::string ManifestToText(const Manifest& manifest) {
  const bool growing = std::ranges::any_of(manifest.variables, IsGrowing);
  const bool own = std::ranges::any_of(manifest.variables, [](const VariableSpec& variable) {
    return !variable.table().optimizer().empty();
  });
  const bool chain = own || !manifest.base.empty();
  const uint32_t least = growing ? kGrowingFormat : kCheckpointFormat;
  const bool fixed = std::ranges::any_of(manifest.partitions, [&](const ManifestPartition& one) {
    return one.delta && !IsGrowing(manifest.variables[one.spec.variable()]);
  });
  const bool lanes = manifest.plan.lanes() > 0;
  const uint32_t format = lanes   ? kLanesFormat
                          : fixed ? kFixedChainFormat
                          : chain ? kChainFormat
                                  : least;
  const uint32_t reader = chain || growing || lanes ? format : manifest.min_reader_version;
  ordered_json root = {{"format", kFormatName},
                       {"format_version", format},
                       {"min_reader_version", reader},
                       {"job_name", manifest.job_name},
                       {"run_id", manifest.run_id},
                       {"generation", manifest.name.generation},
                       {"round", manifest.name.round},
                       {"step", manifest.name.step},
                       {"complete", manifest.complete},
                       {"healthy", manifest.healthy()},
                       {"created_unix_ms", manifest.created_unix_ms},
                       {"data_plan", PlanToJson(manifest.plan)}};
  root["variables"] = ordered_json::array();
  for (const VariableSpec& variable : manifest.variables) {
    root["variables"].push_back(VariableToJson(variable));
  }
  root["partitions"] = ordered_json::array();
  for (const ManifestPartition& partition : manifest.partitions) {
    root["partitions"].push_back(PartitionToJson(partition));
  }
  root["files"] = ordered_json::array();
  for (const ManifestFile& file : manifest.files) {
    root["files"].push_back({{"name", file.name},
                             {"bytes", file.bytes},
                             {"crc32c", absl::StrFormat("%08x", file.crc32c)},
                             {"boot_id", file.boot_id}});
  }
  if (!manifest.base.empty()) root["base"] = manifest.base;
  if (!manifest.summary.is_null()) root["summary"] = manifest.summary;
  root["job"] = manifest.job_json;
  return SealJson(root, kChecksumKey);
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text, const std::string& path) {
  const auto damaged = [&](const std::string& what) {
    return absl::DataLossError(absl::StrCat(path, ": ", what));
  };
  ASSIGN_OR_RETURN(const json root, OpenSealedJson(text, kChecksumKey, path));
  if (root.value("format", json()) != kFormatName) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": not a manifest of Paracord"));
  }
  const json version = root.value("min_reader_version", json());
  if (version.is_number_unsigned() && version.get<uint64_t>() > kLanesFormat) {
    return absl::UnimplementedError(absl::StrCat(path, ": needs a reader of format ",
                                                 version.get<uint64_t>(), ", this one reads ",
                                                 kLanesFormat));
  }
  Manifest manifest;
  try {  // the JSON library reports missing keys and wrong types only by exceptions
    // Fractions and negative numbers, which the library would convert to any integer.
    for (const char* key : {"min_reader_version", "generation", "round", "step", "created_unix_ms",
                            "data_plan", "partitions", "files"}) {
      if (HasOddNumber(root.at(key))) return damaged(absl::StrCat(key, " holds an odd number"));
    }
    for (const json& variable : root.at("variables")) {
      if (HasOddNumber(variable.at("shape"))) return damaged("a shape holds an odd number");
    }
    manifest = FromJson(root);
  } catch (const json::exception& error) {
    return damaged(error.what());
  }
  if (manifest.created_unix_ms < 0) return damaged("created_unix_ms is past 2^63");
  const absl::Status fits = CheckManifest(manifest);
  if (!fits.ok()) return damaged(std::string(fits.message()));
  return manifest;
}

std::map<std::string, std::string> PsFileMetadata(
    const PsFileIdentity& identity, const std::map<std::string, PartitionMetadata>& partitions) {
  std::map<std::string, std::string> metadata = {
      {"format", std::string(kPsFormatName)},
      {"format_version", absl::StrCat(kCheckpointFormat)},
      {"run_id", identity.run_id},
      {"generation", absl::StrCat(identity.generation)},
      {"round", absl::StrCat(identity.round)},
      {"ps", absl::StrCat(identity.ps, "/", identity.ps_count)},
      {"boot_id", identity.boot_id}};
  for (const auto& [name, partition] : partitions) {
    ordered_json value = {{"updates", partition.updates}, {"healthy", partition.healthy}};
    if (const auto& table = partition.table) {
      value["table"] = {{"now", table->now},         {"steps", table->steps},
                        {"slots", table->slots},     {"admitted", table->admitted},
                        {"expired", table->expired}, {"evicted", table->evicted},
                        {"dropped", table->dropped}};
      if (table->fixed) value["table"]["fixed"] = true;
      if (!table->row_slots.empty()) value["table"]["row_slots"] = table->row_slots;
      if (table->since.has_value()) {
        value["table"]["since"] = {{"now", table->since->now}, {"updates", table->since->updates}};
        if (!table->since->base.empty()) value["table"]["since"]["base"] = table->since->base;
        value["table"]["rows"] = table->rows;
      }
    }
    metadata[absl::StrCat("partition:", name)] = TextOf(value);
  }
  return metadata;
}

absl::StatusOr<std::optional<TableMetadata>> ReadTableMetadata(
    const std::map<std::string, std::string>& metadata, const std::string& partition) {
  const auto it = metadata.find(absl::StrCat("partition:", partition));
  if (it == metadata.end()) return std::nullopt;
  const json root = JsonOf(it->second);
  const auto found = root.is_object() ? root.find("table") : root.end();
  if (found == root.end()) return std::nullopt;
  const auto refuse = [&](const char* what) {
    return absl::DataLossError(absl::StrCat("table of partition ", partition, ": ", what));
  };
  if (HasOddNumber(*found)) return refuse("odd number");
  TableMetadata table;
  try {
    table.now = found->at("now").get<uint32_t>();
    table.steps = found->at("steps").get<bool>();
    table.slots = found->at("slots").get<std::vector<std::string>>();
    table.admitted = found->at("admitted").get<uint64_t>();
    table.expired = found->at("expired").get<uint64_t>();
    table.evicted = found->at("evicted").get<uint64_t>();
    table.dropped = found->at("dropped").get<uint64_t>();
    table.fixed = found->value("fixed", false);
    table.row_slots = found->value("row_slots", std::vector<std::string>());
    if (const auto since = found->find("since"); since != found->end()) {
      table.since = {since->at("now").get<uint32_t>(), since->at("updates").get<uint64_t>(),
                     since->value("base", "")};
      table.rows = found->at("rows").get<uint64_t>();
    }
  } catch (const json::exception& error) {
    return refuse(error.what());
  }
  return table;
}

absl::StatusOr<StoredPartition> ReadCounts(const std::map<std::string, std::string>& metadata,
                                           const std::string& partition,
                                           const std::string& ledger_text) {
  const auto it = metadata.find(absl::StrCat("partition:", partition));
  if (it == metadata.end()) {
    return absl::DataLossError(absl::StrCat("no counts of partition ", partition));
  }
  const json root = JsonOf(it->second);
  const json ledger = root.contains("ledger") ? root["ledger"] : JsonOf(ledger_text);
  if (HasOddNumber(root) || HasOddNumber(ledger)) {
    return absl::DataLossError(absl::StrCat("counts of partition ", partition, ": odd number"));
  }
  StoredPartition result;
  try {
    result.updates = root.at("updates").get<uint64_t>();
    result.healthy = root.at("healthy").get<bool>();
    result.ledger = LedgerFromJson(ledger);
  } catch (const json::exception& error) {
    return absl::DataLossError(absl::StrCat("counts of partition ", partition, ": ", error.what()));
  }
  ASSIGN_OR_RETURN(result.table, ReadTableMetadata(metadata, partition));
  return result;
}

absl::Status CheckPsFileIdentity(const std::map<std::string, std::string>& metadata,
                                 const PsFileIdentity& expected) {
  for (const auto& [key, value] : PsFileMetadata(expected, {})) {
    if (key == "boot_id" || key == "format_version") continue;
    const auto it = metadata.find(key);
    if (it == metadata.end() || it->second != value) {
      return absl::FailedPreconditionError(absl::StrCat(
          "its ", key, " is ", it == metadata.end() ? "missing" : it->second, ", not ", value));
    }
  }
  return absl::OkStatus();
}

}  // namespace paracord
