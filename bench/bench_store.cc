// Measures how fast a ps applies pushes without network: each optimizer on one partition, compared
// with memcpy and with a plain loop over equal arrays.
//   bench_store [--mb N] [--rounds N]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/parallel.h"
#include "config/flags.h"
#include "measure.h"
#include "store/dense_partition.h"

namespace paracord::bench {
namespace {

constexpr uint32_t kSplitBatches = 1u << 30;

std::unique_ptr<DensePartition> MakePartition(const Optimizer& optimizer, uint64_t elements) {
  Partition::Facts facts{.id = 0,
                         .name = "v",
                         .shape = {elements},
                         .trained = true,
                         .bytes = elements * sizeof(float)};
  PartitionContents contents{.value = Block(elements), .slots = {}, .ledger = {}};
  contents.value.Fill(0.5f);
  for (const SlotSpec& slot : optimizer.slots) {
    contents.slots.emplace_back(elements);
    contents.slots.back().Fill(slot.initial);
  }
  return std::make_unique<DensePartition>(std::move(facts), optimizer, std::move(contents));
}

// Adam as a plain loop with an array for each slot. The compiler vectorises the loop for AVX2.
#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
void BareAdam(const float* __restrict g, float* __restrict v, float* __restrict m,
              float* __restrict s, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    m[i] += (g[i] - m[i]) * 0.1f;
    s[i] += (g[i] * g[i] - s[i]) * 0.001f;
    v[i] -= 0.001f * m[i] / (std::sqrt(s[i]) + 1e-7f);
  }
}

int Main(int argc, char** argv) {
  int64_t mb = 64;
  int64_t rounds = 15;
  Flags flags("bench_store", "Applies pushes without network.");
  flags.Integer("mb", "N", "megabytes of parameters", 1, 4096, &mb);
  flags.Integer("rounds", "N", "repetitions", 1, 1000, &rounds);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  PrintMachine();
  const uint64_t elements = static_cast<uint64_t>(mb) * 1000000 / sizeof(float);
  const uint64_t bytes = elements * sizeof(float);
  std::vector<float> gradient(elements, 0.001f);
  std::vector<float> a(elements, 0.5f);
  std::vector<float> b(elements, 0.0f);
  std::vector<float> c(elements, 0.0f);
  const Gradient pushed(absl::MakeCordFromExternal(
      absl::string_view(reinterpret_cast<const char*>(gradient.data()), bytes),
      [](absl::string_view) {}));

  std::vector<NamedSpec> specs;
  for (const char* name : {"sgd", "adagrad", "rmsprop", "adam", "adamw"}) {
    specs.push_back({name, nlohmann::json::object()});
  }
  specs.push_back({"sgd", {{"momentum", 0.9}}});
  std::vector<Optimizer> optimizers;
  for (const NamedSpec& spec : specs) optimizers.push_back(ParseOptimizer(spec).value());

  for (const int threads : {1, 2}) {
    if (threads > static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))) break;
    SetParallelThreads(threads);
    std::vector<Way> ways;
    ways.push_back({"memcpy", [&] { std::memcpy(b.data(), gradient.data(), bytes); }});
    ways.push_back({"bare Adam loop",
                    [&] { BareAdam(gradient.data(), a.data(), b.data(), c.data(), elements); }});
    std::vector<std::unique_ptr<DensePartition>> partitions;
    for (size_t i = 0; i < optimizers.size(); ++i) {
      partitions.push_back(MakePartition(optimizers[i], elements));
      const std::string name =
          specs[i].options.empty() ? specs[i].name : absl::StrCat(specs[i].name, " momentum");
      const bool adam = name.starts_with("adam");
      ways.push_back(
          {absl::StrCat(name, ", ", threads, threads == 1 ? " thread" : " threads"),
           [&partition = *partitions.back(), &pushed, next = 0u]() mutable {
             const Outcome result = partition.Push({0, next++, kSplitBatches}, false, pushed);
             if (result.outcome != PUSH_APPLIED) std::abort();
           },
           adam ? ways[1].name : ways[0].name,
           absl::StrCat("apply_", absl::StrReplaceAll(name, {{" ", "_"}}), "_", mb, "MB_", threads,
                        "threads")});
    }
    PrintTurns(absl::StrCat("apply a push of ", mb, " MB, ", threads,
                            " threads (memcpy and the bare loop: one)"),
               bytes, ways, static_cast<int>(rounds));
  }
  return 0;
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
