// Exchanges of rows: a worker pushes the gradients of the rows that a batch has read, which Adagrad
// applies, and pulls those of its next batch.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "common/rpc.h"
#include "store/partition_set.h"

namespace paracord::bench {

inline constexpr std::string_view kRowsMethod = "/rows";

// Makes the content of a ps that has a table of 2,000,000 rows of 16 elements.
std::unique_ptr<Content> MakeTable();

struct RowsWay {
  const char* name;
  const char* result;  // the name of its result
  Link* link;          // to a service that exchanges with that ps by kRowsMethod
  double goal;         // millions of rows a second, each pushed and another pulled
};
void MeasureRows(const std::vector<RowsWay>& ways, int rounds);

}  // namespace paracord::bench
