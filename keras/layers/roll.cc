// roll(x, shift, axis): rotates elements along axes; elements leaving at an end re-enter at the
// beginning.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/copy_layer.h"
#include "keras/layers/layers.h"

namespace paracord {
namespace {

// A block of an example that moves as a whole.
struct Block {
  Shape dims;
  int64_t from = 0, to = 0;  // offsets of the block's first element
};

class RollLayer : public Layer {
 public:
  explicit RollLayer(LayerConfig& config) : Layer(config) {
    const nlohmann::json *shift = config.Value("shift"), *axis = config.Value("axis");
    if (axis == nullptr) {
      config.Fail("axis", "must be given: the batch stays");
      return;
    }
    axes_ = AxesOf(*axis);
    if (axes_.empty()) config.Fail("axis", "must be an axis, or a list of them");
    const bool many = shift != nullptr && shift->is_array();
    shifts_ = many ? config.Integers("shift") : Shape(1, config.AnyInteger("shift", 0));
    if (shifts_.size() == 1) shifts_.resize(axes_.size(), shifts_[0]);
    if (shifts_.size() != axes_.size()) config.Fail("shift", "must have a number for each axis");
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    RETURN_IF_ERROR(BlocksOf(inputs[0]).status());
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const std::vector<Block> blocks, BlocksOf(inputs[0]));
    const std::vector<int64_t> steps = RowMajor(WithBatch(batch, inputs[0]));
    std::vector<Way> ways;
    for (const Block& block : blocks) {
      ways.push_back(
          {Shorten({WithBatch(batch, block.dims), steps, {}, steps}), block.from, block.to});
    }
    return std::make_unique<PiecesKernel>(ops, std::move(ways));
  }

 private:
  // Each moving axis cuts every block into a part that shifts and a part that wraps around.
  absl::StatusOr<std::vector<Block>> BlocksOf(const Shape& input) const {
    const std::vector<int64_t> steps = RowMajor(input);
    Shape moves(input.size(), 0);
    for (size_t i = 0; i < axes_.size(); ++i) {
      ASSIGN_OR_RETURN(const size_t axis, AxisOf(input, axes_[i]));
      const int64_t size = std::max<int64_t>(input[axis], 1);
      moves[axis] = (moves[axis] + shifts_[i] % size + size) % size;
    }
    std::vector<Block> blocks{{input, 0, 0}};
    for (size_t axis = 0; axis < input.size(); ++axis) {
      if (moves[axis] == 0) continue;
      const int64_t stay = input[axis] - moves[axis];
      std::vector<Block> cut;
      for (const Block& block : blocks) {
        Block on = block, again = block;
        on.dims[axis] = stay;
        on.to += moves[axis] * steps[axis];
        again.dims[axis] = moves[axis];
        again.from += stay * steps[axis];
        cut.insert(cut.end(), {on, again});
      }
      blocks = std::move(cut);
    }
    return blocks;
  }

  std::vector<int64_t> axes_, shifts_;
};

}  // namespace

std::unique_ptr<Layer> MakeRoll(LayerConfig& config) { return std::make_unique<RollLayer>(config); }

}  // namespace paracord
