// Known bugs that the simulator must find: `if (MUTANT("name"))` is true only while a test has
// chosen that mutant. Always false in release builds. Chosen between runs, in one thread.
//   MUTANT("gap_is_already_applied")
#pragma once

#include <string>
#include <string_view>

namespace paracord {

#ifdef PARACORD_FAILPOINTS
// The chosen mutant; empty if there is none.
inline std::string& ChosenMutant() {
  static std::string& chosen = *new std::string;
  return chosen;
}
#define MUTANT(name) (::paracord::ChosenMutant() == std::string_view(name))
#else
#define MUTANT(name) false
#endif

}  // namespace paracord
