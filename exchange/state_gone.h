// What a ps answers that has no longer the values of a state (ExchangeRequest.state), because
// somebody else is further. The code is OUT_OF_RANGE, which is that of limits
// (common/limit_error.h) as well; the text tells them apart. Pure.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paracord {

inline constexpr absl::string_view kStateGone = ": the values of state ";

// `state` is the partition's, `before`: it also has the values of one less.
inline absl::Status StateGone(uint32_t partition, uint64_t wanted, uint64_t state, bool before) {
  return absl::OutOfRangeError(absl::StrCat("partition ", partition, kStateGone, wanted,
                                            " are wanted, and it is at state ", state,
                                            before ? ", with those of one less" : ""));
}
inline bool IsStateGone(const absl::Status& status) {
  return absl::IsOutOfRange(status) && absl::StrContains(status.message(), kStateGone);
}

}  // namespace paracord
