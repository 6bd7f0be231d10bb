#include "store/row_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace paracord {
namespace {

constexpr uint64_t kGroupBytes = uint64_t{64} << 10;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kHugeFrom = 2 * kHugePage;  // bytes of an extent

// log2 of the greatest power of two of rows that fit in `bytes`; 0 for larger rows.
uint32_t ShiftOf(uint64_t row_floats, uint64_t bytes) {
  return static_cast<uint32_t>(
      std::bit_width(std::max<uint64_t>(bytes / (row_floats * sizeof(float)), 1)) - 1);
}

std::align_val_t AlignmentOf(uint64_t bytes) {
  return std::align_val_t(bytes >= kHugeFrom ? kHugePage : 64);
}

}  // namespace

RowMemory::RowMemory(uint64_t row_floats, uint64_t rows)
    : row_floats_(row_floats),
      group_shift_(ShiftOf(row_floats, kGroupBytes)),
      shift_(std::max(group_shift_,
                      static_cast<uint32_t>(std::bit_width(std::max<uint64_t>(rows, 1) - 1)))) {}

RowMemory::~RowMemory() {
  for (size_t i = 0; i < extents_.size() && extents_[i] != nullptr; ++i) {
    ::operator delete(extents_[i], AlignmentOf(ExtentBytes(i)));
  }
}

uint64_t RowMemory::ExtentBytes(size_t extent) const {
  return (row_floats_ * sizeof(float)) << (extent + shift_);
}

uint32_t RowMemory::Append() {
  const uint64_t q = (rows_ >> shift_) + 1;
  const auto extent = static_cast<size_t>(std::bit_width(q) - 1);
  if (extents_[extent] == nullptr) {
    const uint64_t bytes = ExtentBytes(extent);
    extents_[extent] = static_cast<float*>(::operator new(bytes, AlignmentOf(bytes)));
    // Fewer misses of the translation buffer; without them everything works as well.
    if (bytes >= kHugeFrom) {
      (void)madvise(extents_[extent], bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    }
  }
  return static_cast<uint32_t>(rows_++);
}

std::vector<std::span<float>> RowMemory::AppendMany(uint64_t rows) {
  std::vector<std::span<float>> memory;
  for (uint64_t i = 0; i < rows; ++i) {
    float* const row = Row(Append());
    if (!memory.empty() && memory.back().data() + memory.back().size() == row) {
      memory.back() = {memory.back().data(), memory.back().size() + row_floats_};
    } else {
      memory.emplace_back(row, row_floats_);
    }
  }
  return memory;
}

}  // namespace paracord
