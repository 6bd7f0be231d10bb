// Reads the bytes as an idx file, as features and as labels.
#include "tests/fuzz/sources.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ReadArraySource("idx", data, size);
  return 0;
}

}  // namespace paracord::fuzz
