// Marks a rare branch. The simulation's tests fail if their seeds miss a probe of the coordinator,
// the ps or the simulation, unless they list it as out of reach. A probe is registered before main,
// whether or not any code reaches it. Counting is thread-safe, and cheap enough for rare branches
// in every build.
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

// Every probe linked into this program, sorted by name. Probes of equal names are counted together.
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
  // Implicit, because a string literal is converted to the argument of the template below.
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
