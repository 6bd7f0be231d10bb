#include "common/json_text.h"

#include <cmath>

namespace paracord {
namespace {

bool HoldsNonFinite(const nlohmann::json& value) {
  if (value.is_number_float()) return !std::isfinite(value.get<double>());
  if (!value.is_structured()) return false;
  for (const nlohmann::json& each : value) {
    if (HoldsNonFinite(each)) return true;
  }
  return false;
}

void AppendPython(const nlohmann::json& value, std::string& text) {
  if (!HoldsNonFinite(value)) {
    text += TextOf(value);
  } else if (value.is_number_float()) {
    const double number = value.get<double>();
    text += std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  } else {
    char before = value.is_object() ? '{' : '[';
    for (const auto& [key, each] : value.items()) {
      text += before;
      if (value.is_object()) text += TextOf(nlohmann::json(key)) + ":";
      AppendPython(each, text);
      before = ',';
    }
    text += value.is_object() ? '}' : ']';
  }
}

}  // namespace

bool DeeperThan(std::string_view text, int depth_max) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > depth_max) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

nlohmann::json JsonOf(std::string_view text) {
  constexpr int kDepthMax = 64;
  if (DeeperThan(text, kDepthMax)) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string TextOf(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string TextOf(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string PythonTextOf(const nlohmann::json& value) {
  std::string text;
  AppendPython(value, text);
  return text;
}

}  // namespace paracord
