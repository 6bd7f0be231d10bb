#include "tests/common/source_tree.h"

#include <fstream>
#include <set>

namespace paracord {
namespace fs = std::filesystem;

std::vector<std::string> ReadLines(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<fs::path> AllFiles() {
  std::vector<fs::path> files;
  const fs::path root = PARACORD_SOURCE_DIR;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator();
       ++it) {
    const bool outside =
        it->path() == root / "build" || it->path().filename().string().front() == '.';
    if (it->is_directory() && outside) it.disable_recursion_pending();
    if (!it->is_directory()) files.push_back(it->path());
  }
  return files;
}

namespace {

std::vector<SourceFile> Tree() {
  static const std::set<std::string> kKinds = {".h",     ".cc", ".cu",    ".cuh",
                                               ".proto", ".py", ".cmake", ".sh"};
  std::vector<SourceFile> files;
  for (const fs::path& path : AllFiles()) {
    if (kKinds.contains(path.extension()) || path.filename() == "CMakeLists.txt") {
      files.push_back({fs::relative(path, PARACORD_SOURCE_DIR).string(), ReadLines(path)});
    }
  }
  return files;
}

}  // namespace

const std::vector<SourceFile>& SourceFiles() {
  static const std::vector<SourceFile> files = Tree();
  return files;
}

}  // namespace paracord
