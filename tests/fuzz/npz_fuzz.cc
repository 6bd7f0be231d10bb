// Reads the bytes as an npz file (a zip archive) with arrays "x" and "y".
#include "tests/fuzz/sources.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  MemoryFiles files;
  files.contents["/a.npz"].assign(reinterpret_cast<const char*>(data), size);
  ReadSource(files, "npz", {{"file", "/a.npz"}, {"features", "x"}, {"labels", "y"}});
  return 0;
}

}  // namespace paracord::fuzz
