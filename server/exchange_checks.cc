// Checks an exchange's proofs and memory use before the store sees the exchange.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"
#include "common/limit_error.h"
#include "config/proofs.h"
#include "exchange/rows.h"
#include "server/parameter_server_impl.h"

namespace paracord {

absl::Status ParameterServer::Impl::CheckProofs(const ExchangeRequest& header) const {
  if (proof_key_.empty()) return absl::OkStatus();
  if (header.has_batch() &&
      !AreLeaseProofs(header.proof(), std::max(header.lanes(), 1u), proof_key_,
                      header.fence().generation(), header.batch())) {
    return absl::PermissionDeniedError(
        absl::StrCat(header.worker(), " pushes batch ", header.batch().batch(), " of split ",
                     header.batch().split(), " of epoch ", header.batch().epoch(),
                     " without the coordinator's proof that the split is leased: send the lease's "
                     "`proof` along"));
  }
  const RoundNorms& norms = header.norms();
  if (header.has_norms() &&
      !IsLeaseProof(norms.proof(), proof_key_, header.fence().generation(), norms.lease())) {
    return absl::PermissionDeniedError(
        absl::StrCat(header.worker(), " carries norms of round ", norms.round(),
                     " without the coordinator's proof that a split was leased to it: send a "
                     "lease's `proof` along"));
  }
  if (!header.rejected()) return absl::OkStatus();
  if (IsRejection(header.rejection(), proof_key_, header.batch())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("batch ", header.batch().batch(), " of split ", header.batch().split(),
                   " of epoch ", header.batch().epoch(),
                   " is pushed as rejected, without the coordinator's proof that it is: send the "
                   "lease's `rejections` of it along"));
}

absl::Status ParameterServer::Impl::CheckIds(const DecodedRequest& request, uint64_t bytes) const {
  const uint64_t ids = CountIds(request);
  const uint64_t bytes_max = memory_->requests()->spare();
  const uint64_t needed = bytes + ids * sizeof(uint64_t);
  if (needed <= bytes_max || ids == 0) return absl::OkStatus();
  return LimitError(absl::StrCat(
      "a batch of ", ids, " ids (", HumanBytes(needed),
      ") is more than this ps takes in one request (", HumanBytes(bytes_max),
      memory_->limited() ? absl::StrCat(", half of what ", memory_->LimitText(), " leaves") : "",
      "): a smaller \"batch\", more ps, or more memory"));
}

absl::Status ParameterServer::Impl::CheckRows(uint64_t bytes) const {
  if (bytes <= pinned_->reserved_max()) return absl::OkStatus();
  return LimitError(absl::StrCat(
      "the rows that one pull wants take ", HumanBytes(bytes), ", and replies may hold ",
      HumanBytes(pinned_->reserved_max()),
      memory_->limited() ? absl::StrCat(" (by ", memory_->LimitText(), ")") : " (by --pinned-mb)",
      ": a smaller \"batch\", more ps, or more memory"));
}

}  // namespace paracord
