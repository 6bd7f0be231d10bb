// Random orthogonal matrices with Haar (uniform) distribution, like Keras' Orthogonal. Keras takes
// the QR decomposition of a matrix of normal numbers, which needs the whole matrix. Here the matrix
// is a product of Householder reflections of normal vectors (Stewart 1980, "The efficient
// generation of random orthogonal matrices"), of which each partition computes only the rows that
// it holds. No function here has state.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

struct MatrixShape {
  uint64_t rows = 0, columns = 0;
};

// Writes elements [begin, begin + out.size()), row-major, of `gain` times the matrix that `key`
// determines. The columns of that matrix are orthonormal, or its rows if it has more columns than
// rows.
void Orthogonal(const MatrixShape& matrix, uint64_t key, double gain, uint64_t begin,
                std::span<float> out);

}  // namespace paracord
