// The settings of a job that a ps applies, as it tells them (PsSettings of config/job.h). Pure.
#pragma once

#include <string>

namespace paracord {

// Whether a ps with one of these settings updates values as one with the other does: they may have
// different timeouts, and ends of the job. False of a text that has no such settings.
bool SameUpdates(const std::string& settings, const std::string& others);

}  // namespace paracord
