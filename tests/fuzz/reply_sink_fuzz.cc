// Receives the bytes as a reply to an exchange, with pieces that land in the caller's memory.
// Afterwards the message must contain all bytes in order.
#include <deque>
#include <string>

#include "exchange/codec.h"
#include "exchange/reply_sink.h"
#include "net/arriving_body.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const size_t chunk = 1 + input.Number(255);
  const uint64_t accepted = input.Number(255);
  const std::string_view bytes = input.Rest();
  std::deque<std::string> places;
  const auto place = [&](uint32_t partition, uint64_t, uint64_t wanted) -> char* {
    if (partition > 3 || wanted > 4 * accepted) return nullptr;
    return places.emplace_back(wanted, '\0').data();
  };
  const auto sink = MakeExchangeSink(bytes.size(), place);
  ArrivingBody body(bytes.size(), /*wanted=*/true, sink);
  for (size_t at = 0; at < bytes.size();) {
    const std::string part(bytes.substr(at, chunk));  // separate memory
    const size_t taken = body.Take(part);
    Demand(taken > 0 && taken <= part.size(), "bytes are taken");
    at += taken;
  }
  Demand(body.left() == 0, "all bytes are taken");
  const absl::Cord arrived = body.TakeBytes();
  Demand(arrived == absl::string_view(bytes.data(), bytes.size()), "bytes arrive unchanged");
  DecodeExchangeReply(arrived).status().IgnoreError();
  return 0;
}

}  // namespace paracord::fuzz
