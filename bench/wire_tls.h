// Part of bench_wire: what TLS costs a stream, beside a raw socket of OpenSSL.
#pragma once

#include <cstdint>
#include <vector>

namespace paracord::bench {

// Measures rates, round trips and connections between this process, which may not have started a
// thread yet, and one that it forks.
void MeasureTls(const std::vector<uint64_t>& sizes, int rounds);

}  // namespace paracord::bench
