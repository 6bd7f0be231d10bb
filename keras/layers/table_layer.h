// Layers that read ids. The first variable of a TableLayer is a table of rows, selected by the
// first input. For a run with only some of the rows, the graph tells the number of rows, and the
// input holds indices among these rows, or -1 for an absent row, which reads as zeros.
#pragma once

#include <cstdint>

namespace paracord {

class TableLayer {
 public:
  virtual ~TableLayer() = default;
  static constexpr int64_t kAllRows = -1;
  void UseRows(int64_t rows) { rows_there_ = rows; }
  // Called once if the table is a growing one: any id is then valid.
  void Grow() { growing_ = true; }

 protected:
  int64_t RowsThere(int64_t all) const { return rows_there_ == kAllRows ? all : rows_there_; }

  int64_t rows_there_ = kAllRows;
  bool growing_ = false;
};

// A layer that gives 1 for each id but 0, and 0 for the id 0. Takes ids as a TableLayer does.
class IdMask {
 public:
  virtual ~IdMask() = default;
};

}  // namespace paracord
