// Reads the bytes as an array in a file of the format npy, of features and of labels.
#include "tests/fuzz/sources.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  MemoryFiles files;
  files.contents["/x"].assign(reinterpret_cast<const char*>(data), size);
  ReadSource(files, "npy", {{"features", "/x"}, {"labels", "/x"}});
  return 0;
}

}  // namespace paracord::fuzz
