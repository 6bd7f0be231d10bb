#include "program/program_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/status_macros.h"
#include "program/given_columns.h"

namespace paracord {
namespace {

void CopyNumbers(std::span<const float> from, float* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
}

}  // namespace

absl::Status ProgramMemory::PutColumn(const Batch& batch, const Column& column,
                                      const PlacedColumn& place) {
  if (!place.int64) return CopyNumbers(column.values, At(place.offset)), absl::OkStatus();
  RETURN_IF_ERROR(ToWholeNumbers(batch, column, whole_));
  if (!whole_.empty()) {
    std::memcpy(At(place.offset), whole_.data(), whole_.size() * sizeof(int64_t));
  }
  return absl::OkStatus();
}

// Examples that make up a larger batch have the local number 0, which is always there.
void ProgramMemory::PutNumbers(const std::vector<int64_t>& numbers, const Column& column,
                               uint64_t offset) {
  uint64_t room = layout_->batch;
  for (const uint64_t axis : column.shape) room *= axis;
  auto* const to = reinterpret_cast<int64_t*>(memory_.data() + offset);
  std::ranges::copy(numbers, to);
  std::fill(to + numbers.size(), to + room, 0);
}

absl::Status ProgramMemory::PutBatch(const Batch& batch, const RowsInUse& use) {
  for (const auto& [columns, places] :
       {std::pair(&batch.inputs, &layout_->inputs), std::pair(&batch.targets, &layout_->targets),
        std::pair(&batch.weights, &layout_->weights)}) {
    for (size_t i = 0; i < columns->size(); ++i) {
      const Column& column = (*columns)[i];
      // A column may have another name than in the training data if it is the only input.
      const bool ids =
          columns == &batch.inputs && use.rows != nullptr && !use.rows->numbers[i].empty();
      if (ids) {
        PutNumbers(use.rows->numbers[i], column, (*places)[i].offset);
      } else {
        RETURN_IF_ERROR(PutColumn(batch, column, (*places)[i]));
      }
    }
  }
  return absl::OkStatus();
}

uint64_t ProgramMemory::Rows(size_t variable, const RowsInUse& use) const {
  if (!ByRows(variable)) return *layout_->rows[variable];
  return use.rows->First(variable) + use.rows->ids[variable].size();
}

void ProgramMemory::PutValues(ConstTensors values, const RowsInUse& use) {
  for (size_t v = 0; v < values.size(); ++v) {
    float* to = At(layout_->values[v]);
    if (!ByRows(v)) {
      CopyNumbers(values[v], to);
      continue;
    }
    const uint64_t width = tables_->width(v);
    const std::vector<uint64_t>& ids = use.rows->ids[v];
    if (use.rows->First(v) == 1) to = std::fill_n(to, width, 0.f);
    if (!use.whole) {
      CopyNumbers(values[v], to);
      continue;
    }
    for (const uint64_t id : ids) {
      CopyNumbers(values[v].subspan(id * width, width), to);
      to += width;
    }
  }
}

void ProgramMemory::TakeGradient(size_t variable, const RowsInUse& use, std::span<float> to) const {
  const float* from = At(*layout_->gradients[variable]);
  if (ByRows(variable)) from += use.rows->First(variable) * tables_->width(variable);
  if (!ByRows(variable) || !use.whole) return CopyNumbers({from, to.size()}, to.data());
  const uint64_t width = tables_->width(variable);
  std::ranges::fill(to, 0.f);
  for (const uint64_t id : use.rows->ids[variable]) {
    CopyNumbers({from, width}, to.subspan(id * width).data());
    from += width;
  }
}

}  // namespace paracord
