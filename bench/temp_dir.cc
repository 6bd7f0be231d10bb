#include "temp_dir.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "measure.h"

namespace paracord::bench {

TempDir::TempDir(const std::string& below) {
  const std::filesystem::path parent =
      below.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(below);
  path_ = (parent / "paracord-bench-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) Fail("cannot make " + path_);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::Write(const std::string& name, const std::string& contents) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

}  // namespace paracord::bench
