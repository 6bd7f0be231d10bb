// The class of an object that Keras has serialized. Pure.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace paracord {

// Returns the object's "class_name", or "" if there is none. A class from outside Keras and
// Keras-RS, whose arithmetic the file lacks, gets a name that no known class has: "package>Name" as
// registered, "module>Name" if not registered, or "unregistered>Name" if "module" is null.
std::string KerasClass(const nlohmann::json& object);

}  // namespace paracord
