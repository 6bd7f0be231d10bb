// Reads the job's key `tables` and writes its canonical form. Pure.
#pragma once

#include "config/job.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

// "auto", "off", or an object by the names of layers. Problems name the key.
TablesSpec ReadTables(const nlohmann::json& value, Problems& problems);
nlohmann::json TablesToJson(const TablesSpec& spec);

}  // namespace paracord
