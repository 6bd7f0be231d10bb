// The code of nlohmann's JSON class is compiled once, in json_instances.cc. This header is among
// the precompiled headers (CMakeLists.txt); no file includes it. Without precompiled headers each
// file compiles the used functions of the class.
#pragma once

#include "nlohmann/json.hpp"

extern template class nlohmann::basic_json<>;
