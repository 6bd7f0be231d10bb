// The files of the source tree, for tests of its rules. Read once, when they are first asked for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace paracord {

struct SourceFile {
  std::string path;  // from the root of the tree
  std::vector<std::string> lines;
};

std::vector<std::string> ReadLines(const std::filesystem::path& path);
// Every file below the root except build results and hidden folders.
std::vector<std::filesystem::path> AllFiles();
// The files of code: C++, CUDA, proto, Python, shell and CMake.
const std::vector<SourceFile>& SourceFiles();

}  // namespace paracord
