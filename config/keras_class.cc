#include "config/keras_class.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

using nlohmann::json;

std::string StringAt(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string KerasClass(const json& object) {
  static constexpr std::string_view kPackages[] = {"", "builtins", "keras", "tensorflow",
                                                   "tf_keras"};
  if (!object.is_object()) return "";
  const std::string name = StringAt(object, "class_name");
  std::string registered = StringAt(object, "registered_name");
  const std::string module = StringAt(object, "module");
  const std::string_view package = std::string_view(module).substr(0, module.find('.'));
  constexpr std::string_view kKerasRs = "keras_rs>";  // Keras has no layers of these names
  if (registered.starts_with(kKerasRs)) return registered.substr(kKerasRs.size());
  if (registered.find('>') != std::string::npos) return registered;
  const auto has_module = object.find("module");
  if (has_module != object.end() && has_module->is_null() && registered == name && !name.empty()) {
    return absl::StrCat("unregistered>", name);
  }
  const bool known =
      std::find(std::begin(kPackages), std::end(kPackages), package) != std::end(kPackages);
  return known || name.empty() ? name : absl::StrCat(module, ">", name);
}

}  // namespace paracord
