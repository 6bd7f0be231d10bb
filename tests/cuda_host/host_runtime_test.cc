// The table itself: what it is there to find it does find.
#include "tests/cuda_host/host_runtime.h"

#include <catch2/catch.hpp>
#include <vector>

#include "worker/ops/cuda/bodies.h"

namespace paracord::cuda {
namespace {

struct Table {
  explicit Table(uint64_t seed = 0) {
    HostOptions options;
    options.seed = seed;
    runtime = MakeHostRuntime(std::move(options));
    one = runtime->CreateStream().value();
    two = runtime->CreateStream().value();
  }
  float* New(size_t floats) {
    return static_cast<float*>(runtime->Malloc(floats * sizeof(float)).value());
  }
  template <class Body>
  void Map(int64_t n, const Body& body, Stream stream) {
    const MapArgs<Body> args{body, n};
    CHECK(runtime->Launch({"map", MapKernel<Body>(), &args, sizeof(args), 1, 1, kThreads}, stream)
              .ok());
  }
  std::string Wrong(Stream stream) { return std::string(runtime->Synchronize(stream).message()); }
  std::unique_ptr<Runtime> runtime;
  Stream one = nullptr, two = nullptr;
};

TEST_CASE("what a kernel may not do is found") {
  const auto has = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  {
    Table table;
    float* x = table.New(10);
    table.Map(11, FillBody{1, x}, table.one);
    has(table.Wrong(table.one), "not the device's");
  }
  {
    Table table;
    float *x = table.New(10), *y = table.New(10);
    table.Map(10, AffineBody{1, 0, x, y}, table.one);
    has(table.Wrong(table.one), "never written");
  }
  {
    Table table;
    float* x = table.New(10);
    table.Map(10, FillBody{1, x}, table.one);
    CHECK(table.runtime->Free(x).ok());
    has(table.Wrong(table.one), "freed");
  }
  {
    Table table;
    std::vector<float> host(10);
    table.Map(10, FillBody{1, host.data()}, table.one);
    has(table.Wrong(table.one), "not the device's");
  }
  {
    Table table;
    float* x = table.New(6);
    table.Map(6, FillBody{1, x}, table.one);
    CHECK(table.runtime
              ->Gemm({.m = 2, .n = 2, .k = 3, .a = x, .lda = 2, .b = x, .ldb = 3, .c = x, .ldc = 4},
                     table.one)
              .ok());
    CHECK(table.Wrong(table.one).empty());
    CHECK(table.runtime
              ->Gemm({.m = 2, .n = 2, .k = 4, .a = x, .lda = 2, .b = x, .ldb = 4, .c = x, .ldc = 2},
                     table.one)
              .ok());
    has(table.Wrong(table.one), "beyond the end");
  }
}

TEST_CASE("of an allocation in parts, only a part may be used, and as what was written to it") {
  const auto wrong = [](bool again, int64_t n, bool write) {
    Table table;
    auto* whole = table.New(400);
    table.runtime->Part(whole);
    table.runtime->Use(whole, 400);
    table.runtime->Use(whole + 128, 400);
    if (write) table.Map(100, FillBody{1, whole + 128}, table.one);
    if (again) {
      CHECK(table.Wrong(table.one).empty());
      table.runtime->Unuse(whole + 128);
      table.runtime->Use(whole + 120, 400);
    }
    float* y = table.New(200);
    table.Map(n, AffineBody{1, 0, whole + (again ? 120 : 128), y}, table.one);
    return table.Wrong(table.one);
  };
  CHECK(wrong(false, 100, true).empty());
  CHECK(wrong(false, 101, true).find("not the device's") != std::string::npos);
  CHECK(wrong(false, 1, false).find("never written") != std::string::npos);
  CHECK(wrong(true, 100, true).find("never written") != std::string::npos);
  Table table;
  auto* whole = table.New(100);
  table.runtime->Part(whole);
  table.runtime->Use(whole, 200);
  table.runtime->Unuse(whole);
  table.Map(1, FillBody{1, whole}, table.one);
  CHECK(table.Wrong(table.one).find("freed") != std::string::npos);
}

TEST_CASE("streams run in any order that events allow, and in no other") {
  size_t early = 0;
  for (const bool waits : {true, false}) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      Table table(seed);
      float *x = table.New(8), *y = table.New(8);
      const Event event = table.runtime->CreateEvent().value();
      table.Map(8, FillBody{1, x}, table.one);
      table.Map(8, FillBody{2, x}, table.one);
      CHECK(table.runtime->Record(event, table.one).ok());
      if (waits) CHECK(table.runtime->Wait(table.two, event).ok());
      table.Map(8, AffineBody{1, 0, x, y}, table.two);
      std::vector<float> host(8);
      CHECK(table.runtime->Copy(CopyKind::kToHost, y, host.data(), 32, table.two).ok());
      const std::string wrong = table.Wrong(table.two);
      if (waits) {
        CHECK(wrong.empty());
        CHECK(host == std::vector<float>(8, 2.f));
      } else if (!wrong.empty() || host[0] != 2) {
        ++early;
      }
    }
  }
  CHECK(early > 5);
}

}  // namespace
}  // namespace paracord::cuda
