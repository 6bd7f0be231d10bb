// The files of this folder, for tests.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "nlohmann/json.hpp"

namespace paracord {

// In the tree that the test was built from, or else below the current folder: programs that are
// carried to another machine (one with a GPU) run at the root of a checkout.
inline std::string GoldenPath(const std::string& name) {
  const std::string path = std::string(PARACORD_SOURCE_DIR) + "/tests/golden/" + name;
  return std::filesystem::exists(path) ? path : "tests/golden/" + name;
}

inline nlohmann::json GoldenJson(const std::string& name) {
  std::ifstream file(GoldenPath(name));
  INFO(name);
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

}  // namespace paracord
