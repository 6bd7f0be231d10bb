// Settings on a command line, such as "optimizer.learning_rate=0.01". They count as if the job file
// had them. Pure.
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

// Applies `settings`, each KEY=VALUE, to the JSON of a job. A VALUE that is no JSON is a string.
// Missing objects on the way to a KEY are created, and an optimizer or loss that is a name becomes
// an object. A number in a KEY is the index of an existing element of a list. Setting `epochs`
// removes `steps`, and setting `steps` removes `epochs`. `order` is the order of the keys in the
// job's text, and gets the keys in VALUEs, too. Problems name the setting.
void ApplySettings(std::span<const std::string> settings, nlohmann::json& job, KeyOrder& order,
                   Problems& problems);

}  // namespace paracord
