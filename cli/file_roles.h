// Guesses from the name of a data file what it holds for a job. Pure.
#pragma once

#include <string>

namespace paracord {

// Whether the file's name contains "test" or "valid".
bool IsTestFile(const std::string& path);

// Returns a file's name without its folder, its ending and the words train, test, valid and
// validation: "user" for "/d/train_user.npy".
std::string NameOfArray(const std::string& path);

}  // namespace paracord
