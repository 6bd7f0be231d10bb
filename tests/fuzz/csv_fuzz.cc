// Reads the bytes as CSV in one of several dialects, with columns of every kind.
#include "tests/fuzz/sources.h"

namespace paracord::fuzz {
namespace {

constexpr const char* kOptions[] = {
    R"({"features": [{"column": "a"}], "label": "y"})",
    R"({"features": [{"column": "a", "kind": "categorical", "vocabulary": ["p", "q"], "oov": 2},
                     {"column": "a", "kind": "hashed", "bins": 9}], "label": "y"})",
    R"({"features": [{"column": 0, "kind": "string"}], "label": {"column": 1, "default": 3},
        "header": false, "missing": ["NA"], "delimiter": ";", "trim": true})",
    R"({"features": [{"columns": ["a", "b"], "kind": "crossed", "bins": 7}], "label": "y",
        "quote": "'", "escape": "\\"})",
    R"({"features": [{"column": 0}], "label": 1, "header": false, "quote": null,
        "skip_lines": 1})",
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ReadFileSource("csv", kOptions, data, size);
  return 0;
}

}  // namespace paracord::fuzz
