// Settings on a command line, such as "optimizer.learning_rate=0.01", which count as if the job
// file had them. Pure.
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

// Applies `settings` to the JSON of a job. A value is JSON; a text that is no JSON is a string.
// Missing objects on the way to a key are created, and an optimizer or loss given as a name becomes
// an object; in a list, the key is the index of an existing element. Setting `epochs` removes
// `steps`, and the reverse. `order` is the order of the keys in the job's text; the keys in the
// settings' values are added to it. Problems name the setting.
void ApplySettings(std::span<const std::string> settings, nlohmann::json& job, KeyOrder& order,
                   Problems& problems);

}  // namespace paracord
