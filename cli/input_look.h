// Reads off a Keras model what its inputs take, for a command that guesses how a job feeds them.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keras/json.h"

namespace paracord {

// An input of a model, and what the layers behind it make of its numbers.
struct InputLook {
  std::string name;
  std::string dtype;
  std::optional<size_t> numbers;  // of an example; none: any
  std::optional<double> rows;     // of the smallest Embedding that reads it
  bool looks_up = false;          // its numbers are ids
  bool scaled = false;            // a layer normalizes them
  // The Embeddings that read the input itself, so that growing tables may take their places.
  std::vector<std::string> tables;
};

std::vector<InputLook> LookAtInputs(const ModelSpec& model);

// Returns the activation of the layer that gives the model's only output; "" if there are several.
std::string LastActivation(const ModelSpec& model);

}  // namespace paracord
