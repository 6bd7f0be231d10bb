#include "net/shared_message.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "common/shared_memory.h"

namespace paracord {
namespace {

constexpr size_t kInlineBytes = 8 << 10;  // limit of a chunk, and of a packet's inline payload
constexpr int kPiecesMax = 256;

class Maker {
 public:
  explicit Maker(SharedPacket first) : packet_(std::move(first)) {}

  bool ok() const { return made_.problem.empty(); }

  void Add(absl::Cord chunk) {
    if (inline_bytes_ >= kInlineBytes || packet_.pieces_size() >= kPiecesMax) {
      packet_.set_more(true);
      EndPacket();
      packet_.clear_pieces();
      packet_.clear_method();
      packet_.set_more(false);
      inline_bytes_ = 0;
    }
    AddPiece(std::move(chunk));
    if (inline_all_ > kInlineBytesMax)
      made_.problem = "a message has too many bytes in small tensors";
    if (made_.kept.size() > kPlacesMax) made_.problem = "a message has too many tensors";
  }

  SharedMessage End() {
    EndPacket();
    return std::move(made_);
  }

 private:
  void EndPacket() {
    made_.packets.push_back(packet_.SerializeAsString());
    if (made_.packets.back().size() > kPacketBytes) made_.problem = "a packet is too large";
  }

  void AddPiece(absl::Cord chunk) {
    const absl::string_view bytes = *chunk.TryFlat();
    SharedPiece& piece = *packet_.add_pieces();
    std::optional<SharedPlace> place = FindShared(bytes.data());
    if (!place.has_value() && bytes.size() <= kInlineBytes) {
      piece.set_bytes(bytes.data(), bytes.size());
      inline_bytes_ += bytes.size();
      inline_all_ += bytes.size();
      return;
    }
    if (!place.has_value()) {  // large and not shared: copied once
      void* const copy = AllocateShared(bytes.size());
      std::memcpy(copy, bytes.data(), bytes.size());
      chunk = absl::MakeCordFromExternal(
          absl::string_view(static_cast<const char*>(copy), bytes.size()),
          [](absl::string_view held) { FreeShared(const_cast<char*>(held.data()), held.size()); });
      place = FindShared(copy);
    }
    if (!place.has_value()) {
      made_.problem = "no memory file is to be had";
      return;
    }
    if (std::ranges::find(made_.segments, place->segment) == made_.segments.end()) {
      made_.segments.push_back(place->segment);
    }
    piece.set_segment(place->segment);
    piece.set_offset(place->offset);
    piece.set_size(chunk.size());
    made_.kept.push_back(std::move(chunk));
  }

  SharedMessage made_;
  SharedPacket packet_;
  size_t inline_bytes_ = 0;  // inline bytes in the current packet
  uint64_t inline_all_ = 0;
};

}  // namespace

SharedMessage MakeSharedMessage(SharedPacket first, const Parts& parts) {
  Maker maker(std::move(first));
  for (const absl::Cord& part : parts) {
    size_t offset = 0;
    for (const absl::string_view chunk : part.Chunks()) {
      if (!maker.ok()) return maker.End();
      maker.Add(part.Subcord(offset, chunk.size()));
      offset += chunk.size();
    }
  }
  return maker.End();
}

}  // namespace paracord
