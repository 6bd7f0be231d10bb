// Random orthogonal matrices, uniform over all of them (Haar), as Keras' Orthogonal draws them by a
// QR of normal numbers. A QR needs the whole matrix; here it is a product of Householder
// reflections of normal vectors (Stewart 1980, "The efficient generation of random orthogonal
// matrices"), of which any rows can be had alone: a partition computes its own. Stateless.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

struct MatrixShape {
  uint64_t rows = 0, columns = 0;
};

// Writes elements [begin, begin + out.size()) of `gain` times the matrix of this key, row-major:
// its columns are orthonormal, or its rows if these are fewer.
void Orthogonal(const MatrixShape& matrix, uint64_t key, double gain, uint64_t begin,
                std::span<float> out);

}  // namespace paracord
