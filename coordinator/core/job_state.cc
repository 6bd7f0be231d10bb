#include "coordinator/core/job_state.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "config/partitions.h"
#include "storage/checkpoint.h"
#include "storage/sealed_json.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr int kFormat = 2;
constexpr int kFormatOfLanes = 3;  // the first version with lanes
constexpr char kChecksumKey[] = "state_crc32c";

template <class Message>
json ToJson(const Message& message) {
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(message, &text);
  return JsonOf(text);
}

template <class Message>
Message FromJson(const json& value) {
  Message message;
  if (!google::protobuf::util::JsonStringToMessage(TextOf(value), &message).ok()) {
    throw json::other_error::create(501, "not a message", nullptr);
  }
  return message;
}

template <class Message>
json ListToJson(const std::vector<Message>& messages) {
  json list = json::array();
  for (const Message& message : messages) list.push_back(ToJson(message));
  return list;
}

template <class Message>
std::vector<Message> ListFromJson(const json& list) {
  std::vector<Message> messages;
  for (const json& item : list) messages.push_back(FromJson<Message>(item));
  return messages;
}

json CountersToJson(const JobCounters& counters) {
  json value = {{"computed", counters.computed},
                {"duplicates", counters.duplicates},
                {"program_losses", counters.program_losses},
                {"worker_recoveries", counters.worker_recoveries},
                {"ps_recoveries", counters.ps_recoveries},
                {"coordinator_recoveries", counters.coordinator_recoveries},
                {"checkpoints", counters.checkpoints},
                {"wall_ms", counters.wall_ms},
                {"training_ms", counters.training_ms},
                {"training_samples", counters.training_samples},
                {"first_step_ms", counters.first_step_ms}};
  for (const auto& [key, count] :  // only of jobs with rounds
       {std::pair("rollbacks", counters.rollbacks), std::pair("backups", counters.backups),
        std::pair("waited_ms", counters.waited_ms)}) {
    if (count > 0) value[key] = count;
  }
  return value;
}

JobCounters CountersFromJson(const json& value) {
  JobCounters counters;
  value.at("computed").get_to(counters.computed);
  value.at("duplicates").get_to(counters.duplicates);
  counters.program_losses = value.value("program_losses", uint64_t{0});
  value.at("worker_recoveries").get_to(counters.worker_recoveries);
  value.at("ps_recoveries").get_to(counters.ps_recoveries);
  counters.rollbacks = value.value("rollbacks", uint64_t{0});
  counters.backups = value.value("backups", uint64_t{0});
  counters.waited_ms = value.value("waited_ms", uint64_t{0});
  value.at("coordinator_recoveries").get_to(counters.coordinator_recoveries);
  value.at("checkpoints").get_to(counters.checkpoints);
  value.at("wall_ms").get_to(counters.wall_ms);
  value.at("training_ms").get_to(counters.training_ms);
  counters.training_samples = value.value("training_samples", uint64_t{0});
  value.at("first_step_ms").get_to(counters.first_step_ms);
  return counters;
}

// JSON has no NaN or infinity: they are written as null.
std::map<std::string, double> MetricsFromJson(const json& value) {
  std::map<std::string, double> metrics;
  for (const auto& [name, number] : value.items()) {
    metrics[name] =
        number.is_null() ? std::numeric_limits<double>::quiet_NaN() : number.get<double>();
  }
  return metrics;
}

json LayoutToJson(const Layout& layout) {
  json value = {{"version", layout.version},
                {"given", layout.given},
                {"ps", layout.ps},
                {"holders", layout.holders}};
  if (layout.seconds.empty()) return value;
  for (const uint32_t second : layout.seconds) {
    value["seconds"].push_back(second == kNobody ? json() : json(second));
  }
  return value;
}

Layout LayoutFromJson(const json& value) {
  Layout layout;
  value.at("version").get_to(layout.version);
  value.at("given").get_to(layout.given);
  value.at("ps").get_to(layout.ps);
  value.at("holders").get_to(layout.holders);
  for (const json& second : value.value("seconds", json::array())) {
    layout.seconds.push_back(second.is_null() ? kNobody : second.get<uint32_t>());
  }
  return layout;
}

absl::Status Check(const JobState& state) {
  RETURN_IF_ERROR(CheckDataPlan(state.plan));
  RETURN_IF_ERROR(CheckVariables(state.variables));
  for (const PartitionSpec& partition : state.partitions) {
    RETURN_IF_ERROR(CheckPartition(state.variables, partition));
  }
  if (state.layout.has_value()) {
    const Layout& layout = *state.layout;
    const bool placed = std::ranges::all_of(
        layout.holders, [&](uint32_t holder) { return holder < layout.ps.size(); });
    const bool copied =
        layout.seconds.empty() || (layout.seconds.size() == layout.holders.size() &&
                                   std::ranges::all_of(layout.seconds, [&](uint32_t second) {
                                     return second == kNobody || second < layout.ps.size();
                                   }));
    if (!placed || !copied || layout.ps.empty() ||
        layout.holders.size() != state.partitions.size()) {
      return absl::InvalidArgumentError("its layout does not fit its partitions");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string JobStateToText(const JobState& state) {
  json evaluations = json::array();
  for (const EvaluationResult& result : state.evaluations) {
    evaluations.push_back({{"epoch", result.epoch}, {"metrics", result.metrics}});
  }
  json rejected = json::array();  // many, so without names
  for (const RejectedBatch& batch : state.rejected) {
    rejected.push_back({batch.epoch, batch.split, batch.batch, batch.nonfinite});
  }
  const int format = state.plan.lanes() > 0 ? kFormatOfLanes : kFormat;
  nlohmann::ordered_json value = {{"format", format},
                                  {"run_id", state.run_id},
                                  {"job", state.job_json},
                                  {"plan", ToJson(state.plan)},
                                  {"variables", ListToJson(state.variables)},
                                  {"partitions", ListToJson(state.partitions)},
                                  {"metric_names", state.metric_names},
                                  {"evaluations", evaluations},
                                  {"stop", nullptr},
                                  {"rejected", std::move(rejected)},
                                  {"counters", CountersToJson(state.counters)}};
  if (!state.outputs.empty()) value["outputs"] = state.outputs;
  if (state.layout.has_value()) value["layout"] = LayoutToJson(*state.layout);
  if (!state.history_open.is_null()) {
    value["history"] = state.history;
    value["history_open"] = state.history_open;
  }
  if (!state.replaced_run_id.empty()) value["replaced_run_id"] = state.replaced_run_id;
  if (state.stop.has_value()) {
    value["stop"] = {{"epochs", state.stop->epochs}, {"reason", state.stop->reason}};
  }
  return SealJson(value, kChecksumKey);
}

absl::StatusOr<JobState> ParseJobState(const std::string& text, const std::string& path) {
  ASSIGN_OR_RETURN(const json value, OpenSealedJson(text, kChecksumKey, path));
  JobState state;
  try {
    const int format = value.at("format").get<int>();
    if (format != kFormat && format != kFormatOfLanes) {
      return absl::UnimplementedError(absl::StrCat(path, " is of another format"));
    }
    value.at("run_id").get_to(state.run_id);
    state.replaced_run_id = value.value("replaced_run_id", "");
    value.at("job").get_to(state.job_json);
    state.plan = FromJson<DataPlan>(value.at("plan"));
    state.variables = ListFromJson<VariableSpec>(value.at("variables"));
    state.partitions = ListFromJson<PartitionSpec>(value.at("partitions"));
    value.at("metric_names").get_to(state.metric_names);
    state.outputs = value.value("outputs", std::vector<std::string>());
    if (value.contains("layout")) state.layout = LayoutFromJson(value["layout"]);
    for (const json& item : value.at("evaluations")) {
      state.evaluations.push_back(
          {item.at("epoch").get<uint64_t>(), MetricsFromJson(item.at("metrics"))});
    }
    if (!value.at("stop").is_null()) {
      state.stop = StopDecision{value["stop"].at("epochs").get<uint64_t>(),
                                value["stop"].at("reason").get<std::string>()};
    }
    for (const json& item : value.value("rejected", json::array())) {
      state.rejected.push_back({item.at(0).get<uint64_t>(), item.at(1).get<uint64_t>(),
                                item.at(2).get<uint32_t>(), item.at(3).get<bool>()});
    }
    state.counters = CountersFromJson(value.at("counters"));
    state.history = value.value("history", json());
    state.history_open = value.value("history_open", json());
  } catch (const json::exception& error) {
    return absl::DataLossError(absl::StrCat(path, ": damaged: ", error.what()));
  }
  const absl::Status fits = Check(state);
  if (!fits.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": damaged: ", std::string(fits.message())));
  }
  return state;
}

}  // namespace paracord
