// How the benchmarks measure: several ways of doing the same work take turns within one run, so
// that a noisy machine disturbs all of them alike; the median and the range are printed, and each
// way's ratio to the one it is compared with. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/flags.h"

namespace paracord::bench {

struct Way {
  std::string name;
  std::function<void()> run;  // once; not timed before the first round
  std::string against = {};   // name of the way it is compared with; empty: none
  std::string result = {};    // name of what it measures, for --json: "pull_16MB"; empty: none
};

struct Timing {
  double median = 0;  // seconds
  double low = 0;     // first and third quartile
  double high = 0;
  double cpu = 0;  // median of processor seconds, of this process and the one it works with
};

double Seconds();                                       // of a clock that only goes forward
double CpuSecondsOf(int pid);                           // that a process has used; 0: this one
double Quantile(std::vector<double> values, double q);  // 0.5: the median; 0 of none

// Parses the flags and --json, which has results printed, one JSON object a line, instead of
// tables; prints help or problems and gives the exit code to leave with.
std::optional<int> ParseBench(Flags& flags, int argc, char** argv);

struct Result {
  std::string name;
  double value = 0;
  std::string unit;
  bool higher_is_better = true;
  std::string ratio_to = {};  // a peer or a limit that ran beside it, such as raw_tcp; empty: none
  double ratio = 0;           // of the value to its
};
void PrintResult(const Result& result);  // only with --json

// Another process whose processor time counts.
void CountProcess(int pid);

// Each way `rounds` times, in turns.
std::vector<Timing> TakeTurns(const std::vector<Way>& ways, int rounds);

// TakeTurns and a table: one line a way, GB/s of `bytes` (0: microseconds), ratio to `against`.
void PrintTurns(const std::string& title, uint64_t bytes, const std::vector<Way>& ways, int rounds);

// One line: what was measured, what it should be at least or at most, and whether it is.
enum class Bound { kAtLeast, kAtMost };
void PrintGoal(const std::string& what, double value, Bound bound, double goal,
               const std::string& unit);

// Processor, cores, what else runs: the first lines of every output.
void PrintMachine();

}  // namespace paracord::bench
