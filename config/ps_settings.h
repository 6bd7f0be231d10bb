// Compares the settings of a job that a ps applies (PsSettings of config/job.h). Pure.
#pragma once

#include <string>

namespace paracord {

// Whether two results of PsSettings make a ps compute equal updates: their optimizers are equal;
// timeouts, epochs and steps may differ. False if a text is no result of PsSettings.
bool SameUpdates(const std::string& settings, const std::string& others);

}  // namespace paracord
