// Tests what `paracord scale` refuses before it asks a coordinator.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/cli/ran.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE("scale wants a number of ps, and one coordinator whose address leads to it") {
  TestDirectory directory;
  const std::string dir = directory.path();
  const auto said = [](const std::vector<std::string>& args) {
    const Ran ran = Run(RunScale, args);
    CHECK(ran.code == 2);
    return ran.err;
  };
  CHECK(Has(said({"--dir", dir}), "--ps is missing"));
  CHECK(Has(said({"--ps", "2"}), "give either --address or --dir"));
  CHECK(Has(said({"--ps", "2", "--dir", dir, "--address", "unix:/a"}), "give either"));
  CHECK(Has(said({"--ps", "2", "--dir", dir}), dir + "/coordinator.address is not there"));
  for (const std::string every : {"0.0.0.0:7400", "[::]:7400"}) {
    directory.Write("coordinator.address", every + "\n");
    CHECK(Has(said({"--ps", "2", "--dir", dir}),
              "/coordinator.address has " + every +
                  ", at which the coordinator listens, and which "
                  "names no machine: give --address with the name"));
  }
  directory.Write("coordinator.address", "10.1.2.3:7400\n");
  CHECK(Has(said({"--ps", "2", "--dir", dir}), "10.1.2.3:7400 is on another machine"));
}

}  // namespace
}  // namespace paracord
