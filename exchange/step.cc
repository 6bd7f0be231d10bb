#include "exchange/step.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

std::string OfPart(Piece::Part part) {
  switch (part) {
    case Piece::VALUES:
      return "";
    case Piece::PUSH_IDS:
      return " of the ids it pushes";
    case Piece::PULL_IDS:
      return " of the ids it pulls";
    default:
      return absl::StrCat(" of part ", static_cast<int>(part));
  }
}

// The pieces of a request, by partition and part.
class Pieces {
 public:
  explicit Pieces(std::vector<PieceView> all) {
    for (PieceView& piece : all) of_[{piece.partition, piece.part}].push_back(std::move(piece));
  }
  // Takes and joins the pieces of one part of a partition, which must have exactly `bytes` bytes.
  absl::StatusOr<absl::Cord> Take(uint32_t partition, Piece::Part part, uint64_t bytes);
  // Returns an error if any pieces are left.
  absl::Status NoMore() const {
    if (of_.empty()) return absl::OkStatus();
    const auto& [partition, part] = of_.begin()->first;
    return RefusePartition(partition,
                           absl::StrCat("pieces", OfPart(part), " without an entry for them"));
  }
  bool empty() const { return of_.empty(); }

 private:
  std::map<std::pair<uint32_t, Piece::Part>, std::vector<PieceView>> of_;
};

absl::StatusOr<absl::Cord> Pieces::Take(uint32_t id, Piece::Part part, uint64_t bytes) {
  std::vector<PieceView> pieces = std::move(of_[{id, part}]);
  of_.erase({id, part});
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const PieceView& a, const PieceView& b) { return a.offset < b.offset; });
  absl::Cord whole;
  for (PieceView& piece : pieces) {
    if (piece.data.empty()) return RefusePartition(id, "an empty piece");
    if (piece.offset != whole.size()) {
      return RefusePartition(id, absl::StrCat("a piece at offset ", piece.offset, " where ",
                                              whole.size(), " was expected"));
    }
    if (piece.data.size() > bytes - whole.size()) {
      return RefusePartition(
          id, absl::StrCat("pieces", OfPart(part), " for more than its ", bytes, " bytes"));
    }
    whole.Append(std::move(piece.data));
  }
  if (whole.size() == bytes) return whole;
  return RefusePartition(
      id, absl::StrCat("pieces", OfPart(part), " for ", whole.size(), " of ", bytes, " bytes"));
}

absl::StatusOr<RowIds> ReadRows(uint32_t partition, Piece::Part part, const RowSet& set,
                                Pieces& pieces) {
  absl::Cord bytes;
  if (set.bytes() != 0) {
    ASSIGN_OR_RETURN(bytes, pieces.Take(partition, part, set.bytes()));
  }
  absl::StatusOr<RowIds> ids = DecodeRows(set.count(), bytes);
  if (!ids.ok()) return RefusePartition(partition, std::string(ids.status().message()));
  return *std::move(ids);
}

absl::StatusOr<std::vector<Update>> ReadUpdates(const ExchangeRequest& header, Pieces& pieces) {
  std::vector<Update> updates;
  std::set<uint32_t> named;
  for (const PartitionPush& push : header.push()) {
    if (!named.insert(push.partition()).second) {
      return RefusePartition(push.partition(), "named twice");
    }
    Update& update = updates.emplace_back();
    update.partition = push.partition();
    update.encoding = push.encoding();
    if (push.has_rows()) {
      ASSIGN_OR_RETURN(update.rows,
                       ReadRows(push.partition(), Piece::PUSH_IDS, push.rows(), pieces));
    }
    if (push.bytes() == 0) continue;
    ASSIGN_OR_RETURN(update.gradient, pieces.Take(push.partition(), Piece::VALUES, push.bytes()));
  }
  return updates;
}

absl::StatusOr<std::vector<Want>> ReadWants(const ExchangeRequest& header, Pieces& pieces) {
  std::vector<Want> wants;
  std::set<uint32_t> named;
  for (const PartitionPull& pull : header.pull()) {
    if (!named.insert(pull.partition()).second) {
      return RefusePartition(pull.partition(), "pulled twice");
    }
    Want& want = wants.emplace_back();
    want.partition = pull.partition();
    want.encoding = pull.encoding();
    if (pull.has_known_version()) want.known_version = pull.known_version();
    want.state_only = pull.state_only();
    if (pull.has_rows()) {
      ASSIGN_OR_RETURN(want.rows, ReadRows(pull.partition(), Piece::PULL_IDS, pull.rows(), pieces));
    }
  }
  return wants;
}

}  // namespace

absl::Status RefusePartition(uint32_t partition, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("partition ", partition, ": ", why));
}

absl::StatusOr<StepRequest> ReadStep(DecodedRequest request) {
  const ExchangeRequest& header = request.header;
  StepRequest read;
  Pieces pieces(std::move(request.pieces));
  ASSIGN_OR_RETURN(read.wants, ReadWants(header, pieces));
  if (header.has_state()) {
    read.state = WantedState{header.state(), header.wait_ms(), header.squares()};
  }
  if (header.has_norms()) read.norms = header.norms();
  if (header.has_batch()) {
    read.step = Step{header.batch(), header.rejected(), std::max(header.lanes(), 1u)};
    ASSIGN_OR_RETURN(read.updates, ReadUpdates(header, pieces));
    RETURN_IF_ERROR(pieces.NoMore());
  } else if (header.push_size() != 0 || header.rejected() || header.lanes() != 0 ||
             !pieces.empty()) {
    return absl::InvalidArgumentError("a push without a batch");
  }
  return read;
}

}  // namespace paracord
