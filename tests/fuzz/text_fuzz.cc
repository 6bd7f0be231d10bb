// Reads the bytes as text, of characters and of words, with windows and with lines.
#include "tests/fuzz/sources.h"

namespace paracord::fuzz {
namespace {

constexpr const char* kOptions[] = {
    R"({"window": 3})",
    R"({"window": 2, "unit": "word", "vocabulary": 5, "lowercase": true, "stride": 1})",
    R"({"window": 4, "unit": "word", "labels": ["a", "b"], "strip_punctuation": true})",
    R"({"window": 2, "vocabulary": ["a", "b"]})",
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ReadFileSource("text", kOptions, data, size);
  return 0;
}

}  // namespace paracord::fuzz
