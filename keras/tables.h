// Chooses the Embeddings of a model that are tables: variables of which only those rows travel that
// a batch reads. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/job.h"
#include "config/json_fields.h"
#include "keras/json.h"
#include "proto/paracord.pb.h"

namespace paracord {

struct ChosenTable {
  TableSpec spec;
  uint64_t shards = 0;  // of a growing table
};
// By the index of the layer in the model.
using TableLayers = std::map<size_t, ChosenTable>;

// Chooses as the job's `tables` say, in a model whose preprocessing layers have been taken out
// (nodes that are marked as unknown count as inputs). Problems name the key. `notes` gets a line
// for each growing table, and each Embedding that moves whole where `auto` would rather move its
// rows.
TableLayers ChooseTables(const Job& job, const ModelSpec& model, Problems& problems,
                         std::vector<std::string>* notes = nullptr);

// The notes for a job, for people; none if its model cannot be read.
std::vector<std::string> TableNotes(const Job& job);

}  // namespace paracord
