// Decodes the bytes as an exchange's request and as a reply. The result must not depend on the
// chunks, protobuf must accept the bytes too, and encoding must give an equal message.
#include <string>
#include <vector>

#include "exchange/codec.h"
#include "exchange/step.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {
namespace {

template <class Decoded>
std::string TextOf(const Decoded& decoded) {
  absl::Cord whole;
  for (const absl::Cord& part : EncodeExchange(decoded.header, decoded.pieces)) whole.Append(part);
  return std::string(whole);
}

template <class Message, class Decoded>
void Check(std::string_view bytes, const absl::StatusOr<Decoded>& whole,
           const absl::StatusOr<Decoded>& cut,
           absl::StatusOr<Decoded> (*decode)(const absl::Cord&)) {
  Demand(whole.ok() == cut.ok(), "chunks do not change whether a message is sound");
  if (!whole.ok()) return;
  const std::string text = TextOf(*whole);
  Demand(text == TextOf(*cut), "chunks do not change a message");
  Message message;
  Demand(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())),
         "protobuf reads what we read");
  uint64_t theirs = 0;
  for (const Piece& piece : message.pieces()) theirs += piece.data().size();
  Demand(theirs == PieceBytes(whole->pieces), "protobuf finds the bytes that we find");
  const absl::StatusOr<Decoded> again = decode(absl::Cord(text));
  Demand(again.ok() && TextOf(*again) == text, "a message survives encoding");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const size_t chunk = 1 + input.Number(255);
  const std::string_view bytes = input.Rest();
  const absl::Cord whole = Chunked(bytes, bytes.size() + 1);
  const absl::Cord cut = Chunked(bytes, chunk);
  absl::StatusOr<DecodedRequest> request = DecodeExchangeRequest(cut);
  Check<ExchangeRequest>(bytes, DecodeExchangeRequest(whole), request, &DecodeExchangeRequest);
  Check<ExchangeReply>(bytes, DecodeExchangeReply(whole), DecodeExchangeReply(cut),
                       &DecodeExchangeReply);
  if (request.ok()) ReadStep(*std::move(request)).status().IgnoreError();
  return 0;
}

}  // namespace paracord::fuzz
