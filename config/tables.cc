#include "config/tables.h"

namespace paracord {
namespace {

// True if an option is absent or says that there is no such thing.
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

}  // namespace paracord
