// The class of an object that Keras has serialized. Pure.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace paracord {

// Returns the object's "class_name"; "" if there is none. A class from outside Keras and Keras-RS
// gets a name that no known class has, because its arithmetic is not in the file: "package>Name" if
// it is registered, "module>Name" if not, or "unregistered>Name" if "module" is null.
std::string KerasClass(const nlohmann::json& object);

}  // namespace paracord
