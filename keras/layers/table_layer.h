// A layer whose first variable is a table of rows that its input names. For a run in which only
// some rows are there, the graph says how many, and the input has their numbers among these.
#pragma once

#include <cstdint>

namespace paracord {

class TableLayer {
 public:
  virtual ~TableLayer() = default;
  // 0, as at first: all rows are there.
  void UseRows(int64_t rows) { rows_there_ = rows; }
  // Called once if the table grows: its ids may then be any.
  void Grow() { growing_ = true; }

 protected:
  int64_t rows_there_ = 0;
  bool growing_ = false;
};

}  // namespace paracord
