// The files of the source tree, for tests of its rules. Read once, on first use.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace paracord {

struct SourceFile {
  std::string path;  // relative to the root
  std::vector<std::string> lines;
};

std::vector<std::string> ReadLines(const std::filesystem::path& path);
// Returns all files except for build results and hidden folders.
std::vector<std::filesystem::path> AllFiles();
// Returns the code files: C++, CUDA, proto, Python, shell and CMake.
const std::vector<SourceFile>& SourceFiles();

}  // namespace paracord
