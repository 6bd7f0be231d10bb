// Counts how often a rare branch is taken. Tests of the simulation fail if a probe of the
// coordinator, the ps or the simulation was never hit in the tests, unless they list the probe as
// out of reach. A probe is registered before main, whether or not its branch is ever taken.
// Counting is thread-safe, and cheap enough for rare branches in every build.
//   PROBE("ps.push.gap");
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace paracord {

struct ProbeCount {
  std::string_view name;
  uint64_t hits;
};

// Returns a ProbeCount for each name, sorted by name. Probes with equal names are counted together.
std::vector<ProbeCount> ProbeCounts();

class Probe {
 public:
  explicit Probe(std::string_view name);
  void Hit() { hits_.fetch_add(1, std::memory_order_relaxed); }
  std::string_view name() const { return name_; }
  uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }

 private:
  const std::string_view name_;
  std::atomic<uint64_t> hits_{0};
};

template <size_t n>
struct ProbeName {
  char text[n] = {};
  // Implicit, because PROBE passes a string literal as the argument of the template below.
  constexpr ProbeName(const char (&literal)[n]) {  // NOLINT(google-explicit-constructor)
    for (size_t i = 0; i < n; ++i) text[i] = literal[i];
  }
};

// The static member of an instantiated template is constructed before main.
template <ProbeName name>
struct ProbeSite {
  static inline Probe probe{std::string_view(name.text)};
};

#define PROBE(name) ::paracord::ProbeSite<name>::probe.Hit()

}  // namespace paracord
