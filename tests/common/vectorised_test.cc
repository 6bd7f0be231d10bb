// Checks by compiler remarks that the hot loops are vectorised (common/vector_widths.h).
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace {

namespace fs = std::filesystem;

const fs::path kSource = PARACORD_SOURCE_DIR;

std::string OutputOf(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  REQUIRE(pclose(pipe) == 0);
  return output;
}

// Returns the build's arguments for a file, without compiler and output.
std::string ArgumentsFor(const fs::path& file) {
  std::ifstream in(fs::path(PARACORD_BIN_DIR).parent_path() / "compile_commands.json");
  for (const auto& entry : nlohmann::json::parse(in)) {
    if (fs::path(entry.at("file").get<std::string>()) != file) continue;
    const std::string command = entry.at("command");
    static const std::regex kFrame(  // clang finds the file for its remarks only by this name
        "^\\S+|-o \\S+|-MF \\S+|-MT \\S+|-MD|-Werror|-ffile-prefix-map=\\S+");
    return "cd " + entry.at("directory").get<std::string>() + " && COMPILER" +
           std::regex_replace(command, kFrame, "") + " -o /dev/null";
  }
  FAIL(file << " is not compiled");
  return "";
}

std::vector<int> MarkedLoops(const fs::path& file) {
  std::vector<int> loops;
  std::ifstream in(file);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.ends_with("  PARACORD_INDEPENDENT")) loops.push_back(number + 1);
  }
  return loops;
}

struct Compiler {
  std::string name;
  std::string report;
  std::string says;                 // text before the width
  std::vector<std::string> widths;  // widths for SSE2, AVX2 and AVX-512, four bytes per element
};

// `times`: how often the first of the loops must be compiled, at least.
[[maybe_unused]] void CheckLoops(const Compiler& compiler, const std::string& path, int times) {
  CAPTURE(compiler.name, path);
  std::string command = ArgumentsFor(kSource / path);
  if (command.find("-fsanitize") != std::string::npos) return;  // sanitizers prevent vectorisation
  command.replace(command.find("COMPILER"), 8, compiler.name);
  const std::string output = OutputOf(command + " " + compiler.report);
  const std::vector<int> loops = MarkedLoops(kSource / path);
  CHECK_FALSE(loops.empty());
  for (const int loop : loops) {
    for (const std::string& width : compiler.widths) {
      CAPTURE(loop, width);
      const std::regex said(path + ":" + std::to_string(loop) + ":[^\n]*" + compiler.says + width +
                            "\\b");
      CHECK(std::distance(std::sregex_iterator(output.begin(), output.end(), said),
                          std::sregex_iterator()) >= (loop == loops.front() ? times : 1));
    }
  }
}

#if defined(__x86_64__)
void CheckAllLoops(const Compiler& compiler) {
  CheckLoops(compiler, "common/finite.cc", 1);
  CheckLoops(compiler, "common/half_float.cc", 1);
  CheckLoops(compiler, "exchange/compression.cc", 1);
  CheckLoops(compiler, "exchange/lane_sum.cc", 1);
  CheckLoops(compiler, "store/update_rules.cc", 15);  // all but FTRL with a power
  for (const char* file : {"cell", "loops", "norm_columns", "walk"}) {
    CheckLoops(compiler, "tensor/cpu/" + std::string(file) + ".cc", 1);
  }
  CheckLoops(compiler, "tensor/cpu/winograd.cc", 1);
}

TEST_CASE("g++ vectorises the loops that are marked, for every width") {
  CheckAllLoops({"g++", "-fopt-info-vec-optimized", "loop vectorized using ", {"16", "32", "64"}});
}

TEST_CASE("clang vectorises the loops that are marked, for every width", "[.slow]") {
  if (std::system("clang++ --version >/dev/null 2>&1") != 0) {
    WARN("not checked: clang++ is not installed");
    return;
  }
  CheckAllLoops({"clang++", "-Rpass=loop-vectorize", "vectorization width: ", {"4", "8", "16"}});
}
#endif

}  // namespace
