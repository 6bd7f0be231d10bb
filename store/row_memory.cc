#include "store/row_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "common/parallel.h"

namespace paracord {
namespace {

constexpr uint64_t kFirstExtentBytes = uint64_t{64} << 10;
constexpr uint64_t kChunkBytes = uint64_t{8} << 10;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kHugeFrom = 2 * kHugePage;  // bytes of an extent

// Rows whose number is a power of two and whose bytes are at least `bytes`, or half of that.
uint32_t ShiftOf(uint64_t row_floats, uint64_t bytes) {
  return static_cast<uint32_t>(
      std::bit_width(std::max<uint64_t>(bytes / (row_floats * sizeof(float)), 1)) - 1);
}

std::align_val_t AlignmentOf(uint64_t bytes) {
  return std::align_val_t(bytes >= kHugeFrom ? kHugePage : 64);
}

}  // namespace

RowMemory::RowMemory(uint64_t row_floats)
    : row_floats_(row_floats),
      shift_(ShiftOf(row_floats, kFirstExtentBytes)),
      chunk_shift_(ShiftOf(row_floats, kChunkBytes)) {}

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

uint64_t RowMemory::BeginImage() {
  EndImage();
  image_rows_ = rows_;
  const uint64_t chunks = (rows_ + (uint64_t{1} << chunk_shift_) - 1) >> chunk_shift_;
  done_.assign(chunks, false);
  return chunks;
}

uint64_t RowMemory::RowsOfChunk(uint64_t chunk) const {
  return std::min(uint64_t{1} << chunk_shift_, image_rows_ - (chunk << chunk_shift_));
}

void RowMemory::Copy(uint64_t chunk, std::vector<float>& to) const {
  const uint64_t first = chunk << chunk_shift_;
  to.resize(RowsOfChunk(chunk) * row_floats_);
  for (uint64_t i = 0; i < RowsOfChunk(chunk); ++i) {
    std::copy_n(Row(static_cast<uint32_t>(first + i)), row_floats_, &to[i * row_floats_]);
  }
}

std::vector<float> RowMemory::ReadImage(uint64_t chunk) {
  std::vector<float> rows;
  if (const auto saved = saved_.find(chunk); saved != saved_.end()) {
    rows = std::move(saved->second);
    saved_.erase(saved);
    return rows;
  }
  Copy(chunk, rows);
  done_[chunk] = true;
  return rows;
}

void RowMemory::EndImage() {
  image_rows_ = 0;
  done_.clear();
  saved_.clear();
}

void RowMemory::Save(std::span<const uint32_t> rows) {
  std::vector<std::pair<uint64_t, std::vector<float>*>> wanted;
  for (const uint32_t row : rows) {
    const uint64_t chunk = row >> chunk_shift_;
    if (row >= image_rows_ || done_[chunk]) continue;
    done_[chunk] = true;
    wanted.emplace_back(chunk, nullptr);
  }
  for (auto& [chunk, copy] : wanted) saved_[chunk];
  for (auto& [chunk, copy] : wanted) copy = &saved_[chunk];  // does not move any more
  ParallelFor(wanted.size(), [&](size_t i) { Copy(wanted[i].first, *wanted[i].second); });
}

uint64_t RowMemory::saved_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [chunk, rows] : saved_) bytes += rows.size() * sizeof(float);
  return bytes;
}

}  // namespace paracord
