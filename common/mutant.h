// Known ways to be wrong, to see that the simulator finds them: `if (MUTANT("name"))` is true only
// while a test has chosen this one. Empty in release builds. Chosen between runs, in one thread.
//   MUTANT("gap_is_already_applied")
#pragma once

#include <string>
#include <string_view>

namespace paracord {

#ifdef PARACORD_FAILPOINTS
// The one that is in force; empty: none.
inline std::string& ChosenMutant() {
  static std::string& chosen = *new std::string;
  return chosen;
}
#define MUTANT(name) (::paracord::ChosenMutant() == std::string_view(name))
#else
#define MUTANT(name) false
#endif

}  // namespace paracord
