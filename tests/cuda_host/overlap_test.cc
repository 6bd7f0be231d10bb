// Copies that overlap with computation give right results in any order of the streams, and wait for
// no more than they must.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/shared_memory.h"
#include "keras/build.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cuda/cuda_ops.h"
#include "tests/cuda_host/host_runtime.h"
#include "tests/cuda_host/page_floats.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

std::unique_ptr<Ops> OpsWith(cuda::HostOptions options) {
  options.at_end = [](int64_t, const std::string& wrong) {
    if (!wrong.empty()) FAIL_CHECK(wrong);
  };
  return cuda::MakeOps(cuda::MakeHostRuntime(std::move(options))).value();
}

struct Done {
  std::string what;
  size_t bytes = 0;
};

nlohmann::json Layers() {
  return SequentialJson({LayerJson("Dense", {{"units", 30}, {"activation", "tanh"}}),
                         LayerJson("Dense", {{"units", 20}, {"activation", "tanh"}}),
                         LayerJson("Dense", {{"units", 10}})});
}

// Takes a step and returns the gradients. `done` gets the device's work in order.
Floats Step(std::unique_ptr<Ops> ops, std::vector<Done>* done) {
  const Batch schema = SchemaOf({40}, {10});
  const auto program =
      BuildKerasProgram(JobFor(Layers(), "mse", 8), schema, std::move(ops)).value();
  Variables variables(*program);
  variables.Randomise(3);
  if (done != nullptr) done->clear();
  const auto loss = program->ComputeGradients(RandomBatch(schema, 8, 0, 1), 1,
                                              variables.value_spans(), variables.gradient_spans());
  INFO(loss.status());
  REQUIRE(loss.ok());
  Floats all{static_cast<float>(*loss)};
  for (const Floats& gradient : variables.gradients) {
    all.insert(all.end(), gradient.begin(), gradient.end());
  }
  return all;
}

TEST_CASE("layers compute while later parameters are still copied and gradients are already gone") {
  constexpr size_t kLastKernel = 20 * 10 * 4, kFirstKernel = 40 * 30 * 4;
  const Floats wanted = Step(MakeCpuOps(1), nullptr);
  int computed_early = 0, gone_early = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::vector<Done> done;
    cuda::HostOptions options;
    options.seed = seed;
    options.done = [&](const char* what, size_t bytes) { done.push_back({what, bytes}); };
    const Floats got = Step(OpsWith(std::move(options)), &done);
    for (size_t i = 0; i < wanted.size(); ++i) REQUIRE(got[i] == Approx(wanted[i]).margin(1e-5));

    const auto at = [&](const char* what, size_t bytes, bool last) {
      size_t found = done.size();
      for (size_t i = 0; i < done.size(); ++i) {
        if (done[i].what != what || (bytes != 0 && done[i].bytes != bytes)) continue;
        if (found == done.size() || last) found = i;
      }
      REQUIRE(found < done.size());
      return found;
    };
    computed_early += at("matmul", 0, false) < at("copy to the device", kLastKernel, false) ? 1 : 0;
    gone_early += at("copy to the host", kLastKernel, false) < at("matmul", 0, true) ? 1 : 0;
    // A task must not run before its operands exist.
    CHECK(at("copy to the device", kFirstKernel, false) < at("matmul", 0, false));
    CHECK(at("copy to the host", kFirstKernel, false) > at("matmul", 0, true));
  }
  CHECK(computed_early > 5);
  CHECK(gone_early > 5);
}

TEST_CASE("gradients are handed out while the device still computes, in graphs too") {
  int early = 0, launched = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<Done> done;
    std::vector<size_t> reported;  // the number of tasks done at each report
    cuda::HostOptions options;
    options.seed = seed;
    options.done = [&](const char* what, size_t bytes) { done.push_back({what, bytes}); };
    options.called = [&](const char* name) {
      launched += std::string(name) == "cudaGraphLaunch" ? 1 : 0;
    };
    const Batch schema = SchemaOf({40}, {10});
    const auto program =
        BuildKerasProgram(JobFor(Layers(), "mse", 8), schema, OpsWith(std::move(options))).value();
    Variables variables(*program);
    variables.Randomise(3);
    program->OnGradient([&](size_t) { reported.push_back(done.size()); });
    for (uint32_t step = 0; step < 5; ++step) {
      done.clear();
      reported.clear();
      REQUIRE(program
                  ->ComputeGradients(RandomBatch(schema, 8, 0, step), 1, variables.value_spans(),
                                     variables.gradient_spans())
                  .ok());
      REQUIRE(reported.size() == 6);
      const auto computes = [](const Done& each) { return each.what == "matmul"; };
      for (const size_t at : reported) {
        const auto from = done.begin() + static_cast<std::ptrdiff_t>(at);
        early += std::any_of(from, done.end(), computes) ? 1 : 0;
      }
    }
  }
  CHECK(launched == 20 * 3);
  CHECK(early > 100);
}

TEST_CASE("without page-locked memory the same is computed") {
  const Floats wanted = Step(MakeCpuOps(1), nullptr);
  cuda::HostOptions options;
  options.page_locks = false;
  const Floats got = Step(OpsWith(std::move(options)), nullptr);
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(got[i] == Approx(wanted[i]).margin(1e-5));
}

TEST_CASE(
    "what the host does with its memory after an upload changes nothing, page-locked or not") {
  for (const bool page_locked : {true, false}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      cuda::HostOptions options;
      options.seed = seed;
      options.page_locks = page_locked;
      const auto ops = OpsWith(std::move(options));
      ops->Enter();
      PageFloats host(2000, 1.f);
      Floats back(2000);
      ops->PageLock(host.data(), host.size() * sizeof(float));
      const DeviceArray device = ops->Allocate(2000).value();
      ops->Upload(2000, host.data(), device.get());
      host.assign(2000, 2.f);
      ops->Affine(2000, 3, 0, device.get(), device.get());
      ops->Upload(1000, host.data(), device.get());
      host.assign(2000, 4.f);
      ops->Download(2000, device.get(), back.data());
      REQUIRE(ops->Finish().ok());
      CHECK(back[0] == 2.f);
      CHECK(back[1500] == 3.f);
    }
  }
}

TEST_CASE("memory that is page-locked is copied from and to where it is") {
  std::vector<Done> done;
  cuda::HostOptions options;
  const auto ops = OpsWith(std::move(options));
  ops->Enter();
  PageFloats host(500, 1.f), back(500, 7.f);
  ops->PageLock(host.data(), host.size() * sizeof(float));
  ops->PageLock(host.data(), host.size() * sizeof(float));
  ops->PageLock(back.data(), back.size() * sizeof(float));
  const DeviceArray device = ops->Allocate(500).value();
  ops->UploadBeside(500, host.data(), device.get());
  // The contract forbids this write. It shows that the data was not copied at once.
  host.assign(500, 5.f);
  ops->Download(500, device.get(), back.data());
  REQUIRE(ops->Finish().ok());
  CHECK(back[0] == 5.f);
}

TEST_CASE("many losses and penalties wait for one Finish") {
  const auto ops = OpsWith({});
  ops->Enter();
  const DeviceArray device = ops->Allocate(4).value();
  std::vector<double> sums(1000);
  for (size_t i = 0; i < sums.size(); ++i) {
    ops->Fill(4, static_cast<float>(i), device.get());
    ops->Penalty(4, 1, 0, device.get(), 0, nullptr, &sums[i]);
  }
  REQUIRE(ops->Finish().ok());
  for (size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == 4 * static_cast<double>(i));
}

TEST_CASE("a trace shows copies both ways beside what computes") {
  int beside = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    cuda::HostOptions options;
    options.seed = seed;
    const auto ops = OpsWith(std::move(options));
    ops->Enter();
    CHECK(ops->TakeSpans(true).empty());
    const DeviceArray x = ops->Allocate(100).value(), y = ops->Allocate(100).value();
    Floats host(100, 1.f), back(100);
    const auto step = [&] {
      ops->Fill(100, 1, y.get());
      ops->UploadBeside(100, host.data(), x.get());
      ops->Add(100, x.get(), y.get());
      ops->Download(100, y.get(), back.data());
      for (int i = 0; i < 5; ++i) ops->Fill(100, 1, x.get());
      REQUIRE(ops->Finish().ok());
    };
    step();
    const std::vector<DeviceSpan> spans = ops->TakeSpans(false);
    REQUIRE(spans.size() == 9);
    const char* const names[] = {
        "fill", "copies to the device", "add", "copies to the host", "fill", "fill", "fill", "fill",
        "fill"};
    for (size_t i = 0; i < spans.size(); ++i) {
      CHECK(std::string(spans[i].name) == names[i]);
      CHECK(spans[i].lane == (i == 1 ? 1 : i == 3 ? 2 : 0));
      CHECK(spans[i].end_us >= spans[i].begin_us + 1000);  // 1 ms each
    }
    const DeviceSpan &to_device = spans[1], &add = spans[2], &to_host = spans[3];
    CHECK(to_device.end_us <= add.begin_us);
    CHECK(add.end_us <= to_host.begin_us);
    if (to_host.end_us < spans[8].begin_us) ++beside;
    step();
    CHECK(ops->TakeSpans(true).empty());  // recording was off
  }
  CHECK(beside > 3);
}

}  // namespace
}  // namespace paracord
