// Parses the bytes, line by line, as the packets in which a child program declares itself, and lays
// out its memory.
#include <string>

#include "common/json_text.h"
#include "program/program_packets.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  ProgramHello hello;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const absl::StatusOr<bool> more = AddHello(JsonOf(text.substr(0, end)), hello);
    if (!more.ok()) return 0;
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!*more) break;
  }
  if (!CheckHello(hello).ok()) return 0;
  Demand(CheckSameHello(hello, hello).ok(), "a program says what it said");
  Batch schema;
  schema.inputs.push_back({"", {4}, {}});
  schema.targets.push_back({"", {}, {}});
  const absl::StatusOr<ProgramLayout> layout = LayOut(hello, schema, 8);
  if (!layout.ok()) return 0;
  Demand(layout->values.size() == hello.variables.size(), "every variable has a place");
  for (const uint64_t at : layout->values) {
    Demand(at % 64 == 0 && at <= layout->bytes, "a place is aligned and inside");
  }
  (void)LayoutPackets(*layout, schema);
  return 0;
}

}  // namespace paracord::fuzz
