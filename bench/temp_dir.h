// A temporary directory of a benchmark. Failures end the process.
#pragma once

#include <string>

namespace paracord::bench {

// A new directory in `below` ("": the system's temporary directory), which the destructor removes
// with its contents.
class TempDir {
 public:
  explicit TempDir(const std::string& below = "");
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  // Writes the file `name` in the directory, and returns its path.
  std::string Write(const std::string& name, const std::string& contents) const;

 private:
  std::string path_;
};

}  // namespace paracord::bench
