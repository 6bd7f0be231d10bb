#include "config/tables.h"

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "config/named_spec.h"

namespace paracord {
namespace {

// Whether an option is absent, null, false or 0.
bool IsOff(const NamedSpec& optimizer, const char* key) {
  const auto option = optimizer.options.find(key);
  if (option == optimizer.options.end() || option->is_null()) return true;
  if (option->is_boolean()) return !option->get<bool>();
  return option->is_number() && option->get<double>() == 0;
}

}  // namespace

bool LeavesUntouchedAlone(const NamedSpec& optimizer, const VariableSpec& variable) {
  if (!optimizer.options.is_object()) return false;
  if (variable.moving_average() != 0 || !variable.constraint().empty()) return false;
  const bool rule =
      optimizer.name == "adagrad" || (optimizer.name == "sgd" && IsOff(optimizer, "momentum"));
  return rule && IsOff(optimizer, "use_ema") && IsOff(optimizer, "weight_decay");
}

std::string WhyRowsDiffer(const NamedSpec& optimizer) {
  if (LeavesUntouchedAlone(optimizer, {})) return "";
  const bool options = optimizer.name == "sgd" || optimizer.name == "adagrad";
  return absl::StrCat(options ? "these options of " : "", optimizer.name,
                      options ? " change" : " changes", " rows that a batch does not read, too");
}

TableSpec TableSpecOf(const TablesSpec::Table& wanted) {
  TableSpec table;
  table.set_kind(wanted.growing ? TableSpec::GROWING : TableSpec::FIXED);
  table.set_lazy(wanted.lazy);
  if (wanted.optimizer.has_value()) table.set_optimizer(TextOf(NamedSpecToJson(*wanted.optimizer)));
  if (!wanted.growing) return table;
  table.set_admit_after(wanted.admit_after);
  table.set_admit_probability(wanted.admit_probability);
  table.set_candidates(wanted.candidates);
  table.set_expire_batches(wanted.expire_batches);
  table.set_rows_max(wanted.rows_max);
  return table;
}

void MakeGrowing(VariableSpec& variable, uint64_t shards) {
  const std::string& initializer = variable.initializer().name();
  auto& options = *variable.mutable_initializer()->mutable_options();
  const bool scaled = initializer == "variance_scaling" || initializer.starts_with("glorot_") ||
                      initializer.starts_with("he_") || initializer.starts_with("lecun_");
  if (scaled && !options.contains("fan_in")) {
    options["fan_in"] = static_cast<double>(variable.shape(0));
    options["fan_out"] = static_cast<double>(variable.shape(variable.shape_size() - 1));
  }
  variable.set_shape(0, shards);
}

}  // namespace paracord
