#include "store/initial_weights.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "storage/safetensors.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

std::vector<VariableSpec> Variables(const std::vector<std::string>& names) {
  std::vector<VariableSpec> variables(names.size());
  for (size_t i = 0; i < names.size(); ++i) variables[i].set_name(names[i]);
  return variables;
}

// Returns the tensor's name for each variable, or the error.
std::string Found(const std::vector<std::string_view>& tensors,
                  const std::vector<std::string>& variables) {
  const auto found = FindVariables(tensors, Variables(variables));
  if (!found.ok()) return std::string(found.status().message());
  std::string all;
  for (const size_t tensor : *found) {
    all += std::string(tensors[tensor]) + " ";
  }
  return all;
}

TEST_CASE("variables are found by their names, Keras' paths, and with the number of an output") {
  CHECK(Found({"b", "a"}, {"a", "b"}) == "a b ");
  CHECK(Found({"d/kernel:0", "d/bias:0"}, {"d/bias", "d/kernel"}) == "d/bias:0 d/kernel:0 ");
  CHECK(Found({"sequential/d/kernel", "sequential/d/bias"}, {"d/kernel", "d/bias"}) ==
        "sequential/d/kernel sequential/d/bias ");
  CHECK(Found({"feat/kernel", "d/kernel"}, {"backbone/feat/kernel", "d/kernel"}) ==
        "feat/kernel d/kernel ");
  CHECK(Found({"a/s/variable", "t/variable_12"}, {"t/gamma", "s/gamma"}) ==
        "t/variable_12 a/s/variable ");
  CHECK(Found({"variables/kernel"}, {"kernel"}) == "variables/kernel ");
  CHECK(Found({"d/kernel", "d/kernel:0"}, {"d/kernel"}) == "d/kernel ");
  CHECK(Found({"d/kernel:0", "d/kernel"}, {"d/kernel"}) == "d/kernel ");
  // A tensor with the name of a variable fits no other variable.
  CHECK(Found({"inner/d/kernel", "d/kernel"}, {"d/kernel", "inner/d/kernel"}) ==
        "d/kernel inner/d/kernel ");
  CHECK(Found({"d/kernel"}, {"d/kernel", "inner/d/kernel"}) ==
        "holds no tensor inner/d/kernel; there is: d/kernel");
}

TEST_CASE("where no tensor or more than one could be a variable the error says what there is") {
  CHECK(Found({"a/kernel"}, {"d/bias"}) == "holds no tensor d/bias; there is: a/kernel");
  CHECK(Found({}, {"d/bias"}) == "holds no tensor d/bias");
  CHECK(Found({"x/d/kernel", "y/d/kernel"}, {"d/kernel"}) ==
        "holds no tensor d/kernel, but x/d/kernel and y/d/kernel, which end alike");
  CHECK(Found({"d/kernel"}, {"a/d/kernel", "b/d/kernel"}) ==
        "tensor d/kernel could be several variables: name it as validate does");
  // A suffix, but no path.
  CHECK(Found({"bd/kernel"}, {"d/kernel"}).find("holds no tensor d/kernel") == 0);
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("layer_" + std::to_string(100 + i) + "/kernel");
  CHECK(Found({names.begin(), names.end()}, {"x"})
            .find("; it holds layer_100/kernel, layer_101/kernel, ") != std::string::npos);
}

TEST_CASE("a file that does not fit is refused before anything is read") {
  TestDirectory directory;
  PosixFiles files;
  Job job;
  std::vector<VariableSpec> variables = Variables({"v"});
  variables[0].add_shape(2);
  const auto error = [&](const std::string& header, const std::string& bytes) {
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size());
    job.initial_weights.file = directory / "w";
    REQUIRE(files.WriteAtomic(directory / "w", length + header + bytes).ok());
    const auto weights = InitialWeights::Open(files, job, variables);
    return weights.ok() ? "" : std::string(weights.status().message());
  };
  CHECK(InitialWeights::Open(files, job, variables).value() == nullptr);
  const std::string where = "initial_weights: " + (directory / "w") + ": ";
  CHECK(error(R"({"v":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}})", std::string(16, 0))
            .empty());
  CHECK(error(R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd") ==
        where + "tensor v has shape (1), the variable's is (2)");
  CHECK(error(R"({"v":{"dtype":"C64","shape":[2],"data_offsets":[0,16]}})", std::string(16, 0)) ==
        where + "tensor v is C64, which is no number");
  CHECK(error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd") ==
        where +
            "holds no tensor v; there is: w; to draw what the file lacks, write {\"file\": "
            "..., \"partial\": true}");
  job.initial_weights.partial = true;
  CHECK(error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd") ==
        where + "holds no variable of the model: it holds no tensor v; there is: w");
  CHECK(error(R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd") ==
        where +
            "tensor v has shape (1), the variable's is (2); give the layer another name to "
            "have it drawn");
  variables.push_back(Variables({"head/kernel"})[0]);
  CHECK(error(R"({"v":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}})", std::string(16, 0))
            .empty());
  const auto part = InitialWeights::Open(files, job, variables).value();
  CHECK(part->Has(0));
  CHECK_FALSE(part->Has(1));
  CHECK(part->Drawn(variables) ==
        "initial_weights: 1 of 2 variables are from the file; drawn: head/kernel");
  CHECK(part->CheckFinite().ok());
  variables.pop_back();
  CHECK(InitialWeights::Open(files, job, variables).value()->Drawn(variables).empty());
  job.initial_weights.partial = false;
  CHECK(error("\x89HDF", "") == where + "the header does not begin with {");
  const auto finite = [&](float second) {
    const float values[] = {1, second};
    const std::string_view bytes(reinterpret_cast<const char*>(values), sizeof(values));
    CHECK(error(R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", std::string(bytes))
              .empty());
    const auto weights = InitialWeights::Open(files, job, variables).value();
    const Block block(2);
    CHECK(weights->Read(0, 0, block) == weights->CheckFinite());
    return std::string(weights->CheckFinite().message());
  };
  CHECK(finite(2).empty());
  CHECK(finite(std::numeric_limits<float>::quiet_NaN()) ==
        where + "tensor v: element 1 is nan, as float32");
}

TEST_CASE("a tensor that was meant for a growing table is no rows of it unless it says so") {
  TestDirectory directory;
  PosixFiles files;
  Job job;
  std::vector<VariableSpec> variables = Variables({"user.weight", "dense/kernel"});
  for (VariableSpec& variable : variables) {
    variable.add_shape(2);
    variable.add_shape(1);
  }
  variables[0].mutable_table()->set_kind(TableSpec::GROWING);
  job.initial_weights.file = directory / "w";
  const auto error = [&](const std::vector<std::string>& names) {
    std::string header = "{", bytes;
    for (const std::string& name : names) {
      const bool ids = name.ends_with("ids");
      const size_t begin = bytes.size();
      bytes += ids ? std::string(1, '\1') + std::string(7, 0) + "\2" + std::string(7, 0)
                   : std::string(8, 0);
      header += absl::StrCat(header.size() > 1 ? "," : "", "\"", name, "\":{\"dtype\":\"",
                             ids ? "I64\",\"shape\":[2]" : "F32\",\"shape\":[2,1]",
                             ",\"data_offsets\":[", begin, ",", bytes.size(), "]}");
    }
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size());
    length[1] = static_cast<char>(header.size() >> 8);
    REQUIRE(files.WriteAtomic(directory / "w", length + header + bytes).ok());
    const auto weights = InitialWeights::Open(files, job, variables);
    return weights.ok() ? "" : std::string(weights.status().message());
  };
  job.initial_weights.partial = GENERATE(false, true);
  CHECK(error({"dense/kernel", "user.weight"}) ==
        "initial_weights: " + (directory / "w") +
            ": tensor user.weight gives the growing table user.weight no rows: write these as "
            "user.weight/rows, and their ids, ascending, as user.weight/ids of I64 (as `paracord "
            "export` does), or leave the tensor out to have them drawn");
  CHECK(error({"dense/kernel", "people.weight/ids", "people.weight/rows"}).empty());
  CHECK(InitialWeights::Open(files, job, variables).value()->Drawn(variables) ==
        "initial_weights: 1 of 2 variables are from the file; drawn: user.weight; tensors of the "
        "file that no variable takes: people.weight/ids, people.weight/rows");
  for (const std::string name : {"user.weight:0", "user", "model/user.weight", "user/rows"}) {
    CAPTURE(name);
    CHECK(absl::StrContains(error({"dense/kernel", name}),
                            "tensor " + name + " gives the growing table user.weight no rows"));
  }
  CHECK(error({"dense/kernel"}) == "");
  CHECK(error({"dense/kernel", "user2.weight", "us", "weight"}) == "");
  CHECK(error({"dense/kernel", "user.weight", "user.weight/ids", "user.weight/rows"}) == "");
  variables.push_back(variables[1]);
  variables[2].set_name("user");  // a tensor has this name
  CHECK(error({"dense/kernel", "user"}) == "");
}

}  // namespace
}  // namespace paracord
