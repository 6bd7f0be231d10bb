// Reads the job's key `tables` and writes it for JobToJson. Pure.
#pragma once

#include "config/job.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Reads the value of `tables`: "auto", "off", or an object with an entry for each layer by the
// layer's name. A problem names the key.
TablesSpec ReadTables(const nlohmann::json& value, Problems& problems);
nlohmann::json TablesToJson(const TablesSpec& spec);

}  // namespace paracord
