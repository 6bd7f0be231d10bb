// Compares the settings of a job that a ps applies (PsSettings of config/job.h). Pure.
#pragma once

#include <string>

namespace paracord {

// Whether two settings lead a ps to equal updates: the optimizers are equal, while timeouts and
// ends of the job may differ. False if a text has no settings.
bool SameUpdates(const std::string& settings, const std::string& others);

}  // namespace paracord
