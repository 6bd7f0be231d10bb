#include "coordinator/core/epoch_history.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/metric.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "config/data_plan.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kBadRecordBytesMax = 500;  // the most bytes of text that names a bad record
constexpr char kEarlierCoordinator[] = "";  // the reporter of restored sums

absl::Status CannotBe(const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("it tells of ", what, ", which cannot be: that is not counted"));
}

uint64_t NumberOf(const DataPlan& plan, uint64_t split, uint64_t batch) {
  return split * plan.split_batches() + batch;
}

absl::Status CheckMetric(const MetricState& state) {
  const bool finite =
      std::ranges::all_of(state.values(), [](double v) { return std::isfinite(v); });
  if (!finite) return CannotBe("a metric that is not finite");
  if (state.values_size() > EpochHistory::kMetricValuesMax || !MetricKind_IsValid(state.kind()) ||
      state.label_weights_size() > state.values_size()) {
    return CannotBe("a metric that has no such state");
  }
  return absl::OkStatus();
}

absl::Status Check(const TrainedBatches& told, const DataPlan& plan, uint64_t batches,
                   size_t metrics) {
  const std::string name = absl::StrCat("batch ", told.first_batch(), " of split ", told.split(),
                                        " of epoch ", told.epoch() + 1);
  const auto count = static_cast<uint64_t>(told.losses_size());
  const uint64_t end = told.first_batch() + count;
  if (told.split() >= SplitsOf(plan, batches) ||
      end > BatchesOfSplit(plan, told.split(), batches)) {
    return CannotBe(absl::StrCat(name, " and ", count, " in all"));
  }
  // A loss is a float32.
  constexpr double kMost = std::numeric_limits<float>::max();
  for (const double loss : told.losses()) {
    if (std::isfinite(loss) && std::abs(loss) <= kMost) continue;
    return CannotBe(absl::StrCat(name, " with a loss of ", loss));
  }
  if (told.examples_size() != 0 && told.examples_size() != told.losses_size()) {
    return CannotBe(absl::StrCat(count, " batches and the examples of ", told.examples_size()));
  }
  for (int i = 0; i < told.examples_size(); ++i) {
    const uint32_t number = told.first_batch() + static_cast<uint32_t>(i);
    const uint32_t examples = told.examples(i);
    if (examples >= 1 && examples <= BatchExamples(plan, told.split(), number)) continue;
    return CannotBe(absl::StrCat(name, " or later with ", examples, " examples"));
  }
  if (told.metrics_size() != 0 && static_cast<size_t>(told.metrics_size()) != metrics) {
    return CannotBe(absl::StrCat(told.metrics_size(), " metrics of ", metrics));
  }
  for (const MetricState& state : told.metrics()) RETURN_IF_ERROR(CheckMetric(state));
  return absl::OkStatus();
}

json StateToJson(const ToldMetric& metric) {
  const MetricState state = metric.sum();
  json value = {{"kind", static_cast<int>(state.kind())},
                {"values", state.values()},
                {"batches", metric.batches()}};
  if (state.label_weights_size() > 0) value["label_weights"] = state.label_weights();
  return value;
}

[[noreturn]] void Damaged() { throw json::other_error::create(501, "not a history", nullptr); }

// JSON has null for a number that is not finite.
double NumberFromJson(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

MetricState StateFromJson(const json& value) {
  MetricState state;
  const int kind = value.at("kind").get<int>();
  if (!MetricKind_IsValid(kind)) throw json::other_error::create(501, "not a metric", nullptr);
  state.set_kind(static_cast<MetricKind>(kind));
  for (const json& number : value.at("values")) state.add_values(NumberFromJson(number));
  for (const json& weight : value.value("label_weights", json::array())) {
    state.add_label_weights(NumberFromJson(weight));
  }
  return state;
}

}  // namespace

void EpochHistory::Run(uint64_t epoch, int64_t now_ms) {
  if (running_ == epoch) return;
  Stop(now_ms);
  if (IsClosed(epoch)) return;
  sums_.try_emplace(epoch);
  running_ = epoch;
  running_since_ms_ = now_ms;
}

void EpochHistory::Stop(int64_t now_ms) {
  if (running_.has_value()) sums_[*running_].trained_ms += now_ms - running_since_ms_;
  running_.reset();
}

absl::Status EpochHistory::Add(const TrainedBatches& told, const DataPlan& plan, uint64_t batches,
                               size_t metrics, const std::string& task) {
  RETURN_IF_ERROR(Check(told, plan, batches, metrics));
  const auto found = sums_.find(told.epoch());
  if (found == sums_.end()) return absl::OkStatus();
  Sums& sums = found->second;
  int added = 0;
  for (int i = 0; i < told.losses_size(); ++i) {
    const uint32_t batch = told.first_batch() + static_cast<uint32_t>(i);
    if (!sums.told.Add(NumberOf(plan, told.split(), batch))) continue;
    ++added;
    const uint64_t planned = BatchExamples(plan, told.split(), batch);
    const uint64_t examples = told.examples_size() > 0 ? told.examples(i) : planned;
    sums.planned += planned;
    sums.examples += examples;
    sums.loss += told.losses(i) * static_cast<double>(examples);
    bad_total_ += planned - examples;
  }
  bad_most_ = std::max(bad_most_, sums.planned - sums.examples);
  // A report's metrics are sums over all its batches, so they are dropped if any of the batches was
  // counted before.
  if (added == 0 || added < told.losses_size()) return absl::OkStatus();
  if (sums.metrics.size() < static_cast<size_t>(told.metrics_size())) {
    sums.metrics.resize(static_cast<size_t>(told.metrics_size()));
  }
  for (int i = 0; i < told.metrics_size(); ++i) {
    if (told.metrics(i).values_size() == 0) continue;
    sums.metrics[static_cast<size_t>(i)].Add(told.metrics(i), static_cast<uint64_t>(added), task);
  }
  return absl::OkStatus();
}

void EpochHistory::NameBadRecord(const std::string& text) {
  if (bad_named_.size() >= kBadRecordsNamed) return;
  std::string line = OneLine(text, kBadRecordBytesMax);
  if (std::ranges::find(bad_named_, line) == bad_named_.end())
    bad_named_.push_back(std::move(line));
}

std::vector<uint64_t> EpochHistory::OpenBefore(uint64_t epoch) const {
  std::vector<uint64_t> open;
  for (const auto& [number, sums] : sums_) {
    if (number < epoch && !sums.closing.has_value()) open.push_back(number);
  }
  return open;
}

std::vector<std::string> EpochHistory::Close(uint64_t epoch, const EpochClosing& closing,
                                             const std::vector<std::string>& names,
                                             int64_t now_ms) {
  if (IsClosed(epoch)) return {};
  Stop(now_ms);
  for (auto it = sums_.begin(); it != sums_.end() && it->first < epoch;) {
    if (it->second.closing.has_value()) {
      records_.push_back(RecordOf(it->first, it->second, names));
      if (records_.size() >= kEpochsMax) records_.pop_front();
    }
    it = sums_.erase(it);
  }
  Sums& sums = sums_[epoch];
  sums.closing = closing;
  closed_ = epoch + 1;
  std::vector<std::string> tasks;
  for (const ToldMetric& metric : sums.metrics) {
    std::ranges::copy(metric.TasksOfOthers(), std::back_inserter(tasks));
  }
  return tasks;
}

void EpochHistory::Extend(uint64_t batches) {
  if (closed_ == 0) return;
  const uint64_t newest = closed_ - 1;
  const auto found = sums_.find(newest);
  if (found != sums_.end()) {
    if (found->second.closing->batches >= batches) return;
    found->second.closing.reset();
  } else {
    // An earlier version saved no sums of a closed epoch: its batches count as unreported.
    if (records_.empty() || records_.back().epoch != newest) return;
    const Record& record = records_.back();
    if (record.batches + record.rejected >= batches) return;
    sums_[newest].trained_ms = static_cast<int64_t>(record.seconds * 1000);
    records_.pop_back();
  }
  closed_ = found_ = newest;
}

uint64_t EpochHistory::open_batches() const {
  uint64_t batches = 0;
  for (const auto& [epoch, sums] : sums_) {
    if (!sums.closing.has_value()) batches += sums.told.size();
  }
  return batches;
}

std::map<std::string, double> EpochHistory::MeansOf(const Sums& sums,
                                                    const std::vector<std::string>& names) {
  std::map<std::string, double> means;
  if (sums.examples > 0) means["loss"] = sums.loss / static_cast<double>(sums.examples);
  for (size_t i = 0; i < sums.metrics.size() && i < names.size(); ++i) {
    const MetricState sum = sums.metrics[i].sum();
    if (sum.values_size() > 0) means[names[i]] = MetricValue(sum);
  }
  return means;
}

std::map<std::string, double> EpochHistory::TrainSoFar(
    const std::vector<std::string>& names) const {
  const auto found = running_.has_value() ? sums_.find(*running_) : sums_.end();
  return found != sums_.end() ? MeansOf(found->second, names) : std::map<std::string, double>();
}

EpochHistory::Record EpochHistory::RecordOf(uint64_t epoch, const Sums& sums,
                                            const std::vector<std::string>& names) {
  const EpochClosing closing = sums.closing.value_or(EpochClosing());
  Record record{.epoch = epoch,
                .batches = closing.batches - std::min(closing.batches, closing.rejected),
                .rejected = closing.rejected,
                .bad_records = sums.planned - sums.examples,
                .rejected_told = sums.told.InBoth(closing.rejected_batches),
                .seconds = static_cast<double>(sums.trained_ms) / 1000,
                .learning_rate = closing.learning_rate};
  record.untold =
      record.batches - std::min(record.batches, sums.told.size() - record.rejected_told);
  // Unreported batches count with the number of examples that the plan gives them.
  record.examples = sums.examples + (closing.examples - std::min(closing.examples, sums.planned));
  record.train = MeansOf(sums, names);
  return record;
}

json EpochHistory::ToJson(const Record& record) {
  json entry = {{"epoch", record.epoch + 1},   {"batches", record.batches},
                {"examples", record.examples}, {"rejected", record.rejected},
                {"seconds", record.seconds},   {"train", record.train}};
  if (record.seconds > 0) {
    entry["samples_per_second"] = static_cast<double>(record.examples) / record.seconds;
  }
  if (record.learning_rate.has_value()) entry["learning_rate"] = *record.learning_rate;
  if (record.untold > 0) entry["untold"] = record.untold;
  if (record.rejected_told > 0) entry["rejected_told"] = record.rejected_told;
  if (record.bad_records > 0) entry["bad_records"] = record.bad_records;
  return entry;
}

json EpochHistory::Epochs(uint64_t from, const std::vector<std::string>& names) const {
  json entries = json::array();
  const auto first =
      std::ranges::lower_bound(records_, from, {}, [](const Record& r) { return r.epoch; });
  for (auto it = first; it != records_.end(); ++it) entries.push_back(ToJson(*it));
  for (const auto& [epoch, sums] : sums_) {
    if (epoch < from || !sums.closing.has_value()) continue;
    entries.push_back(ToJson(RecordOf(epoch, sums, names)));
  }
  return entries;
}

json EpochHistory::SumsToJson(uint64_t epoch, const Sums& sums, int64_t now_ms) const {
  json metrics = json::array();
  for (const ToldMetric& metric : sums.metrics) metrics.push_back(StateToJson(metric));
  const int64_t since_ms = running_ == epoch ? now_ms - running_since_ms_ : 0;
  return {{"epoch", epoch + 1},
          {"told", sums.told.ranges()},
          {"planned", sums.planned},
          {"examples", sums.examples},
          {"loss", sums.loss},
          {"metrics", std::move(metrics)},
          {"trained_ms", sums.trained_ms + since_ms}};
}

json EpochHistory::SaveOpen(int64_t now_ms) const {
  json saved = {{"epochs_closed", closed_},
                {"open", json::array()},
                {"bad_records", {{"all", bad_total_}, {"most", bad_most_}, {"named", bad_named_}}}};
  for (const auto& [epoch, sums] : sums_) {
    if (!sums.closing.has_value()) saved["open"].push_back(SumsToJson(epoch, sums, now_ms));
    if (sums.closing.has_value() && sums.closing->cut_short) {
      saved["cut_short"] = SumsToJson(epoch, sums, now_ms);
      saved["cut_short"]["rejected"] = sums.closing->rejected_batches.ranges();
    }
  }
  return saved;
}

EpochHistory::Record EpochHistory::RecordFromJson(const json& entry) {
  Record record{.epoch = entry.at("epoch").get<uint64_t>() - 1,
                .batches = entry.at("batches").get<uint64_t>(),
                .rejected = entry.at("rejected").get<uint64_t>(),
                .untold = entry.value("untold", uint64_t{0}),
                .examples = entry.at("examples").get<uint64_t>(),
                .bad_records = entry.value("bad_records", uint64_t{0}),
                .rejected_told = entry.value("rejected_told", uint64_t{0}),
                .seconds = entry.at("seconds").get<double>()};
  if (entry.contains("learning_rate")) record.learning_rate = entry.at("learning_rate");
  for (const auto& [name, value] : entry.at("train").items()) {
    record.train[name] = NumberFromJson(value);
  }
  return record;
}

// This function and the next two throw json::exception if the JSON is not as Epochs and SaveOpen
// write it.
uint64_t EpochHistory::ReadSums(const json& saved) {
  const uint64_t epoch = saved.at("epoch").get<uint64_t>() - 1;
  Sums& sums = sums_[epoch] = {};
  if (!sums.told.Assign(saved.at("told").get<std::vector<std::pair<uint64_t, uint64_t>>>())) {
    Damaged();
  }
  saved.at("planned").get_to(sums.planned);
  saved.at("examples").get_to(sums.examples);
  if (sums.examples > sums.planned) Damaged();
  sums.loss = saved.at("loss").get<double>();
  for (const json& state : saved.at("metrics")) {
    const MetricState sum = StateFromJson(state);
    ToldMetric& metric = sums.metrics.emplace_back();
    if (sum.values_size() == 0) continue;
    metric.Add(sum, state.value("batches", sums.told.size()), kEarlierCoordinator);
  }
  saved.at("trained_ms").get_to(sums.trained_ms);
  return epoch;
}

// Reads the sums of the newest closed epoch, which was cut short, in place of its entry of Epochs.
void EpochHistory::ReadCutShort(const json& saved) {
  const uint64_t epoch = ReadSums(saved);
  if (records_.empty() || records_.back().epoch != epoch || epoch + 1 != closed_) Damaged();
  const Record record = records_.back();
  Sums& sums = sums_.at(epoch);
  if (record.examples < sums.examples) Damaged();
  sums.closing = {.batches = record.batches + record.rejected,
                  .rejected = record.rejected,
                  .examples = record.examples - sums.examples + sums.planned,
                  .learning_rate = record.learning_rate,
                  .cut_short = true};
  const auto rejected = saved.value("rejected", std::vector<std::pair<uint64_t, uint64_t>>());
  if (!sums.closing->rejected_batches.Assign(rejected)) Damaged();
  records_.pop_back();
}

void EpochHistory::ReadSaved(const json& epochs, const json& open) {
  open.at("epochs_closed").get_to(closed_);
  for (const json& entry : epochs) {
    records_.push_back(RecordFromJson(entry));
    const size_t count = records_.size();
    if (count > 1 && records_[count - 2].epoch >= records_.back().epoch) Damaged();
    if (records_.back().epoch >= closed_) Damaged();
  }
  for (const json& saved : open.at("open")) {
    if (ReadSums(saved) < closed_) Damaged();
  }
  if (open.contains("cut_short")) ReadCutShort(open.at("cut_short"));
  found_ = closed_;
  const json& bad = open.at("bad_records");
  bad.at("all").get_to(bad_total_);
  bad.at("most").get_to(bad_most_);
  bad.at("named").get_to(bad_named_);
}

absl::Status EpochHistory::Restore(const json& epochs, const json& open) {
  Clear();
  try {
    ReadSaved(epochs, open);
  } catch (const json::exception& error) {
    Clear();
    return absl::DataLossError(absl::StrCat("the history of epochs is damaged: ", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace paracord
