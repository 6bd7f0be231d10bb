// Tests which classes in a model file count as Keras' own.
#include "config/keras_class.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

using nlohmann::json;

TEST_CASE(
    "a class that is not Keras' own has the name it was registered by, whatever it is called") {
  const auto name = [](const char* module, const json& registered) {
    return KerasClass(
        {{"class_name", "Dense"}, {"module", module}, {"registered_name", registered}});
  };
  CHECK(name("keras.layers", nullptr) == "Dense");
  CHECK(name("keras.src.models.functional", "Dense") == "Dense");
  CHECK(name("tf_keras.src.layers", nullptr) == "Dense");
  CHECK(name("tensorflow.python.keras.layers", nullptr) == "Dense");
  CHECK(name("builtins", "function") == "Dense");
  CHECK(name("", nullptr) == "Dense");
  CHECK(name("__main__", "pkg>Dense") == "pkg>Dense");
  CHECK(name("keras.layers", "pkg>Dense") == "pkg>Dense");
  CHECK(name("kerasy.layers", "Dense") == "kerasy.layers>Dense");
  CHECK(name("keras_rs.src.layers", "keras_rs>FeatureCross") == "FeatureCross");
  CHECK(KerasClass({{"class_name", "Dense"}}) == "Dense");
  const auto without_module = [](const json& registered) {
    return KerasClass(
        {{"class_name", "Dense"}, {"module", nullptr}, {"registered_name", registered}});
  };
  CHECK(without_module("Dense") == "unregistered>Dense");
  CHECK(without_module(nullptr) == "Dense");
  for (const json& without : {json(), json("Dense"), json{{"class_name", 3}}, json::array()}) {
    CHECK(KerasClass(without).empty());
  }
}

}  // namespace
}  // namespace paracord
