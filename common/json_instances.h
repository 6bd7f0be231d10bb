// The code of nlohmann's JSON class is compiled once, in json_instances.cc. This header is among
// the precompiled ones (CMakeLists.txt) and nobody includes it: without precompiled headers each
// file compiles what it uses of the class.
#pragma once

#include "nlohmann/json.hpp"

extern template class nlohmann::basic_json<>;
