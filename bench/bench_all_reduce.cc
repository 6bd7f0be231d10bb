// Measures the communication of a synchronous round: several workers have gradients in memory, push
// them, and wait for the values after the round. In a cluster without ps, each worker's process
// holds a shard of the variables. Here each shard is a separate ps process, so twice as many
// processes share the cores. Everything goes through shared memory by default.
//   bench_all_reduce [--workers N] [--mb N] [--links shared,unix,tcp]
#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/daemon_process.h"
#include "forks.h"
#include "measure.h"
#include "ps_client.h"

namespace paracord::bench {
namespace {

struct Size {
  const char* name;
  uint64_t bytes;  // bytes of the gradient of all variables
};
constexpr Size kSizes[] = {
    {"64KB", 64 << 10}, {"1MB", 1 << 20}, {"16MB", 16 << 20}, {"64MB", 64 << 20}};

// Runs a worker's rounds: pushes its lane to each shard, and pulls the values after the round.
void Work(const ForkedPs& ps, const PsJob& job, uint64_t lane, int rounds, int out) {
  Daemon daemon;
  std::vector<std::unique_ptr<Link>> links;
  std::vector<std::unique_ptr<Exchanger>> shards;
  for (size_t i = 0; i < ps.size(); ++i) {
    links.push_back(ps.Dial(daemon.environment().network, i));
    shards.push_back(std::make_unique<Exchanger>(*links.back(), ps.FenceOf(i), job, lane));
  }
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const double begin = Seconds();
    for (const auto& shard : shards) shard->Start(true, true);
    for (const auto& shard : shards) shard->Finish();
    seconds.push_back(Seconds() - begin);
  }
  const double median = Quantile({seconds.begin() + rounds / 10, seconds.end()}, 0.5);
  WriteTo(out, &median, sizeof(median));
}

// Returns the median time of a round in seconds, of the slowest worker.
double Measure(const std::string& link, uint32_t workers, const Size& size, int rounds) {
  PsJob job;
  job.lanes = workers;
  // Large shards get several partitions, as from the partitioner.
  job.partitions = size.bytes / workers > (1 << 20) ? 4 : 1;
  job.partition_bytes = size.bytes / workers / job.partitions;
  const ForkedPs ps(job, link, workers, 1);
  std::vector<std::unique_ptr<Fork>> forks;
  for (uint32_t lane = 0; lane < workers; ++lane) {
    forks.push_back(
        std::make_unique<Fork>([&, lane](int out, int) { Work(ps, job, lane, rounds, out); }));
  }
  double most = 0;
  for (const auto& fork : forks) {
    double median = 0;
    if (!ReadFrom(fork->from(), &median, sizeof(median))) Fail("a worker ended");
    most = std::max(most, median);
  }
  return most;
}

int Main(int argc, char** argv) {
  std::string links = "shared";
  int64_t workers = 2;
  int64_t megabytes = 2000;
  Flags flags("bench_all_reduce", "Adds up gradients of several workers in synchronous rounds.");
  flags.String("links", "LIST", "of shared, unix and tcp", &links);
  flags.Integer("workers", "N", "that have a gradient each, and a shard each", 1, 64, &workers);
  flags.Integer("mb", "N", "megabytes of gradients for each size: 20 to 500 rounds", 1, 1000000,
                &megabytes);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  PrintMachine();
  const std::vector<std::string> link_names = absl::StrSplit(links, ',');
  for (const std::string& link : link_names) {
    std::printf("\n%s, %d workers: a round's milliseconds (median)\n", link.c_str(),
                static_cast<int>(workers));
    for (const Size& size : kSizes) {
      const uint64_t wanted = static_cast<uint64_t>(megabytes) * 1000000 / size.bytes;
      const int rounds = static_cast<int>(std::clamp<uint64_t>(wanted, 20, 500));
      const double ms = Measure(link, static_cast<uint32_t>(workers), size, rounds) * 1e3;
      std::printf("  %-5s %9.3f ms\n", size.name, ms);
      PrintResult(
          {absl::StrCat("all_reduce_", link == "shared" ? "" : link + "_", workers, "_", size.name),
           ms, "ms", false});
    }
  }
  LeaveProcess(0);
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
