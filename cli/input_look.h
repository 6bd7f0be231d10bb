// Describes the inputs of a Keras model for a command that guesses how a job feeds them. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keras/json.h"

namespace paracord {

// An input of a model, and the use that the layers after it make of its numbers.
struct InputLook {
  std::string name;
  std::string dtype;
  std::optional<size_t> numbers;  // in an example; none: any
  std::optional<double> rows;     // in the smallest Embedding that reads the input
  bool looks_up = false;          // the numbers are ids
  bool scaled = false;            // a layer normalizes the numbers
  bool dense = false;             // a Dense multiplies the numbers
  // Embeddings that read the input directly: growing tables may replace them.
  std::vector<std::string> tables;
};

std::vector<InputLook> LookAtInputs(const ModelSpec& model);

// Returns the activation of the layer that gives an output of the model; "" if it has none.
std::string LastActivation(const ModelSpec& model, size_t output);

}  // namespace paracord
