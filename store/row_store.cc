#include "store/row_store.h"

#include <array>
#include <functional>
#include <numeric>

#include "store/norm_constraint.h"

namespace paracord {
namespace {

std::vector<uint64_t> ShapeOfOneRow(std::vector<uint64_t> shape) {
  if (!shape.empty()) shape[0] = 1;
  return shape;
}

}  // namespace

RowStore::RowStore(const Optimizer& optimizer, std::vector<uint64_t> shape)
    : optimizer_(optimizer),
      one_(ShapeOfOneRow(std::move(shape))),
      row_elements_(std::accumulate(one_.begin(), one_.end(), uint64_t{1}, std::multiplies<>())) {}

std::shared_ptr<UndoLog> RowStore::BeginImage(std::shared_ptr<UndoLog> undo) {
  undo_.swap(undo);
  if (undo != nullptr) undo->EndReplaced();
  if (undo_ != nullptr) undo_->Begin();
  return undo;
}

bool RowStore::UpdateList(const RowList& list) const {
  const bool finite = UpdateRows(optimizer_, row_elements_, list);
  for (size_t i = 0; optimizer_.norm.has_value() && i < list.size; ++i) {
    const std::array<std::span<float>, 1> chunks = {std::span(list.values[i], row_elements_)};
    ScaleToNorm(*optimizer_.norm, one_, chunks);
  }
  return finite;
}

}  // namespace paracord
