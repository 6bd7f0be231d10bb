// Runs several ways of doing a task in turns, so that the noise of the machine hits every way
// alike. Prints medians, quartiles, and the ratio of a way to another, its reference. Not
// thread-safe, but for Seconds and CpuSecondsOf.
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
  std::string against = {};   // name of the way that is the reference; empty: none
  std::string result = {};    // name for --json, such as "pull_16MB"; empty: not printed there
};

struct Timing {
  double median = 0;  // seconds
  double low = 0;     // `low` and `high` are the first and third quartile, in seconds
  double high = 0;
  double cpu = 0;  // median CPU seconds of this process plus those of CountProcess's process
};

double Seconds();              // on a monotonic clock
double CpuSecondsOf(int pid);  // CPU time that process `pid` has used; 0: this process
// Returns the quantile `q` (0.5: the median) of the values, or 0 if there are none.
double Quantile(std::vector<double> values, double q);

// Parses the flags of a benchmark and --json. With --json, standard output gets only the results,
// as JSON, one a line. Returns an exit code if the program must exit: after --help or a wrong flag
// (the help or the error has been printed), or if standard output cannot be redirected for --json.
std::optional<int> ParseBench(Flags& flags, int argc, char** argv);

struct Result {
  std::string name;
  double value = 0;
  std::string unit;
  bool higher_is_better = true;
  // Name of the reference that was measured beside this result, such as raw_tcp; empty: none.
  std::string ratio_to = {};
  double ratio = 0;  // value divided by the reference's value
};
void PrintResult(const Result& result);  // prints nothing without --json

// From now on, Timing::cpu includes the time of process `pid`, and of no process given before.
void CountProcess(int pid);

// Runs each way once untimed, then `rounds` times each way in turn. Returns a timing for each way.
std::vector<Timing> TakeTurns(const std::vector<Way>& ways, int rounds);

// Runs TakeTurns and prints a line for each way, in GB/s if a run of a way moves `bytes` bytes, or
// in microseconds a run if `bytes` is 0. The line has the ratio to the reference, if there is one.
void PrintTurns(const std::string& title, uint64_t bytes, const std::vector<Way>& ways, int rounds);

// Prints a value, its goal, and whether the goal is met; with --json, the value as a result.
enum class Bound { kAtLeast, kAtMost };
void PrintGoal(const std::string& what, double value, Bound bound, double goal,
               const std::string& unit);

// Prints the program's name and `what` to standard error, and exits with code 1.
[[noreturn]] void Fail(const std::string& what);

// Prints a line with the CPU, the number of its cores, the load of the machine and the time.
void PrintMachine();

}  // namespace paracord::bench
