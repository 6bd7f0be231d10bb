// Calls a ps with bodies from the bytes: a method, a length and a body for each call.
#include "tests/fuzz/ps.h"

namespace paracord::fuzz {
namespace {

constexpr std::string_view kMethods[] = {
    method::kExchange, method::kStage,  method::kDescribe,
    method::kAdopt,    method::kLoad,   method::kPsHold,
    method::kSnapshot, method::kFinish, "/paracord.ParameterServer/None",
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Ps ps;
  const bool loaded = ps.Adopt(1, "c").ok() && ps.Load("c").ok();
  Demand(loaded, "a ps loads");
  while (!input.empty()) {
    const std::string_view method = kMethods[input.Number(std::size(kMethods) - 1)];
    const size_t bytes = input.Number(65535);
    const auto call = ps.Send(method, Chunked(input.Bytes(bytes), 1 + bytes));
    if (method == method::kPsHold && call->answered == 0) call->Cancel();
    ps.loop.Advance(100);
  }
  (void)ps.Describe();
  return 0;
}

}  // namespace paracord::fuzz
