// The functions of nlohmann's JSON class are compiled once, in json_instances.cc. The build makes
// this header one of the precompiled headers (CMakeLists.txt), and no file includes it. In a build
// without precompiled headers, each file compiles the functions of the class that it uses.
#pragma once

#include "nlohmann/json.hpp"

extern template class nlohmann::basic_json<>;
