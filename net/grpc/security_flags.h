// The flags of SecurityOptions, which all programs share. Used in main.
#pragma once

#include "config/flags.h"
#include "security/security_options.h"

namespace paracord {

// `options` must outlive `flags`.
void AddSecurityFlags(Flags& flags, SecurityOptions& options);

}  // namespace paracord
