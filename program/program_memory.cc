#include "program/program_memory.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "program/given_columns.h"

namespace paracord {

absl::Status ProgramMemory::PutColumn(const Batch& batch, const char* what, const Column& column,
                                      const PlacedColumn& place) {
  if (!place.int64) {
    std::ranges::copy(column.values, At(place.offset));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(ToWholeNumbers(batch, what, column, whole_));
  std::ranges::copy(whole_, reinterpret_cast<int64_t*>(memory_.data() + place.offset));
  return absl::OkStatus();
}

// Padding examples have the local number 0, a row that always exists.
void ProgramMemory::PutNumbers(const std::vector<int64_t>& numbers, const Column& column,
                               uint64_t offset) {
  uint64_t room = layout_->batch;
  for (const uint64_t axis : column.shape) room *= axis;
  auto* const to = reinterpret_cast<int64_t*>(memory_.data() + offset);
  std::ranges::copy(numbers, to);
  std::fill(to + numbers.size(), to + room, 0);
}

std::array<ProgramMemory::Kind, 3> ProgramMemory::Kinds(const Batch& batch) const {
  return {{{"input", &batch.inputs, &layout_->inputs},
           {"target", &batch.targets, &layout_->targets},
           {"weight", &batch.weights, &layout_->weights}}};
}

absl::Status ProgramMemory::CheckBatch(const Batch& batch, const RowsInUse& use) {
  for (const auto& [what, columns, places] : Kinds(batch)) {
    for (size_t i = 0; i < columns->size(); ++i) {
      const bool ids = columns == &batch.inputs && use.Numbers(i) != nullptr;
      if (ids || !(*places)[i].int64) continue;
      RETURN_IF_ERROR(ToWholeNumbers(batch, what, (*columns)[i], whole_));
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramMemory::PutBatch(const Batch& batch, const RowsInUse& use) {
  for (const auto& [what, columns, places] : Kinds(batch)) {
    for (size_t i = 0; i < columns->size(); ++i) {
      const Column& column = (*columns)[i];
      // If a model has a single input, its name may differ from the training data's.
      const std::vector<int64_t>* const numbers =
          columns == &batch.inputs ? use.Numbers(i) : nullptr;
      if (numbers != nullptr) {
        PutNumbers(*numbers, column, (*places)[i].offset);
      } else {
        RETURN_IF_ERROR(PutColumn(batch, what, column, (*places)[i]));
      }
    }
  }
  return absl::OkStatus();
}

uint64_t ProgramMemory::Rows(size_t variable, const RowsInUse& use) const {
  return tables_->by_rows(variable) ? use.Count(variable) : *layout_->rows[variable];
}

void ProgramMemory::PutValues(ConstTensors values, const RowsInUse& use) {
  for (size_t v = 0; v < values.size(); ++v) {
    float* const to = At(layout_->values[v]);
    if (tables_->by_rows(v)) {
      tables_->PutRows(v, use, values[v], to);
    } else {
      std::ranges::copy(values[v], to);
    }
  }
}

void ProgramMemory::TakeGradient(size_t variable, const RowsInUse& use, std::span<float> to) const {
  const float* const from = At(*layout_->gradients[variable]);
  if (tables_->by_rows(variable)) return tables_->TakeGradient(variable, use, from, to);
  std::copy_n(from, to.size(), to.data());
}

}  // namespace paracord
