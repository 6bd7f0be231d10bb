// Operations refuse tensors that they cannot compute, with the reason.
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
  std::string refused;  // part of the message; empty: supported
};

// Returns the refusal of an operation whose operands are all one input (4, 4).
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
    {"Einsum", {{"subscripts", "bij,bjk->bik"}}, 2, ""},
    {"Einsum", {{"subscripts", "bij->bji"}}, 1, ""},
    {"Einsum", {{"subscripts", "bij,bjk->bik"}}, 1, "is of 2 tensors, not of 1"},
    {"Einsum", {{"subscripts", "bij,bjk"}}, 2, "must be of the form"},
    {"Einsum", {{"subscripts", "b1j->bj"}}, 1, "must be of the form"},
    {"Einsum", {{"subscripts", "bij->ijb"}}, 1, "must leave the batch in front"},
    {"Einsum", {{"subscripts", "bij->ij"}}, 1, "must leave the batch in front"},
    {"Einsum", {{"subscripts", "bbj->bj"}}, 1, "has two sizes for an axis"},
    {"Einsum", {{"subscripts", "bi->bi"}}, 1, "names other axes"},
    {"Einsum", {{"subscripts", "bij->bik"}}, 1, "has an axis of the result that no input has"},
    {"Einsum", {{"subscripts", "bij->bii"}}, 1, "has an axis of the result twice"},
    {"Einsum", {{"subscripts", "b...->b"}}, 1, "has to have ... in the result, too"},
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
