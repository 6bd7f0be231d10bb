// Small models in Keras' format, and arrays in NumPy's, for the tests of `paracord init`.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"

namespace paracord {

inline nlohmann::json KerasInput(const std::string& name, int size, const std::string& dtype) {
  return {{"class_name", "InputLayer"},
          {"config", {{"name", name}, {"batch_shape", {nullptr, size}}, {"dtype", dtype}}},
          {"name", name},
          {"inbound_nodes", nlohmann::json::array()}};
}

inline nlohmann::json LayerCall(const std::string& class_name, nlohmann::json config,
                                const std::vector<std::string>& inputs) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const std::string& input : inputs) nodes.push_back({input, 0, 0, nlohmann::json::object()});
  const std::string name = config["name"];
  return {{"class_name", class_name},
          {"config", std::move(config)},
          {"name", name},
          {"inbound_nodes", nlohmann::json::array({nodes})}};
}

// A model of `numbers` inputs in one InputLayer, of unknown many with 0.
inline std::string DenseModel(int numbers) {
  const nlohmann::json size = numbers == 0 ? nlohmann::json() : nlohmann::json(numbers);
  return TextOf(nlohmann::json{
      {"class_name", "Sequential"},
      {"config",
       {{"name", "s"},
        {"layers",
         {{{"class_name", "InputLayer"},
           {"config", {{"name", "in"}, {"batch_shape", {nullptr, size}}}}},
          {{"class_name", "Dense"}, {"config", {{"name", "out"}, {"units", 1}}}}}}}}});
}

// Returns numbers in the format of numpy.save.
template <typename Number>
std::string Npy(const std::string& type, const std::vector<Number>& numbers) {
  std::string header = absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (",
                                    numbers.size(), "), }");
  header.replace(header.find("), }"), 4, ",), }");
  header.resize(118 - 1, ' ');
  std::string bytes("\x93NUMPY\x01\0\x76\0", 10);
  bytes += header + "\n";
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
  return bytes;
}

}  // namespace paracord
