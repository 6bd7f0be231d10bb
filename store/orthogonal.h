// Random orthogonal matrices with Haar (uniform) distribution, like Keras' Orthogonal, which takes
// the QR of a normal matrix. A QR needs the whole matrix. Here the matrix is a product of
// Householder reflections of normal vectors (Stewart 1980, "The efficient generation of random
// orthogonal matrices"), whose rows can be computed one by one: each partition computes its own.
// Stateless.
#pragma once

#include <cstdint>
#include <span>

namespace paracord {

struct MatrixShape {
  uint64_t rows = 0, columns = 0;
};

// Writes elements [begin, begin + out.size()) of `gain` times the matrix of this key, row-major.
// The columns are orthonormal, or the rows of a wide matrix.
void Orthogonal(const MatrixShape& matrix, uint64_t key, double gain, uint64_t begin,
                std::span<float> out);

}  // namespace paracord
