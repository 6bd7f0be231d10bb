// Operations on tensors refuse what they cannot compute with messages that say why.
#include <catch2/catch.hpp>

#include "keras/build.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

struct OperationCase {
  const char* operation;
  json config;
  size_t operands = 1;
  std::string refused;  // part of the message; empty: the operation is supported
};

// A model of one input (4, 4), which is each operand.
std::string Refused(const OperationCase& of) {
  const json tensor = {{"class_name", "__keras_tensor__"},
                       {"config", {{"shape", {nullptr, 4, 4}}, {"keras_history", {"x", 0, 0}}}}};
  json args = json::array();
  for (size_t i = 0; i < of.operands; ++i) args.push_back(tensor);
  json config = of.config;
  config["name"] = "o";
  const json input = {{"name", "x"}, {"batch_shape", {nullptr, 4, 4}}};
  const json layers = {
      {{"class_name", "InputLayer"},
       {"name", "x"},
       {"config", input},
       {"inbound_nodes", json::array()}},
      {{"class_name", of.operation},
       {"module", "keras.src.ops.numpy"},
       {"name", "o"},
       {"config", config},
       {"inbound_nodes", json::array({{{"args", args}, {"kwargs", json::object()}}})}}};
  const json model = {{"class_name", "Functional"},
                      {"config",
                       {{"name", "m"},
                        {"layers", layers},
                        {"input_layers", json::array({json::array({"x", 0, 0})})},
                        {"output_layers", json::array({json::array({"o", 0, 0})})}}}};
  Batch schema = SchemaOf({4, 4}, {4, 4});
  return std::string(BuildKerasProgram(JobFor(model, "mse"), schema, TestOps()).status().message());
}

const OperationCase kOperationCases[] = {
    {"Argmax", json::object(), 1, "key \"axis\": must be given: the batch stays"},
    {"Argmax", {{"axis", 0}}, 1, "0 is the batch"},
    {"Roll", {{"shift", 1}, {"axis", 1}}, 1, ""},
    {"Roll", {{"shift", 1}}, 1, "key \"axis\": must be given: the batch stays"},
    {"Roll", {{"shift", {1, 2}}, {"axis", {1}}}, 1, "must have a number for each axis"},
    {"Roll", {{"shift", 1}, {"axis", 3}}, 1, "3 is no axis"},
};

TEST_CASE("operations on tensors refuse what they cannot compute and say why") {
  for (const OperationCase& of : kOperationCases) {
    CAPTURE(of.operation, of.config.dump(), of.refused);
    const std::string refused = Refused(of);
    if (of.refused.empty()) {
      CHECK(refused.find(of.operation) == std::string::npos);
    } else {
      CHECK_THAT(refused, Catch::Contains(of.refused));
    }
  }
}

}  // namespace
}  // namespace paracord
