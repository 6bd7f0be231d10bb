#include "config/ps_settings.h"

#include "common/json_text.h"

namespace paracord {

bool SameUpdates(const std::string& settings, const std::string& others) {
  const nlohmann::json one = nlohmann::json::parse(settings, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json other = nlohmann::json::parse(others, nullptr, /*allow_exceptions=*/false);
  const auto has = [](const nlohmann::json& said) {
    return said.is_object() && said.contains("optimizer");
  };
  return has(one) && has(other) && one.at("optimizer") == other.at("optimizer");
}

}  // namespace paracord
