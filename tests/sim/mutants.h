// The mutants (common/mutant.h) that simulation finds, each with the seed that finds it. The hidden
// test "search for the mutants" (tests/run --slow) has found the seeds.
#pragma once

#include <cstdint>

namespace paracord {

struct KnownMutant {
  const char* name;
  uint64_t seed;  // 0: none of the first 10,000 does
};

inline constexpr KnownMutant kMutants[] = {
    {"ledger_outside_snapshot", 1},   {"boot_id_not_checked", 11},
    {"generation_not_checked", 6},    {"manifest_before_sync", 1},
    {"gap_is_already_applied", 1137}, {"gap_is_applied", 1137},
    {"ledger_after_reply", 1},        {"load_is_repeated", 626},
    {"progress_believed", 14},        {"state_not_rewritten", 0},
    {"evaluations_not_voided", 0},    {"old_round_is_kept", 2289},
    {"loading_is_not_watched", 862},  {"commit_is_not_repeated", 0},
    {"lost_grant_is_kept", 287},      {"claim_after_look", 0},
    {"claim_not_checked", 2190},      {"rejected_by_one_ps", 6},
    {"rejected_where_missing", 11045},
};

}  // namespace paracord
