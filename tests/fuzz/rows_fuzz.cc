// Decodes the bytes as the ids of rows. What is accepted is ascending, distinct and encoded again
// as an equal set.
#include "exchange/rows.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  RowSet rows;
  const uint64_t count = input.Number(UINT64_MAX);
  rows.set_ids(std::string(input.Rest()));
  rows.set_count(count % 2 == 0 ? count >> 1 : rows.ids().size());
  const absl::StatusOr<RowIds> ids = DecodeRows(rows);
  if (!ids.ok()) return 0;
  Demand(ids->size() == rows.count(), "there are as many ids as announced");
  for (size_t i = 1; i < ids->size(); ++i) {
    Demand((*ids)[i - 1] < (*ids)[i], "ids are ascending and distinct");
  }
  const absl::StatusOr<RowIds> again = DecodeRows(EncodeRows(*ids));
  Demand(again.ok() && *again == *ids, "ids survive encoding");
  return 0;
}

}  // namespace paracord::fuzz
