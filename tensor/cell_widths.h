// The widths of the tensors of a recurrent step (CellStep in ops.h), equal on every device.
#pragma once

#include "tensor/host_device.h"
#include "tensor/ops.h"

namespace paracord {

// The lengths of a row of z (`gates`), of `kept`, and of r, the state's product (`product`), as
// multiples of CellShape::units.
struct CellWidths {
  int64_t gates = 1, kept = 0, product = 1;
};

PARACORD_HD inline CellWidths WidthsOf(CellKind kind) {
  switch (kind) {
    case CellKind::kSimple:
      return {1, 0, 1};
    case CellKind::kLstm:
      return {4, 5, 4};
    case CellKind::kGru:
      return {3, 4, 3};
    case CellKind::kGruGates:
      return {3, 4, 2};
    case CellKind::kGruCandidate:
      return {3, 4, 1};
  }
  return {};
}

}  // namespace paracord
