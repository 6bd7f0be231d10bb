// What the name of a data file says of its part in a job. Pure.
#pragma once

#include <string>

namespace paracord {

bool IsTestFile(const std::string& path);

// Returns a file's name without folder, extension and the words that say what it is for:
// "user" for "/d/train_user.npy".
std::string NameOfArray(const std::string& path);

}  // namespace paracord
