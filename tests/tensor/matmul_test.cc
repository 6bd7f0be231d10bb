// Products of shapes whose operands are copied first (cpu/dnnl.cc), and of other shapes.
#include <catch2/catch.hpp>
#include <cmath>
#include <thread>
#include <vector>

#include "tensor/cpu/cpu_ops.h"
#include "tests/tensor/threads.h"

namespace paracord {
namespace {

std::vector<float> Operand(int64_t n, int64_t seed) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    x[static_cast<size_t>(i)] = static_cast<float>((i * 7919 + seed) % 101 - 50) / 50;
  }
  return x;
}

struct Product {
  explicit Product(Ops& ops, const MatmulShape& made)
      : shape(made),
        a(Operand(made.m * made.k, 1)),
        b(Operand(made.k * made.n, 2)),
        c(static_cast<size_t>(made.m * made.n)),
        matmul(ops.MakeMatmul(made).value()) {}
  void Run() { matmul->Run(a.data(), b.data(), nullptr, c.data()); }
  void Check() const {
    double furthest = 0;  // share of the sum of magnitudes
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < shape.k; ++k) {
          const int64_t at_a = shape.transpose_a ? k * shape.m + i : i * shape.k + k;
          const int64_t at_b = shape.transpose_b ? j * shape.k + k : k * shape.n + j;
          const double product = static_cast<double>(a[static_cast<size_t>(at_a)]) *
                                 static_cast<double>(b[static_cast<size_t>(at_b)]);
          sum += product;
          magnitude += std::abs(product);
        }
        const auto got = static_cast<double>(c[static_cast<size_t>(i * shape.n + j)]);
        furthest = std::max(furthest, std::abs(got - sum) / magnitude);
      }
    }
    CAPTURE(shape.m, shape.k, shape.n, shape.transpose_a, shape.transpose_b);
    CHECK(furthest < 5e-6);
  }

  MatmulShape shape;
  std::vector<float> a, b, c;
  std::unique_ptr<Matmul> matmul;
};

TEST_CASE("products with rows of a power of two are right, also one after the other") {
  const int threads = GENERATE(range(1, kThreadsMost + 1));
  const auto ops = MakeCpuOps(threads);
  std::vector<Product> products;
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{33, 70, 512},
                                {512, 40, 48},
                                {512, 65, 512},
                                {32, 9, 1024},
                                {31, 9, 1024},
                                {1024, 129, 7},
                                {48, 512, 100}}) {
    products.emplace_back(*ops, MatmulShape{.m = m, .k = k, .n = n});
    products.emplace_back(*ops, MatmulShape{.m = m, .k = k, .n = n, .transpose_a = true});
    products.emplace_back(*ops, MatmulShape{.m = m, .k = k, .n = n, .transpose_b = true});
  }
  for (int round = 0; round < 2; ++round) {
    for (Product& product : products) product.Run();
  }
  REQUIRE(ops->Finish().ok());
  for (const Product& product : products) product.Check();
}

TEST_CASE("a product may be computed by another thread than it was made by") {
  const Operands operands = GENERATE(Operands::kFloat32, Operands::kBfloat16);
  for (int transposed = 0; transposed < 4; ++transposed) {
    const MatmulShape s{.m = 70,
                        .k = 1100,
                        .n = 130,
                        .transpose_a = (transposed & 1) != 0,
                        .transpose_b = (transposed & 2) != 0};
    CAPTURE(operands, transposed);
    const auto ops = MakeCpuOps(1);
    ops->AllowOperands(operands);
    const auto matmul = ops->MakeMatmul(s);
    REQUIRE(matmul.ok());
    const std::vector<float> a(static_cast<size_t>(s.m * s.k), 1);
    const std::vector<float> b(static_cast<size_t>(s.k * s.n), 1);
    std::vector<float> c(static_cast<size_t>(s.m * s.n));
    std::thread([&] {
      ops->Enter();
      (*matmul)->Run(a.data(), b.data(), nullptr, c.data());
    }).join();
    REQUIRE(ops->Finish().ok());
    CHECK(c == std::vector<float>(c.size(), 1100));
  }
}

}  // namespace
}  // namespace paracord
