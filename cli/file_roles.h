// Guesses the part of a data file in a job from its name. Pure.
#pragma once

#include <string>

namespace paracord {

bool IsTestFile(const std::string& path);

// Returns a file's name without folder, extension and words about its purpose: "user" for
// "/d/train_user.npy".
std::string NameOfArray(const std::string& path);

}  // namespace paracord
