// Runs several ways of doing a task in turns, so that noise of the machine hits every way.
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
  double low = 0;     // first and third quartile
  double high = 0;
  double cpu = 0;  // median CPU seconds of this process and of CountProcess
};

double Seconds();              // on a monotonic clock
double CpuSecondsOf(int pid);  // CPU time used by a process; 0: this process
// Returns the quantile `q` (0.5: median), or 0 without values.
double Quantile(std::vector<double> values, double q);

// Parses the flags and --json, which prints each result as a JSON line instead of tables. Returns
// an exit code if the program must exit after printing help or errors.
std::optional<int> ParseBench(Flags& flags, int argc, char** argv);

struct Result {
  std::string name;
  double value = 0;
  std::string unit;
  bool higher_is_better = true;
  std::string ratio_to = {};  // reference that ran beside it, such as raw_tcp; empty: none
  double ratio = 0;           // value divided by the reference's value
};
void PrintResult(const Result& result);  // prints only with --json

// Adds another process whose CPU time counts.
void CountProcess(int pid);

// Runs each way `rounds` times, in turns.
std::vector<Timing> TakeTurns(const std::vector<Way>& ways, int rounds);

// Runs TakeTurns and prints a line for each way: GB/s of `bytes`, or microseconds if `bytes` is 0,
// and the ratio to `against`.
void PrintTurns(const std::string& title, uint64_t bytes, const std::vector<Way>& ways, int rounds);

// Prints a value, its goal, and whether the goal is met.
enum class Bound { kAtLeast, kAtMost };
void PrintGoal(const std::string& what, double value, Bound bound, double goal,
               const std::string& unit);

// Prints `what` after the program's name, and exits.
[[noreturn]] void Fail(const std::string& what);

// Prints the CPU, its cores and the load. Every output begins with these lines.
void PrintMachine();

}  // namespace paracord::bench
