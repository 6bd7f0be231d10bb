// Settings of a command line over those of a job file, "optimizer.learning_rate=0.01": each counts
// as if it stood in the file. Pure.
#pragma once

#include <span>
#include <string>

#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

inline constexpr char kSetHelp[] =
    "as if the job file said so: epochs=3, optimizer.learning_rate=0.01, data.test.files=b.csv; "
    "may be given again";

// A value is JSON, or else a string. What lies on the way to a key may be missing, or the name
// alone of an optimizer or a loss; elements of lists have numbers. `epochs` and `steps` take each
// other's place. Problems name the setting.
void ApplySettings(std::span<const std::string> settings, nlohmann::json& job, Problems& problems);

}  // namespace paracord
