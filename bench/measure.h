// Runs several ways of doing a task in turns, so that noise of the machine hits every way alike.
// Prints medians and quartiles, and the ratio of each way to its reference. One thread.
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
  std::function<void()> run;  // also run once untimed, before the first round
  std::string against = {};   // name of the reference way; empty: none
  std::string result = {};    // name of the result for --json, such as "pull_16MB"; empty: none
};

struct Timing {
  double median = 0;  // seconds
  double low = 0;     // `low` and `high` are the first and third quartile, in seconds
  double high = 0;
  double cpu = 0;  // median CPU seconds, of this process and that of CountProcess
};

double Seconds();              // on a monotonic clock
double CpuSecondsOf(int pid);  // CPU time used by a process; 0: this process
// Returns the quantile `q` of the values (0.5: the median), or 0 if there are none.
double Quantile(std::vector<double> values, double q);

// Parses the flags and --json, with which results are printed as JSON, one a line, instead of
// tables. Returns an exit code if the program must exit now, because of --help or an error, which
// it has printed.
std::optional<int> ParseBench(Flags& flags, int argc, char** argv);

struct Result {
  std::string name;
  double value = 0;
  std::string unit;
  bool higher_is_better = true;
  // Name of the reference that ran beside it, such as raw_tcp; empty: none.
  std::string ratio_to = {};
  double ratio = 0;  // value divided by the reference's value
};
void PrintResult(const Result& result);  // prints nothing without --json

// CPU times include process `pid` from now on, in place of one given before.
void CountProcess(int pid);

// Runs each way once untimed, then each way `rounds` times, in turns.
std::vector<Timing> TakeTurns(const std::vector<Way>& ways, int rounds);

// Runs TakeTurns and prints a line for each way, with the ratio to `against`: GB/s, where a run of
// a way moves `bytes`; or microseconds for a run if `bytes` is 0.
void PrintTurns(const std::string& title, uint64_t bytes, const std::vector<Way>& ways, int rounds);

// Prints a value, its goal, and whether the goal is met; with --json, the value as a result.
enum class Bound { kAtLeast, kAtMost };
void PrintGoal(const std::string& what, double value, Bound bound, double goal,
               const std::string& unit);

// Prints `what` after the program's name, and exits with code 1.
[[noreturn]] void Fail(const std::string& what);

// Prints a line with the CPU, its cores, the load and the time, with which every output begins.
void PrintMachine();

}  // namespace paracord::bench
