// The class of an object that Keras has serialized. Pure.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace paracord {

// Its "class_name"; "" where there is none. Of a class that is not Keras' own, whatever it is
// called, the name by which it was registered, "package>Name", which none of ours has: its
// arithmetic is not in the file. One that was not registered has "module": null.
std::string KerasClass(const nlohmann::json& object);

}  // namespace paracord
