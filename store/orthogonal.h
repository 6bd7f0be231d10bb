// Random orthogonal matrices, uniform over all of them (Haar), as Keras' Orthogonal makes them by a
// QR of normal numbers. A QR needs the whole matrix. Here it is a product of Householder
// reflections of normal vectors (Stewart 1980, "The efficient generation of random orthogonal
// matrices"), whose rows can be computed one by one, so that each partition computes its own.
// Stateless.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

struct MatrixShape {
  uint64_t rows = 0, columns = 0;
};

// Writes elements [begin, begin + out.size()) of `gain` times the matrix of this key, row-major.
// Its columns are orthonormal, or its rows if there are fewer rows.
void Orthogonal(const MatrixShape& matrix, uint64_t key, double gain, uint64_t begin,
                std::span<float> out);

}  // namespace paracord
