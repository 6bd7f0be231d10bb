#include "measure.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <thread>

#include "common/json_text.h"
#include "nlohmann/json.hpp"

namespace paracord::bench {
namespace {

int peer_pid = 0;

FILE* results = nullptr;  // receives results with --json; otherwise null

// Turns "raw TCP" into "raw_tcp".
std::string Slug(const std::string& text) {
  std::string slug;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!slug.empty() && slug.back() != '_') {
      slug += '_';
    }
  }
  return slug;
}

double CpuSeconds() { return CpuSecondsOf(0) + (peer_pid != 0 ? CpuSecondsOf(peer_pid) : 0); }

}  // namespace

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double CpuSecondsOf(int pid) {
  clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
  timespec spent{};
  if (pid != 0 && clock_getcpuclockid(pid, &clock) != 0) return 0;
  if (clock_gettime(clock, &spent) != 0) return 0;
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(at), values.end());
  return values[at];
}

std::optional<int> ParseBench(Flags& flags, int argc, char** argv) {
  bool json = false;
  flags.Switch("json", "one JSON object a line for each result, instead of tables", &json);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const absl::Status parsed = flags.Parse(arguments);
  if (!parsed.ok() || flags.help_wanted()) {
    std::printf("%s\n", parsed.ok() ? flags.Help().c_str() : std::string(parsed.message()).c_str());
    return parsed.ok() ? 0 : 2;
  }
  if (json) {
    results = fdopen(dup(STDOUT_FILENO), "w");
    if (results == nullptr || freopen("/dev/null", "w", stdout) == nullptr) return 1;
  }
  return std::nullopt;
}

void PrintResult(const Result& result) {
  if (results == nullptr) return;
  nlohmann::ordered_json object = {{"name", result.name},
                                   {"value", result.value},
                                   {"unit", result.unit},
                                   {"higher_is_better", result.higher_is_better}};
  if (!result.ratio_to.empty()) {
    object["ratio_to"] = result.ratio_to;
    object["ratio"] = result.ratio;
  }
  std::fprintf(results, "%s\n", TextOf(object).c_str());
  std::fflush(results);
}

void CountProcess(int pid) { peer_pid = pid; }

std::vector<Timing> TakeTurns(const std::vector<Way>& ways, int rounds) {
  std::vector<std::vector<double>> times(ways.size());
  std::vector<std::vector<double>> cpus(ways.size());
  for (const Way& way : ways) way.run();
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      const double cpu = CpuSeconds();
      const double begin = Seconds();
      ways[i].run();
      times[i].push_back(Seconds() - begin);
      cpus[i].push_back(CpuSeconds() - cpu);
    }
  }
  std::vector<Timing> timings;
  for (size_t i = 0; i < ways.size(); ++i) {
    timings.push_back({Quantile(times[i], 0.5), Quantile(times[i], 0.25), Quantile(times[i], 0.75),
                       Quantile(cpus[i], 0.5)});
  }
  return timings;
}

void PrintTurns(const std::string& title, uint64_t bytes, const std::vector<Way>& ways,
                int rounds) {
  const std::vector<Timing> timings = TakeTurns(ways, rounds);
  std::printf("\n%s (%s; median of %d, quartiles)\n", title.c_str(),
              bytes == 0 ? "microseconds" : "GB/s", rounds);
  for (size_t i = 0; i < ways.size(); ++i) {
    const auto shown = [bytes](double seconds) {
      return bytes == 0 ? seconds * 1e6 : static_cast<double>(bytes) / seconds / 1e9;
    };
    const Timing& t = timings[i];
    std::printf("  %-28s %9.2f  (%.2f - %.2f)  cpu %.0f us", ways[i].name.c_str(), shown(t.median),
                std::min(shown(t.low), shown(t.high)), std::max(shown(t.low), shown(t.high)),
                t.cpu * 1e6);
    Result result{ways[i].result, shown(t.median), bytes == 0 ? "us" : "GB/s", bytes != 0};
    for (size_t k = 0; k < ways.size() && !ways[i].against.empty(); ++k) {
      if (ways[k].name != ways[i].against) continue;
      result.ratio_to = Slug(ways[k].name);
      result.ratio = result.value / shown(timings[k].median);
      std::printf("   %.2fx %s", result.ratio, ways[k].name.c_str());
    }
    std::printf("\n");
    std::fflush(stdout);
    if (!result.name.empty()) PrintResult(result);
  }
}

void PrintGoal(const std::string& what, double value, Bound bound, double goal,
               const std::string& unit) {
  const bool met = bound == Bound::kAtLeast ? value >= goal : value <= goal;
  std::printf("  goal: %s %.4g %s, %s %.4g: %s\n", what.c_str(), value, unit.c_str(),
              bound == Bound::kAtLeast ? "at least" : "at most", goal, met ? "met" : "MISSED");
  std::fflush(stdout);
  PrintResult({Slug(what), value, unit, bound == Bound::kAtLeast});
}

void Fail(const std::string& what) {
  std::cerr << program_invocation_short_name << ": " << what << "\n";
  std::_Exit(1);
}

void PrintMachine() {
  std::ifstream cpus("/proc/cpuinfo");
  std::string line;
  std::string model = "unknown processor";
  while (std::getline(cpus, line)) {
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  }
  double load = 0;
  getloadavg(&load, 1);
  const time_t now = time(nullptr);
  char date[32];
  strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", gmtime(&now));
  std::printf("%s, %u cores, load %.1f at the start, %s\n", model.c_str(),
              std::thread::hardware_concurrency(), load, date);
}

}  // namespace paracord::bench
