// Measures restores of tables: how many rows a second are read, verified and put into memory, from
// a full checkpoint and from a chain of checkpoints (storage/chain.h).
#pragma once

#include <cstdint>
#include <string>

namespace paracord::bench {

// For a growing and for a fixed table, each with `rows` rows of `dim` elements and Adagrad's slot,
// writes a full checkpoint and a chain of checkpoints into a new directory in `below` ("": the
// system's temporary directory). Restores each `rounds` times, and prints the rows a second of the
// median time, and the goal. An error ends the process.
void MeasureRestores(uint64_t rows, uint64_t dim, int rounds, const std::string& below);

}  // namespace paracord::bench
