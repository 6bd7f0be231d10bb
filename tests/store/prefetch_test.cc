// Looks for prefetch instructions in the built library. A compiler that drops them
// (common/prefetch.h) would cost a table two thirds of its speed without changing any result.
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>

namespace {

// Returns the prefetches of each function in the store's library, by the function's name, with
// those of the helpers that it calls.
std::map<std::string, int> PrefetchesOfFunctions() {
  const std::filesystem::path library =
      std::filesystem::path(PARACORD_BIN_DIR).parent_path() / "libparacord_store.a";
  FILE* const pipe =
      popen(("objdump -drC --no-show-raw-insn " + library.string() + " 2>/dev/null").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  char some[1 << 16];
  for (size_t got = 0; (got = std::fread(some, 1, sizeof some, pipe)) > 0;) {
    output.append(some, got);
  }
  REQUIRE(pclose(pipe) == 0);
  std::map<std::string, int> prefetches;
  int* of = nullptr;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(">:")) {
      of = &prefetches[line.substr(line.find('<'))];
    } else if (of != nullptr && (line.find("\tprefetch") != std::string::npos ||
                                 line.find("\tprfm") != std::string::npos ||
                                 (line.find(": R_") != std::string::npos &&
                                  line.find("::Prefetch(") != std::string::npos))) {
      ++*of;
    }
  }
  return prefetches;
}

TEST_CASE("updates and lookups of tables ask for memory ahead in the built library") {
  struct Expected {
    std::string function;
    int prefetches = 0;
  };
  const std::map<std::string, int> found = PrefetchesOfFunctions();
  // A fixed table prefetches rows, a growing table the index and the record.
  for (const Expected& expected :
       {Expected{"FixedTable::Update", 1}, Expected{"FixedTable::Lookup", 1},
        Expected{"GrowingTable::UpdatePart\\(", 2}, Expected{"GrowingTable::LookupAt\\(", 2}}) {
    CAPTURE(expected.function);
    const std::regex named(expected.function);
    int most = 0;
    for (const auto& [function, prefetches] : found) {
      if (std::regex_search(function, named)) most = std::max(most, prefetches);
    }
    CHECK(most >= expected.prefetches);
  }
}

}  // namespace
