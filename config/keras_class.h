// The class of an object that Keras has serialized. Pure.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace paracord {

// Returns the object's "class_name", or "" if it has none. A class of neither Keras nor Keras-RS
// gets a name that none of ours has, since its arithmetic is not in the file: "package>Name", by
// which it was registered, or "unregistered>Name", if its "module" is null.
std::string KerasClass(const nlohmann::json& object);

}  // namespace paracord
