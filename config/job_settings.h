// Settings on a command line, such as "optimizer.learning_rate=0.01", which override the job file
// as if written there. Pure.
#pragma once

#include <span>
#include <string>

#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

inline constexpr char kSetHelp[] =
    "as if the job file said so: epochs=3, optimizer.learning_rate=0.01, data.test.files=b.csv; "
    "may be given again";
inline constexpr char kAcceptChangeHelp[] =
    "a file of the job's program that may have changed since the job was begun, to mend it; its "
    "variables and metrics stay; may be given again";

// Applies `settings` to the JSON of a job. A value is JSON, or else a string. Missing objects on
// the way to a key are created, and an optimizer or loss given as a name becomes an object; an
// index names an existing element of a list. `epochs` removes `steps`, and `steps` removes
// `epochs`. `order` holds the key order of the job's text, to which the order in settings' values
// is added. Problems name the setting.
void ApplySettings(std::span<const std::string> settings, nlohmann::json& job, KeyOrder& order,
                   Problems& problems);

}  // namespace paracord
