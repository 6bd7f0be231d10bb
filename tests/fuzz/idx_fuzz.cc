// Reads the bytes as an array in a file of the format idx, of features and of labels.
#include "tests/fuzz/sources.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ReadArraySource("idx", data, size);
  return 0;
}

}  // namespace paracord::fuzz
