// Benchmarks of exchanges of table rows: a worker pushes the gradients of the rows in a batch,
// which the ps applies by Adagrad, and pulls the rows of the next batch.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "common/rpc.h"
#include "store/partition_set.h"

namespace paracord::bench {

inline constexpr std::string_view kRowsMethod = "/rows";

// Makes the contents of a ps: a table of 2,000,000 rows of 16 elements.
std::unique_ptr<PartitionSet> MakeTable();

struct RowsWay {
  const char* name;
  const char* result;  // name of the result for --json
  Link* link;          // to a service of MakeTable's contents, which exchanges by kRowsMethod
  double goal;         // in millions of rows a second, each of them pushed and pulled
};
void MeasureRows(const std::vector<RowsWay>& ways, int rounds);

}  // namespace paracord::bench
