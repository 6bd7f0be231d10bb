// Tests that the Runtime on the processor finds all the errors that it must find.
#include "tests/cuda_host/host_runtime.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tensor/cuda/bodies.h"
#include "tests/cuda_host/page_floats.h"

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

void CheckHas(const std::string& text, const char* part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("a kernel that reads what was never written is found") {
  {
    Table table;
    float *x = table.New(10), *y = table.New(10);
    table.Map(10, AffineBody{1, 0, x, y}, table.one);
    CheckHas(table.Wrong(table.one), "never written");
  }
  for (const int64_t from : {0, 1}) {  // an unwritten bfloat16 in either half of a word
    Table table;
    float *x = table.New(10), *y = table.New(10);
    const Tensor written(reinterpret_cast<uint16_t*>(x));
    table.Map(10, FillBody{1, y}, table.one);
    table.Map(9 + from, ConvertBody{ConstTensor(y), written}, table.one);
    table.Map(9 + from, ConvertBody{ConstTensor(written), Tensor(y)}, table.one);
    CHECK(table.Wrong(table.one).empty());
    table.Map(1, ConvertBody{ConstTensor(written + (9 + from)), Tensor(y)}, table.one);
    CheckHas(table.Wrong(table.one), "never written");
  }
  {
    Table table;
    float* x = table.New(5);
    const Tensor halves(reinterpret_cast<uint16_t*>(x));
    table.Map(9, ConvertBody{ConstTensor(halves + 1), halves}, table.one);
    CheckHas(table.Wrong(table.one), "never written");
  }
}

TEST_CASE("a kernel that leaves the memory that it has is found") {
  {
    Table table;
    float* x = table.New(10);
    table.Map(11, FillBody{1, x}, table.one);
    CheckHas(table.Wrong(table.one), "not the device's");
  }
  {
    Table table;
    float *x = table.New(11), *y = table.New(5);
    table.Map(11, FillBody{1, x}, table.one);
    table.Map(11, ConvertBody{ConstTensor(x), Tensor(reinterpret_cast<uint16_t*>(y))}, table.one);
    CheckHas(table.Wrong(table.one), "not the device's");
  }
  {
    Table table;
    float* x = table.New(10);
    table.Map(10, FillBody{1, x}, table.one);
    CHECK(table.runtime->Free(x).ok());
    CheckHas(table.Wrong(table.one), "freed");
  }
  {
    Table table;
    std::vector<float> host(10);
    table.Map(10, FillBody{1, host.data()}, table.one);
    CheckHas(table.Wrong(table.one), "not the device's");
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
    CheckHas(table.Wrong(table.one), "beyond the end");
  }
}

TEST_CASE("a map does each element once, several at once or one") {
  for (const int64_t n : {1, 255, 256, 257, 1024, 1025, 1500, 5000}) {
    INFO(n);
    Table table;
    const auto floats = static_cast<size_t>(n);
    float *x = table.New(floats), *y = table.New(floats);
    table.Map(n, FillBody{1, x}, table.one);
    table.Map(n, FillBody{2, y}, table.one);
    table.Map(n, AddBody{ConstTensor(x), Tensor(y)}, table.one);
    table.Map(n, AddBody{ConstTensor(y), Tensor(y)}, table.one);  // in place
    std::vector<float> host(floats);
    CHECK(table.runtime->Copy(CopyKind::kToHost, y, host.data(), 4 * floats, table.one).ok());
    CHECK(table.Wrong(table.one).empty());
    CHECK(host == std::vector<float>(floats, 6));
  }
}

TEST_CASE("what the libraries refuse is refused") {
  const auto refused = [](const absl::Status& status, const char* part) {
    INFO(status);
    CHECK_FALSE(status.ok());
    CHECK(status.message().find(part) != std::string::npos);
  };
  const auto capture = [&](const char* part, const auto& ask) {
    Table table;
    PageFloats host(64);
    CHECK(table.runtime->PageLockHost(host.data(), 128).ok());
    float* x = table.New(4);
    CHECK(table.runtime->BeginCapture(table.one).ok());
    refused(ask(*table.runtime, host.data(), x), part);
    refused(table.runtime->EndCapture(table.one).status(), "invalidated by");
    CHECK(table.runtime->PageUnlockHost(host.data()).ok());
  };
  capture("cudaMalloc", [](Runtime& r, float*, float*) { return r.Malloc(4).status(); });
  capture("cudaFree", [](Runtime& r, float*, float* x) { return r.Free(x); });
  capture("cudaHostAlloc", [](Runtime& r, float*, float*) { return r.AllocateHost(4).status(); });
  capture("cudaHostRegister",
          [](Runtime& r, float* host, float*) { return r.PageLockHost(host + 40, 4); });
  capture("cudaHostUnregister",
          [](Runtime& r, float* host, float*) { return r.PageUnlockHost(host); });

  Table table;
  const size_t page = PageBytes(), floats = page / sizeof(float);
  PageFloats host(4 * floats);
  float* x = table.New(64);
  CHECK(table.runtime->PageLockHost(host.data() + floats, page + 4).ok());
  // Overlapping ranges are refused at either end; a neighbour that begins with the next page is
  // not.
  refused(table.runtime->PageLockHost(host.data(), page + 4), "cudaHostRegister: registered");
  refused(table.runtime->PageLockHost(host.data() + 2 * floats, 4), "cudaHostRegister: registered");
  CHECK(table.runtime->PageLockHost(host.data() + 3 * floats, 4).ok());
  refused(table.runtime->Copy(CopyKind::kToDevice, host.data() + floats - 1, x, 8, table.one),
          "invalid argument");
  refused(table.runtime->Copy(CopyKind::kToDevice, host.data() + 2 * floats + 8, x, 4, table.one),
          "invalid argument");
  ConvShape shape{.batch = 1, .in_channels = 1, .out_channels = 1};
  shape.height = shape.width = {.in = 4, .out = 3, .size = 3};  // a size of 2 would be right
  refused(table.runtime->MakeConvolution({.shape = shape}).status(), "BAD_PARAM");
}

TEST_CASE("what the libraries would do wrong is found") {
  {  // an event of a capture that has ended
    Table table;
    float* x = table.New(4);
    const Event event = table.runtime->CreateEvent().value();
    CHECK(table.runtime->BeginCapture(table.one).ok());
    table.Map(4, FillBody{1, x}, table.one);
    CHECK(table.runtime->Record(event, table.one).ok());
    CHECK(table.runtime->EndCapture(table.one).ok());
    CHECK_FALSE(table.runtime->Wait(table.two, event).ok());
    CheckHas(table.Wrong(table.two), "recorded in a capture");
  }
  {
    Table table;
    float *x = table.New(9), *w = table.New(4), *y = table.New(4), *space = table.New(64);
    table.Map(9, FillBody{1, x}, table.one);
    table.Map(4, FillBody{1, w}, table.one);
    ConvShape shape{.batch = 1, .in_channels = 4, .out_channels = 1};
    shape.height = shape.width = {.in = 1, .out = 1};
    const auto convolution =
        table.runtime->MakeConvolution({.shape = shape, .workspace_max = 64}).value();
    CHECK(convolution->Forward(x + 4, w, nullptr, y, space, table.one).ok());
    CHECK(table.Wrong(table.one).empty());
    CHECK(convolution->Forward(x + 5, w, nullptr, y, space, table.one).ok());
    CheckHas(table.Wrong(table.one), "at no 16 bytes");
  }
  {
    HostOptions options;
    options.rank = 1;
    const auto other = MakeHostRuntime(std::move(options));
    Table table;
    CHECK(table.runtime->UseDevice().ok());
    CHECK(other->Malloc(4).ok());
    CHECK(other->UseDevice().ok());
    const Stream stream = other->CreateStream().value();
    CheckHas(std::string(other->Synchronize(stream).message()),
             "the thread uses device 0, this is 1");
    CHECK(table.runtime->UseDevice().ok());
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

TEST_CASE("the host waits for as much as an event says, of a graph that records it too") {
  int more = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Table table(seed);
    Runtime& runtime = *table.runtime;
    float* const x = table.New(10);
    float* const y = table.New(10);
    auto* const host = static_cast<float*>(runtime.AllocateHost(80).value());
    const Event event = runtime.CreateHostEvent().value();
    CHECK(runtime.AwaitEvent(event).ok());  // never recorded
    const auto ask = [&] {
      table.Map(10, FillBody{3, x}, table.one);
      CHECK(runtime.Copy(CopyKind::kToHost, x, host, 40, table.one).ok());
      CHECK(runtime.Record(event, table.one).ok());
      table.Map(10, FillBody{4, y}, table.one);
      CHECK(runtime.Copy(CopyKind::kToHost, y, host + 10, 40, table.one).ok());
    };
    ask();
    CHECK(runtime.AwaitEvent(event).ok());
    CHECK(host[9] == 3);
    more += std::isnan(host[19]) ? 1 : 0;
    CHECK(runtime.Synchronize(table.one).ok());
    CHECK(host[19] == 4);
    REQUIRE(runtime.BeginCapture(table.one).ok());
    ask();
    CHECK_FALSE(runtime.AwaitEvent(event).ok());
    CHECK_FALSE(runtime.EndCapture(table.one).ok());
    REQUIRE(runtime.BeginCapture(table.one).ok());
    ask();
    const StepGraph graph = runtime.EndCapture(table.one).value();
    for (int launch = 0; launch < 3; ++launch) {
      std::fill_n(host, 20, 0.f);
      CHECK(runtime.AwaitEvent(event).ok());  // the record before the launch
      CHECK(host[9] == 0);
      CHECK(runtime.LaunchGraph(graph, table.one).ok());
      CHECK(runtime.AwaitEvent(event).ok());
      CHECK(host[9] == 3);
      CHECK(host[19] == 0);
      CHECK(runtime.Synchronize(table.one).ok());
      CHECK(host[19] == 4);
    }
    CHECK(runtime.DestroyEvent(event).ok());
    CHECK(table.Wrong(table.one) == "cudaEventDestroy of an event that a graph records");
  }
  CHECK(more == 20);
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
