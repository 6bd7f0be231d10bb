// Pad in the modes "reflect" and "symmetric": surrounds an axis with its own mirrored elements.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// A part of the output copied from a part of the input; offsets are within an example.
struct Piece {
  Shape dims;
  std::vector<int64_t> a, y;  // strides
  int64_t from = 0, to = 0;
};

class MirrorKernel : public Kernel {
 public:
  struct Way {
    Walk walk;
    int64_t from = 0, to = 0;
  };
  MirrorKernel(Ops& ops, std::vector<Way> ways, int64_t n)
      : ops_(ops), ways_(std::move(ways)), n_(n) {}
  void Forward(const ForwardCall& call) override {
    for (const Way& way : ways_) {
      ops_.Copy(way.walk, false, call.inputs[0] + way.from, call.output + way.to);
    }
  }
  // Within a way no element occurs twice.
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    ops_.Fill(n_, 0, call.d_inputs[0]);
    for (const Way& way : ways_) {
      const Walk back{way.walk.dims, way.walk.y, {}, way.walk.a};
      ops_.Copy(back, true, call.d_output + way.to, call.d_inputs[0] + way.from);
    }
  }

 private:
  Ops& ops_;
  const std::vector<Way> ways_;
  const int64_t n_;  // elements of the input
};

class MirrorPadLayer : public Layer {
 public:
  MirrorPadLayer(LayerConfig& config, PadAround around, bool edge_twice)
      : Layer(config), around_(std::move(around)), skipped_(edge_twice ? 0 : 1) {}
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    const Shape& input = inputs[0];
    ASSIGN_OR_RETURN(const PadAround around, PadsOf(around_, input));
    Shape output = input;
    for (size_t i = 0; i < input.size(); ++i) {
      const auto [before, after] = around[i];
      if (std::max(before, after) > input[i] - skipped_) {
        return absl::InvalidArgumentError(
            absl::StrCat("pads an axis of ", input[i], " by ", std::max(before, after),
                         ", which is more than it can be mirrored by"));
      }
      output[i] += before + after;
    }
    return output;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Shape output, OutputShape(inputs));
    ASSIGN_OR_RETURN(const std::vector<Piece> pieces, Pieces(inputs[0], output));
    const int64_t n = Elements(inputs[0]);
    std::vector<MirrorKernel::Way> ways;
    for (Piece piece : pieces) {
      piece.a.insert(piece.a.begin(), n);
      piece.y.insert(piece.y.begin(), Elements(output));
      ways.push_back(
          {Shorten({WithBatch(batch, piece.dims), piece.a, {}, piece.y}), piece.from, piece.to});
    }
    return std::make_unique<MirrorKernel>(ops, std::move(ways), batch * n);
  }

 private:
  // All combinations, over the axes, of the part before, inside and after the axis.
  absl::StatusOr<std::vector<Piece>> Pieces(const Shape& input, const Shape& output) const {
    ASSIGN_OR_RETURN(const PadAround around, PadsOf(around_, input));
    const std::vector<int64_t> in = RowMajor(input), out = RowMajor(output);
    std::vector<Piece> pieces(1);
    for (size_t i = 0; i < input.size(); ++i) {
      struct Run {
        int64_t count, from, step, to;
      };
      const auto [before, after] = around[i];
      const int64_t size = input[i];
      std::vector<Piece> next;
      for (const Run& run : {Run{before, before - 1 + skipped_, -1, 0}, Run{size, 0, 1, before},
                             Run{after, size - 1 - skipped_, -1, before + size}}) {
        for (size_t p = 0; p < pieces.size() && run.count > 0; ++p) {
          Piece& piece = next.emplace_back(pieces[p]);
          piece.dims.push_back(run.count);
          piece.a.push_back(run.step * in[i]);
          piece.y.push_back(out[i]);
          piece.from += run.from * in[i];
          piece.to += run.to * out[i];
        }
      }
      pieces = std::move(next);
    }
    return pieces;
  }

  const PadAround around_;
  const int64_t skipped_;  // 1: the edge itself is not repeated
};

}  // namespace

std::unique_ptr<Layer> MakeMirrorPad(LayerConfig& config, PadAround around, bool edge_twice) {
  return std::make_unique<MirrorPadLayer>(config, std::move(around), edge_twice);
}

}  // namespace paracord
