// Parses the bytes as the first bytes of a TLS connection. An offer found in a prefix must also be
// found in the whole.
#include <algorithm>
#include <memory>

#include "net/client_hello.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const size_t cut = input.Number(65535);
  const std::string_view bytes = input.Bytes(kClientHelloMax);  // the most that a listener looks at
  const Offer whole = OffersProtocol(bytes, "paracord/1");
  // Copies the prefix to new memory, so that ASan notices a read beyond its end.
  const std::string_view some = bytes.substr(0, cut % (bytes.size() + 1));
  const std::unique_ptr<char[]> own(new char[some.size()]);
  std::copy(some.begin(), some.end(), own.get());
  const Offer first = OffersProtocol({own.get(), some.size()}, "paracord/1");
  Demand(first == Offer::kMore || first == whole, "more bytes do not change what is found");
  return 0;
}

}  // namespace paracord::fuzz
