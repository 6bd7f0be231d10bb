// Marks a rare branch, so that a simulation over many seeds can tell that the branch was reached
// and fails if it never was. Empty in release builds. A probe is known from the start of the
// program, whether or not it is ever hit. Counting is thread-safe.
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

// Every probe linked into this program, by name; sites of the same name are added up.
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
  // Not explicit: a string literal becomes the argument of the template below.
  constexpr ProbeName(const char (&literal)[n]) {  // NOLINT(google-explicit-constructor)
    for (size_t i = 0; i < n; ++i) text[i] = literal[i];
  }
};

// A static member of a template is made before main wherever it is named, reached or not.
template <ProbeName name>
struct ProbeSite {
  static inline Probe probe{std::string_view(name.text)};
};

#ifdef PARACORD_FAILPOINTS
#define PROBE(name) ::paracord::ProbeSite<name>::probe.Hit()
#else
#define PROBE(name) ((void)0)
#endif

}  // namespace paracord
