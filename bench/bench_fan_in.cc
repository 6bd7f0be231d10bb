// Measures the throughput of ps as workers are added. Each worker is a process that exchanges
// (pushes and pulls) as fast as possible with one or two real ps, through shared memory, unix
// sockets or TCP.
//   bench_fan_in [--links shared,unix,tcp] [--kb N] [--partitions N] [--ms N] [--rounds N]
#include <algorithm>
#include <cstdio>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/daemon_process.h"
#include "forks.h"
#include "measure.h"
#include "ps_client.h"

namespace paracord::bench {
namespace {

struct Options {
  PsJob job;  // for each ps
  double seconds = 0.4;
  std::string link;
};

// A worker's measurements: seconds of each exchange with all ps, and CPU time.
struct Result {
  double cpu = 0;
  std::vector<double> seconds;
};

void Work(const Options& options, const ForkedPs& ps, uint64_t split, int out, int go) {
  Daemon daemon;
  std::vector<std::unique_ptr<Link>> links;
  std::vector<std::unique_ptr<Exchanger>> exchangers;
  for (size_t i = 0; i < ps.size(); ++i) {
    links.push_back(ps.Dial(daemon.environment().network, i));
    exchangers.push_back(
        std::make_unique<Exchanger>(*links.back(), ps.FenceOf(i), options.job, split));
  }
  const auto exchange = [&] {
    for (const auto& exchanger : exchangers) exchanger->Start(true, true);
    for (const auto& exchanger : exchangers) exchanger->Finish();
  };
  for (int warm = 0; warm < 3; ++warm) exchange();
  char byte = 1;
  WriteTo(out, &byte, 1);
  if (!ReadFrom(go, &byte, 1)) return;
  std::vector<double> seconds;
  const double cpu = CpuSecondsOf(0);
  const double end = Seconds() + options.seconds;
  for (double now = Seconds(); now < end;) {
    exchange();
    const double then = std::exchange(now, Seconds());
    seconds.push_back(now - then);
  }
  const double used = CpuSecondsOf(0) - cpu;
  const uint64_t count = seconds.size();
  WriteTo(out, &used, sizeof(used));
  WriteTo(out, &count, sizeof(count));
  WriteTo(out, seconds.data(), count * sizeof(double));
}

std::vector<Result> RunWorkers(const Options& options, const ForkedPs& ps, int workers,
                               uint64_t& next_split) {
  std::vector<std::unique_ptr<Fork>> forks;
  for (int i = 0; i < workers; ++i) {
    const uint64_t split = next_split++;
    forks.push_back(
        std::make_unique<Fork>([&](int out, int go) { Work(options, ps, split, out, go); }));
  }
  char byte = 0;
  for (const auto& fork : forks) {
    if (!ReadFrom(fork->from(), &byte, 1)) Fail("a worker did not start");
  }
  for (const auto& fork : forks) WriteTo(fork->to(), &byte, 1);
  std::vector<Result> results(forks.size());
  for (size_t i = 0; i < forks.size(); ++i) {
    uint64_t count = 0;
    bool ok = ReadFrom(forks[i]->from(), &results[i].cpu, sizeof(double)) &&
              ReadFrom(forks[i]->from(), &count, sizeof(count));
    results[i].seconds.resize(count);
    ok = ok && ReadFrom(forks[i]->from(), results[i].seconds.data(), count * sizeof(double));
    if (!ok) Fail("a worker ended");
  }
  return results;
}

struct Row {
  std::vector<double> rates;  // total exchanges per second, by round
  std::vector<double> seconds;
  std::vector<double> cpu;  // CPU seconds of workers and ps for an exchange
};

void PrintRows(const Options& options, uint32_t ps_count, int rounds,
               const std::map<int, Row>& rows) {
  const uint64_t step_bytes = options.job.partitions * options.job.partition_bytes * ps_count;
  std::printf("\n%s, %u ps: exchanges of %.3f MB each way (median of %d, quartiles)\n",
              options.link.c_str(), ps_count, static_cast<double>(step_bytes) / 1e6, rounds);
  double best = 0;
  double kept = 1;  // least ratio of a total to the total with fewer workers
  double last = 0;
  for (const auto& [workers, row] : rows) {
    const double rate = Quantile(row.rates, 0.5);
    const auto gb = [&rates = row.rates, step_bytes](double q) {
      return Quantile(rates, q) * 2 * static_cast<double>(step_bytes) / 1e9;
    };
    std::printf(
        "  %d workers  %6.2f GB/s (%.2f - %.2f)  %7.0f updates/s  p50 %7.2f ms  p99 %7.2f ms  "
        "cpu %.2f ms\n",
        workers, gb(0.5), gb(0.25), gb(0.75), rate * options.job.partitions * ps_count,
        Quantile(row.seconds, 0.5) * 1e3, Quantile(row.seconds, 0.99) * 1e3,
        Quantile(row.cpu, 0.5) * 1e3);
    PrintResult({absl::StrCat("fan_in_", options.link, "_", ps_count, "ps_", workers, "workers"),
                 gb(0.5), "GB/s"});
    if (last > 0) kept = std::min(kept, rate / last);
    best = std::max(best, rate);
    last = rate;
  }
  // The goal: throughput never falls with more workers, within the noise.
  const std::string of = absl::StrCat(options.link, ", ", ps_count, " ps: ");
  PrintGoal(of + "least ratio to the total with fewer workers", kept, Bound::kAtLeast, 0.95, "x");
  PrintGoal(of + "most workers beside the best", last / best, Bound::kAtLeast, 0.8, "x");
}

void Measure(const Options& options, uint32_t ps_count, const std::vector<int>& worker_counts,
             int rounds) {
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency() / ps_count));
  const ForkedPs ps(options.job, options.link, ps_count, threads);
  std::map<int, Row> rows;
  uint64_t split = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const int workers : worker_counts) {
      const double before = ps.CpuSeconds();
      const std::vector<Result> results = RunWorkers(options, ps, workers, split);
      double cpu = ps.CpuSeconds() - before;
      Row& row = rows[workers];
      double rate = 0;
      double exchanges = 0;
      for (const Result& result : results) {
        double busy = 0;
        for (const double seconds : result.seconds) busy += seconds;
        rate += static_cast<double>(result.seconds.size()) / busy;
        exchanges += static_cast<double>(result.seconds.size());
        cpu += result.cpu;
        row.seconds.insert(row.seconds.end(), result.seconds.begin(), result.seconds.end());
      }
      row.rates.push_back(rate);
      row.cpu.push_back(cpu / exchanges);
    }
  }
  PrintRows(options, ps_count, rounds, rows);
}

int Main(int argc, char** argv) {
  std::string links = "shared,unix,tcp";
  int64_t kb = 4000;
  int64_t partitions = 4;
  int64_t ms = 400;
  int64_t rounds = 7;
  int64_t workers_max = 8;
  Flags flags("bench_fan_in", "Exchanges with one and two ps from more and more workers.");
  flags.String("links", "LIST", "of shared, unix and tcp", &links);
  flags.Integer("kb", "N", "kilobytes of parameters on each ps", 4, 1000000, &kb);
  flags.Integer("partitions", "N", "in which they lie", 1, 1000, &partitions);
  flags.Integer("ms", "N", "of one measurement", 1, 100000, &ms);
  flags.Integer("workers", "N", "at most", 1, 64, &workers_max);
  flags.Integer("rounds", "N", "repetitions", 1, 1000, &rounds);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  PrintMachine();
  Options options;
  options.job.partitions = static_cast<uint32_t>(partitions);
  options.job.partition_bytes = static_cast<uint64_t>(kb * 1000 / partitions / 4 * 4);
  options.seconds = static_cast<double>(ms) / 1e3;
  std::vector<int> worker_counts;
  for (int workers = 1; workers <= workers_max; workers *= 2) worker_counts.push_back(workers);
  const std::vector<std::string> link_names = absl::StrSplit(links, ',');
  for (const std::string& link : link_names) {
    options.link = link;
    for (const uint32_t ps : {1u, 2u}) {
      Measure(options, ps, worker_counts, static_cast<int>(rounds));
    }
  }
  LeaveProcess(0);
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
