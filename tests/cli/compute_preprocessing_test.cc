// Tests `paracord compute` on models with strings and large integers as inputs.
#include <catch2/catch.hpp>
#include <cstring>
#include <sstream>

#include "cli/commands.h"
#include "cli/tensor_file.h"
#include "common/json_text.h"
#include "nlohmann/json.hpp"
#include "tests/example_job.h"

namespace paracord {
namespace {

using nlohmann::json;

struct RawTensor {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

template <class T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// A model that looks up a string and an id, concatenates the one-hot vectors, and applies a Dense.
struct Mixed {
  Mixed() {
    const auto tensor = [](const char* layer) {
      return json{{"class_name", "__keras_tensor__"},
                  {"config", {{"keras_history", {layer, 0, 0}}}}};
    };
    const auto layer = [](const char* class_name, json config, json args) {
      const json name = config["name"];
      json nodes = json::array();
      if (!args.is_null()) nodes.push_back({{"args", args}, {"kwargs", json::object()}});
      return json{{"class_name", class_name},
                  {"config", std::move(config)},
                  {"name", name},
                  {"inbound_nodes", nodes}};
    };
    const json one_hot = "one_hot";
    const json model = {
        {"class_name", "Functional"},
        {"config",
         {{"name", "m"},
          {"layers",
           {layer("InputLayer",
                  {{"name", "word"}, {"dtype", "string"}, {"batch_shape", {nullptr, 1}}}, nullptr),
            layer("InputLayer", {{"name", "id"}, {"dtype", "int64"}, {"batch_shape", {nullptr, 1}}},
                  nullptr),
            layer("StringLookup",
                  {{"name", "words"}, {"vocabulary", {"grün", "b"}}, {"output_mode", one_hot}},
                  json::array({tensor("word")})),
            layer("IntegerLookup",
                  {{"name", "ids"}, {"vocabulary", {1099511627777}}, {"output_mode", one_hot}},
                  json::array({tensor("id")})),
            layer("Concatenate", {{"name", "join"}},
                  json::array({json::array({tensor("words"), tensor("ids")})})),
            layer("Dense", {{"name", "d"}, {"units", 1}, {"use_bias", false}},
                  json::array({tensor("join")}))}},
          {"input_layers", {{"word", 0, 0}, {"id", 0, 0}}},
          {"output_layers", {"d", 0, 0}}}},
        {"compile_config", {{"loss", "mse"}, {"optimizer", "sgd"}}}};
    example.Write("model.json", TextOf(model));
    Write("w", {{"d/kernel", "F32", {5, 1}, Bytes<float>({1, 2, 3, 10, 20})}});
  }
  void Write(const std::string& name, const std::vector<RawTensor>& tensors) {
    json header = json::object();
    std::string data;
    for (const RawTensor& t : tensors) {
      header[t.name] = {{"dtype", t.dtype},
                        {"shape", t.shape},
                        {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
      data += t.bytes;
    }
    const std::string text = TextOf(header);
    const uint64_t length = text.size();
    example.Write(name, Bytes<uint64_t>({length}) + text + data);
  }
  int Run() {
    const std::vector<std::string> args = {
        example.path("model.json"), "--weights", example.path("w"), "--batch",
        example.path("b"),          "--out",     example.path("o")};
    std::ostringstream out, err_stream;
    const int code = RunCompute(args, out, err_stream);
    err = err_stream.str();
    return code;
  }
  ExampleJob example;
  std::string err;
};

const RawTensor kIds{"inputs/id", "I64", {2, 1}, Bytes<int64_t>({1099511627777, 1099511627776})};
const RawTensor kTargets{"targets", "F32", {2, 1}, Bytes<float>({0, 0})};

TEST_CASE("compute takes strings as bytes and whole numbers as they are") {
  Mixed mixed;
  mixed.Write("b", {{"inputs/word", "U8", {2, 1, 6}, std::string("gr\xc3\xbcn\0?\0\0\0\0\0", 12)},
                    kIds,
                    kTargets});
  REQUIRE(mixed.Run() == 0);
  const auto tensors = ReadTensors(mixed.example.files, mixed.example.path("o"));
  REQUIRE(tensors.ok());
  for (const ReadTensor& tensor : *tensors) {
    if (tensor.name == "output") CHECK(tensor.values == std::vector<float>{2 + 20, 1 + 10});
  }
}

TEST_CASE("tensors that are no strings where the model takes strings are refused") {
  Mixed mixed;
  const RawTensor bad[] = {{"inputs/word", "F32", {2, 1}, Bytes<float>({1, 2})},
                           {"inputs/word", "U8", {2}, "ab"},
                           {"inputs/word", "U8", {2, 1, 0}, ""}};
  for (const RawTensor& word : bad) {
    mixed.Write("b", {word, kIds, kTargets});
    CHECK(mixed.Run() == 2);
    CHECK(mixed.err.find("tensor inputs/word is") != std::string::npos);
  }
  mixed.Write("b", {{"inputs/word", "U8", {2, 1, 1}, "ab"},
                    {"inputs/id", "F32", {2, 1}, Bytes<float>({1, 1e9f})},
                    kTargets});
  CHECK(mixed.Run() == 2);
  CHECK(mixed.err.find("beyond 2^24") != std::string::npos);
}

}  // namespace
}  // namespace paracord
