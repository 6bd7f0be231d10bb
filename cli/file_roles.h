// Guesses from the name of a data file what the file is for. Pure.
#pragma once

#include <string>

namespace paracord {

// Whether the file's name contains "test" or "valid", in small or capital letters.
bool IsTestFile(const std::string& path);

// Returns a file's name without its folder, its ending and the words train, test, valid and
// validation: "user" for "/d/train_user.npy". The other words are joined by "_".
std::string NameOfArray(const std::string& path);

}  // namespace paracord
