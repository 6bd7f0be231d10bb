// Decodes the bytes as row ids. Accepted ids must be ascending and distinct, and encode to an equal
// set.
#include "exchange/rows.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  uint64_t count = input.Number(UINT64_MAX);
  const absl::Cord bytes(std::string(input.Rest()));
  count = count % 2 == 0 ? count >> 1 : bytes.size();
  const absl::StatusOr<RowIds> ids = DecodeRows(count, bytes);
  if (!ids.ok()) return 0;
  Demand(ids->size() == count, "there are as many ids as announced");
  for (size_t i = 1; i < ids->size(); ++i) {
    Demand((*ids)[i - 1] < (*ids)[i], "ids are ascending and distinct");
  }
  RowSet set;
  std::vector<PieceView> pieces;
  NameRows(*ids, 0, Piece::PUSH_IDS, set, pieces);
  const absl::StatusOr<RowIds> again =
      DecodeRows(set.count(), pieces.empty() ? absl::Cord() : pieces[0].data);
  Demand(again.ok() && *again == *ids, "ids survive encoding");
  return 0;
}

}  // namespace paracord::fuzz
