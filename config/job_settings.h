// Settings of a command line that override a job file, such as "optimizer.learning_rate=0.01": each
// counts as if it stood in the file. Pure.
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

// Applies `settings` to the text of a job. A value is JSON, or else a string. Objects on the way to
// a key are created, and the mere name of an optimizer or a loss becomes an object; an element of a
// list is named by its number, which must exist. `epochs` removes `steps`, and `steps` removes
// `epochs`. `order` is that of the text, and then says of the values of settings, too, in which
// order their keys stand. Problems name the setting.
void ApplySettings(std::span<const std::string> settings, nlohmann::json& job, KeyOrder& order,
                   Problems& problems);

}  // namespace paracord
