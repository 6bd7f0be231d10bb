// Layers that read ids. The first variable of a TableLayer has a row for each id, and ids in the
// first input select rows. In a run for which the caller passes only some of the rows, UseRows has
// set their number, and the input has indices of these rows in place of ids, or -1 for an id whose
// row was not passed, which reads as zeros (NumberedRows in table_ids.h).
#pragma once

#include <cstdint>

namespace paracord {

class TableLayer {
 public:
  virtual ~TableLayer() = default;
  static constexpr int64_t kAllRows = -1;
  void UseRows(int64_t rows) { rows_there_ = rows; }
  // Called once if the variable becomes a growing table: any id is then valid.
  void Grow() { growing_ = true; }

 protected:
  int64_t RowsThere(int64_t all) const { return rows_there_ == kAllRows ? all : rows_there_; }

  int64_t rows_there_ = kAllRows;
  bool growing_ = false;
};

// A layer whose output is 0 for the id 0 and for -1, and 1 for every other id. Its input has ids,
// or what NumberedRows has in place of them.
class IdMask {
 public:
  virtual ~IdMask() = default;
};

}  // namespace paracord
