// Searches the bytes of an HTTP/2 client for endless header blocks. The result must not depend on
// the chunks, and no block may be longer than the input.
#include <string>

#include "net/header_blocks.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const size_t chunk = 1 + input.Number(255);
  const std::string_view bytes = input.Rest();
  HeaderBlocks whole, cut;
  const bool sound = whole.Take(std::span(bytes.data(), bytes.size()));
  bool sound_in_chunks = true;
  for (size_t at = 0; at < bytes.size() && sound_in_chunks; at += chunk) {
    const std::string part(bytes.substr(at, chunk));
    sound_in_chunks = cut.Take(std::span(part.data(), part.size()));
  }
  Demand(sound == sound_in_chunks, "chunks do not change what is found");
  return 0;
}

}  // namespace paracord::fuzz
