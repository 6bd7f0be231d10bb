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

// Joins the pieces of one partition, which must cover it exactly.
absl::StatusOr<absl::Cord> Assemble(uint32_t id, std::vector<PieceView>& pieces, uint64_t bytes) {
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
      return RefusePartition(id, absl::StrCat("pieces for more than its ", bytes, " bytes"));
    }
    whole.Append(std::move(piece.data));
  }
  if (whole.size() == bytes) return whole;
  return RefusePartition(id, absl::StrCat("pieces for ", whole.size(), " of ", bytes, " bytes"));
}

absl::StatusOr<RowIds> ReadRows(uint32_t partition, const RowSet& set) {
  absl::StatusOr<RowIds> ids = DecodeRows(set);
  if (!ids.ok()) return RefusePartition(partition, std::string(ids.status().message()));
  return *std::move(ids);
}

absl::StatusOr<std::vector<Update>> ReadUpdates(const ExchangeRequest& header,
                                                std::vector<PieceView> views) {
  std::map<uint32_t, std::vector<PieceView>> pieces;
  for (PieceView& piece : views) pieces[piece.partition].push_back(std::move(piece));
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
      ASSIGN_OR_RETURN(update.rows, ReadRows(push.partition(), push.rows()));
    }
    if (push.bytes() == 0) continue;
    ASSIGN_OR_RETURN(update.gradient,
                     Assemble(push.partition(), pieces[push.partition()], push.bytes()));
    pieces.erase(push.partition());
  }
  if (pieces.empty()) return updates;
  return RefusePartition(pieces.begin()->first, "pieces without an entry for them");
}

absl::StatusOr<std::vector<Want>> ReadWants(const ExchangeRequest& header) {
  std::vector<Want> wants;
  std::set<uint32_t> named;
  for (const PartitionPull& pull : header.pull()) {
    if (!named.insert(pull.partition()).second) {
      return RefusePartition(pull.partition(), "pulled twice");
    }
    Want& want = wants.emplace_back();
    want.partition = pull.partition();
    want.encoding = pull.encoding();
    if (pull.has_have_updates()) want.have_updates = pull.have_updates();
    if (pull.has_rows()) {
      ASSIGN_OR_RETURN(want.rows, ReadRows(pull.partition(), pull.rows()));
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
  ASSIGN_OR_RETURN(read.wants, ReadWants(header));
  if (header.has_batch()) {
    read.step = Step{header.batch(), header.rejected()};
    ASSIGN_OR_RETURN(read.updates, ReadUpdates(header, std::move(request.pieces)));
  } else if (header.push_size() != 0 || header.rejected() || !request.pieces.empty()) {
    return absl::InvalidArgumentError("a push without a batch");
  }
  return read;
}

}  // namespace paracord
