// Describes the inputs of a Keras model for `paracord init`, which guesses the columns of data for
// them. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keras/json.h"

namespace paracord {

// An input of a model, and what the layers after it do with its numbers.
struct InputLook {
  std::string name;
  std::string dtype;
  std::optional<size_t> numbers;  // how many an example has; nullopt: the model leaves it open
  std::optional<double> rows;     // number of rows of the smallest Embedding that reads the input
  bool looks_up = false;          // a layer takes the numbers as ids
  bool scaled = false;            // a layer normalizes the numbers
  bool dense = false;             // a Dense multiplies the numbers
  // Names of the Embeddings that read the input directly: growing tables may replace them.
  std::vector<std::string> tables;
};

std::vector<InputLook> LookAtInputs(const ModelSpec& model);

// Returns the activation of the layer that computes output number `output` of the model; "" if the
// layer has none.
std::string LastActivation(const ModelSpec& model, size_t output);

}  // namespace paracord
