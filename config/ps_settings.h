// Compares the settings that two jobs have for a ps (PsSettings of config/job.h). Pure.
#pragma once

#include <string>

namespace paracord {

// Whether a ps computes the same updates with two results of PsSettings: their optimizers are
// equal. Timeouts, epochs and steps may differ. False if a text is no result of PsSettings.
bool SameUpdates(const std::string& settings, const std::string& others);

}  // namespace paracord
