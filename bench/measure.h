// Lets several ways of doing the same work take turns within one run, so that
// noise from the machine hits all of them. Medians and quartiles are printed, and the ratio of each
// way to the one it is compared with. One thread.
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
  std::function<void()> run;  // run once untimed before the first round
  std::string against = {};   // name of the way it is compared with; empty: none
  std::string result = {};    // name of what it measures, for --json: "pull_16MB"; empty: none
};

struct Timing {
  double median = 0;  // seconds
  double low = 0;     // first and third quartile
  double high = 0;
  double cpu = 0;  // median of processor seconds, of this process and the one it works with
};

double Seconds();              // of a monotonic clock
double CpuSecondsOf(int pid);  // that a process has used; 0: this process
// 0.5 gives the median; 0 if there are no values
double Quantile(std::vector<double> values, double q);

// Parses the flags and --json, which prints results as one JSON object a line instead of tables. If
// it prints help or problems, it returns the exit code to leave with.
std::optional<int> ParseBench(Flags& flags, int argc, char** argv);

struct Result {
  std::string name;
  double value = 0;
  std::string unit;
  bool higher_is_better = true;
  std::string ratio_to = {};  // a reference that ran beside it, such as raw_tcp; empty: none
  double ratio = 0;           // of the value to the reference's
};
void PrintResult(const Result& result);  // only with --json

// Adds another process whose processor time counts.
void CountProcess(int pid);

// Runs each way `rounds` times, in turns.
std::vector<Timing> TakeTurns(const std::vector<Way>& ways, int rounds);

// Runs TakeTurns and prints a table: one line for each way with GB/s of `bytes` (0: microseconds)
// and the ratio to `against`.
void PrintTurns(const std::string& title, uint64_t bytes, const std::vector<Way>& ways, int rounds);

// Prints one line: what was measured, the goal, and whether it is met.
enum class Bound { kAtLeast, kAtMost };
void PrintGoal(const std::string& what, double value, Bound bound, double goal,
               const std::string& unit);

// Prints `what` after the program's name and leaves the process.
[[noreturn]] void Fail(const std::string& what);

// Prints the processor, its cores, and what else runs; the first lines of every output.
void PrintMachine();

}  // namespace paracord::bench
