// A part of bench_wire: compares our streams (net/stream_link.h), plain and under TLS, with raw TCP
// and raw OpenSSL sockets.
#pragma once

#include <cstdint>
#include <vector>

namespace paracord::bench {

// Measures rates, round trips and connection times between this process and one that it forks.
// `sizes` are the bytes of transfers, ascending. This process must not have started a thread.
void MeasureTls(const std::vector<uint64_t>& sizes, int rounds);

}  // namespace paracord::bench
