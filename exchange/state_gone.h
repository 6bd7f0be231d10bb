// The error of a ps that no longer has the values of a requested state (ExchangeRequest.state),
// because a later round has been applied. The code OUT_OF_RANGE is also the code of limits
// (common/limit_error.h); the text tells the two apart. Pure functions.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paracord {

inline constexpr absl::string_view kStateGone = ": the values of state ";

// `wanted`: the requested state. `state`: the partition's present state. `before`: the partition
// also keeps the values of state - 1.
inline absl::Status StateGone(uint32_t partition, uint64_t wanted, uint64_t state, bool before) {
  return absl::OutOfRangeError(absl::StrCat("partition ", partition, kStateGone, wanted,
                                            " are wanted, and it is at state ", state,
                                            before ? ", with those of one less" : ""));
}
inline bool IsStateGone(const absl::Status& status) {
  return absl::IsOutOfRange(status) && absl::StrContains(status.message(), kStateGone);
}

}  // namespace paracord
