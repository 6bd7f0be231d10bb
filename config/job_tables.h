// Reads the job's key `tables` and writes it for JobToJson. Pure.
#pragma once

#include "config/job.h"
#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Reads "auto", "off", or an object with an entry for each layer by its name. Problems name the
// key.
TablesSpec ReadTables(const nlohmann::json& value, Problems& problems);
nlohmann::json TablesToJson(const TablesSpec& spec);

}  // namespace paracord
