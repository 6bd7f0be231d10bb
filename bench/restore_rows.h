// Restores of tables: how many rows a second a ps reads, verifies and puts into memory, from a full
// checkpoint and from a chain of checkpoints.
#pragma once

#include <cstdint>
#include <string>

namespace paracord::bench {

// Writes a full checkpoint and a chain of checkpoints, of a growing and of a fixed table with
// `rows` rows of `dim` elements and Adagrad's slot, into a new directory in `below` ("": the
// system's temporary directory). Restores each `rounds` times, and prints rows a second by the
// medians, beside the goal. Exits on an error.
void MeasureRestores(uint64_t rows, uint64_t dim, int rounds, const std::string& below);

}  // namespace paracord::bench
