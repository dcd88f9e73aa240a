// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/matrix_tile.h"
#include "core/backend/cuda/plugin/orthogonalize_common.h"
#include "core/backend/cuda/plugin/orthogonalize_kernels.h"
#include "core/rules/muon.h"

namespace shampoo::cuda {
namespace {

// Returns ScaleExponent(largest), but at least -1022. For the returned exponent e, 2^-e is therefore finite.
SHAMPOO_DEVICE inline int FiniteScaleExponent(double largest) {
  const int exponent = ScaleExponent(largest);
  return exponent < -1022 ? -1022 : exponent;
}

// Computes the largest magnitude in a tile of a matrix, and the sum of the squares of its elements. For the sum, each
// element is divided by 2^FiniteScaleExponent(largest), so that the sum neither overflows nor underflows.
template <typename Real>
struct TileMagnitudeBody {
  OrthogonalizeArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(args.tables, args.batch, cta.index());
    if (!IsOrthogonalized(args.tables, part.tile.block)) return;
    const Real* const h = part.In(args.source);
    const double largest =
        BitsAs<double>(cta.Largest(part.size, [&](int64_t i) { return MagnitudeBits(static_cast<double>(h[i])); }));
    const double scale = largest == 0 ? 1 : ldexp(1.0, -FiniteScaleExponent(largest));
    const double square = cta.Sum(part.size, [&](int64_t i) {
      const double scaled = static_cast<double>(h[i]) * scale;
      return scaled * scaled;
    });
    cta.Once([&] {
      args.batch.sums[2 * cta.index() + 1] = largest;
      args.batch.products[cta.index()] = square;
    });
  }
};

// Computes BlockWork::ns_exponent and ns_factor of a block from the results of TileMagnitudeBody for the block's tiles.
struct BlockMagnitudeBody {
  OrthogonalizeArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = args.batch.blocks[cta.index()];
    if (!IsOrthogonalized(args.tables, b)) return;
    const DeviceBlock& block = args.tables.blocks[b];
    const auto largest_of = [&](int64_t i) { return args.batch.sums[2 * (block.first_tile + i) + 1]; };
    const double largest =
        BitsAs<double>(cta.Largest(block.tiles, [&](int64_t i) { return MagnitudeBits(largest_of(i)); }));
    const int exponent = largest == 0 ? 0 : FiniteScaleExponent(largest);
    const double square = cta.Sum(block.tiles, [&](int64_t i) {
      const double of_tile = largest_of(i);
      const double scale = of_tile == 0 ? 1 : ldexp(1.0, FiniteScaleExponent(of_tile) - exponent);
      return args.batch.products[block.first_tile + i] * scale * scale;
    });
    cta.Once([&] {
      BlockWork& work = args.tables.work[b];
      const double divisor = block.ns_norm == NsNorm::kFrobenius ? block.ns_divisor : 1;
      work.ns_exponent = exponent;
      work.ns_factor = largest == 0 ? 0 : 1 / (divisor * sqrt(square));
    });
  }
};

// Kernels load elements of type `Stored` and compute with them in type `ArithmeticOf<Stored>::Real`.
template <typename Stored>
struct ArithmeticOf {
  using Real = Stored;
};
template <>
struct ArithmeticOf<__nv_bfloat16> {
  using Real = float;
};
SHAMPOO_DEVICE inline double Widened(double value) { return value; }
SHAMPOO_DEVICE inline float Widened(float value) { return value; }
SHAMPOO_DEVICE inline float Widened(__nv_bfloat16 value) { return __bfloat162float(value); }
SHAMPOO_DEVICE inline void Store(double value, double* to) { *to = value; }
SHAMPOO_DEVICE inline void Store(float value, float* to) { *to = value; }
SHAMPOO_DEVICE inline void Store(float value, __nv_bfloat16* to) { *to = ToBf16(value); }

template <typename Real>
struct ScaleMatrixBody {
  OrthogonalizeArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(args.tables, args.batch, cta.index());
    const Real* const h = part.In(args.source);
    const Dtype dtype = part.block.iteration_dtype;
    // If the dtype of the iteration is not the computation dtype, `third` (for bfloat16) or `wide` (for float64) has
    // room for two tensors for each tensor of the batch. The iteration begins in the first of these two tensors.
    const int64_t at = 2 * part.block.at + part.begin;
    if (dtype == Dtype::kBf16) return Write(cta, part, h, static_cast<__nv_bfloat16*>(args.third) + at);
    if (dtype != args.computation) return Write(cta, part, h, static_cast<double*>(args.wide) + at);
    void* const other = part.group.settings.dual_norm_scale ? args.third : args.spare;
    Write(cta, part, h, part.In(part.block.starts_in_second != 0 ? args.batch.second : other));
  }

 private:
  template <typename Stored>
  SHAMPOO_DEVICE void Write(const Cta& cta, const BlockTile<Real>& part, const Real* h, Stored* x) const {
    using Wide = typename ArithmeticOf<Stored>::Real;
    // The batched products process all blocks of a shape group. If this step does not orthogonalize one of them, `x`
    // gets zeros for this block. Exception: if the block has method muon and its rule in this step is not
    // DirectionRule::kPrecondition, the step computes no products for the shape group (muon_step.cc). `x` then keeps
    // its contents, because these may be the direction of the block.
    if (!IsOrthogonalized(args.tables, part.tile.block)) {
      const bool is_multiplied = part.work.go == 0 || part.block.is_rotated();
      if (part.block.orthogonalized != 0 && is_multiplied) {
        cta.ForEach(part.size, [&](int64_t i) { Store(Wide{0}, &x[i]); });
      }
      return;
    }
    // Multiply by two powers of two one after the other, because their product might overflow.
    const int half = part.work.ns_exponent / 2;
    const auto first = static_cast<Real>(ldexp(1.0, -half));
    const auto second = static_cast<Real>(ldexp(1.0, half - part.work.ns_exponent));
    const auto factor = static_cast<Wide>(part.work.ns_factor);
    cta.ForEachLoaded(
        part.size, [&](int64_t i) { return h[i]; },
        [&](int64_t i, Real value) { Store(static_cast<Wide>(value * first * second) * factor, &x[i]); });
  }
};

// A tile of one of several matrices of equal size. Each matrix has a square grid of tiles.
struct EqualTile {
  int64_t matrix;
  bool is_lower;
  MatrixTile tile;

  SHAMPOO_DEVICE EqualTile(const EqualMatrices& matrices, int64_t index)
      : matrix(index / (Across(matrices.size) * Across(matrices.size))),
        is_lower(RowOf(matrices, index) >= ColumnOf(matrices, index)),
        tile({0, 0, static_cast<uint16_t>(RowOf(matrices, index)), static_cast<uint16_t>(ColumnOf(matrices, index))},
             matrices.size) {}

  SHAMPOO_DEVICE static int64_t Across(int64_t size) { return (size + kMatrixTile - 1) / kMatrixTile; }

 private:
  SHAMPOO_DEVICE static int64_t RowOf(const EqualMatrices& matrices, int64_t index) {
    return index / Across(matrices.size) % Across(matrices.size);
  }
  SHAMPOO_DEVICE static int64_t ColumnOf(const EqualMatrices& matrices, int64_t index) {
    return index % Across(matrices.size);
  }
};

int64_t TilesOf(const EqualMatrices& matrices) {
  const int64_t across = (matrices.size + kMatrixTile - 1) / kMatrixTile;
  return matrices.count * across * across;
}

template <typename Stored>
struct MirrorBody {
  EqualMatrices matrices;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const EqualTile part(matrices, cta.index());
    if (part.is_lower) part.tile.Mirror(cta, static_cast<Stored*>(matrices.data) + part.matrix * matrices.stride);
  }
};

template <typename Stored>
struct PolynomialBody {
  EqualMatrices gram;
  void* polynomial;
  PolynomialTerms terms;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    using Real = typename ArithmeticOf<Stored>::Real;
    const EqualTile part(gram, cta.index());
    if (!part.is_lower) return;
    const Stored* const from = static_cast<const Stored*>(gram.data) + part.matrix * gram.stride;
    Stored* const to = static_cast<Stored*>(polynomial) + part.matrix * gram.stride;
    const auto a = static_cast<Real>(terms.a);
    const auto b = static_cast<Real>(terms.b);
    const int64_t d = part.tile.d;
    part.tile.ForEachLower(cta, [&](int64_t r, int64_t c) {
      Real value = b * Widened(from[r * d + c]);
      if (terms.has_square) value = Widened(to[r * d + c]) + value;
      Store(r == c ? value + a : value, &to[r * d + c]);
    });
    part.tile.Mirror(cta, to);
  }
};

// With ns_norm=schatten4: computes ns_factor = 1 / (ns_divisor N) for each matrix X, where N is the Schatten-4 norm of
// X. N is the square root of the Frobenius norm of the Gram matrix A of X. One CTA processes one matrix.
template <typename Stored>
struct GramNormBody {
  OrthogonalizeArgs args;
  EqualMatrices gram;
  int64_t first_item;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = args.batch.blocks[first_item + cta.index()];
    if (!IsOrthogonalized(args.tables, b)) return;
    const Stored* const a = static_cast<const Stored*>(gram.data) + cta.index() * gram.stride;
    const double square = cta.SumLoaded(
        gram.size * gram.size, [&](int64_t i) { return static_cast<double>(Widened(a[i])); },
        [](int64_t, double value) { return value * value; });
    const double norm = sqrt(sqrt(square));
    cta.Once([&] {
      BlockWork& work = args.tables.work[b];
      work.ns_factor = work.ns_factor == 0 ? 0 : 1 / (args.tables.blocks[b].ns_divisor * norm);
    });
  }
};

// A tile of one of several tensors of equal size.
struct TensorTile {
  int64_t tensor, begin, size;

  SHAMPOO_DEVICE TensorTile(int64_t elements, int64_t index) {
    const int64_t tiles = (elements + kTileElements - 1) / kTileElements;
    tensor = index / tiles;
    begin = index % tiles * kTileElements;
    size = elements - begin < kTileElements ? elements - begin : kTileElements;
  }
};

template <typename Stored>
struct CompleteNormBody {
  OrthogonalizeArgs args;
  EqualTensors tensors;
  int64_t first_item;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const TensorTile tile(tensors.elements, cta.index());
    const int32_t b = args.batch.blocks[first_item + tile.tensor];
    if (!IsOrthogonalized(args.tables, b)) return;
    Stored* const x = static_cast<Stored*>(tensors.data) + tile.tensor * tensors.stride + tile.begin;
    const auto factor = static_cast<typename ArithmeticOf<Stored>::Real>(args.tables.work[b].ns_factor);
    cta.ForEach(tile.size, [&](int64_t i) { Store(Widened(x[i]) * factor, &x[i]); });
  }
};

template <typename Stored>
struct ConvertBody {
  EqualTensors from;
  float* to;
  int64_t to_stride;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const TensorTile tile(from.elements, cta.index());
    const auto* const x = static_cast<const Stored*>(from.data) + tile.tensor * from.stride + tile.begin;
    float* const converted = to + tile.tensor * to_stride + tile.begin;
    cta.ForEach(tile.size, [&](int64_t i) { converted[i] = static_cast<float>(Widened(x[i])); });
  }
};

// Launches the kernel `Body` (cta.h) for matrices whose elements have the type `dtype`.
template <template <typename> typename Body, typename... Args>
cudaError_t LaunchStored(cudaStream_t stream, Dtype dtype, int64_t ctas, const Args&... args) {
  return dtype == Dtype::kBf16 ? Launch(stream, ctas, Body<__nv_bfloat16>{args...})
                               : LaunchReal<Body>(stream, dtype, ctas, args...);
}

}  // namespace

cudaError_t ScaleForIteration(cudaStream_t stream, const OrthogonalizeArgs& args) {
  cudaError_t error = LaunchReal<TileMagnitudeBody>(stream, args.computation, args.batch.tile_count, args);
  if (error == cudaSuccess) error = Launch(stream, args.batch.block_count, BlockMagnitudeBody{args});
  if (error == cudaSuccess) error = LaunchReal<ScaleMatrixBody>(stream, args.computation, args.batch.tile_count, args);
  return error;
}

cudaError_t MirrorMatrices(cudaStream_t stream, Dtype dtype, const EqualMatrices& matrices) {
  return LaunchStored<MirrorBody>(stream, dtype, TilesOf(matrices), matrices);
}

cudaError_t CompletePolynomials(cudaStream_t stream, Dtype dtype, const EqualMatrices& gram, void* polynomial,
                                const PolynomialTerms& terms) {
  return LaunchStored<PolynomialBody>(stream, dtype, TilesOf(gram), gram, polynomial, terms);
}

cudaError_t CompleteSchatten(cudaStream_t stream, const OrthogonalizeArgs& args, Dtype dtype, int64_t first_item,
                             const EqualMatrices& gram, const EqualTensors& tensors) {
  const cudaError_t error = LaunchStored<GramNormBody>(stream, dtype, gram.count, args, gram, first_item);
  if (error != cudaSuccess) return error;
  return LaunchStored<CompleteNormBody>(stream, dtype, gram.count * TileCount(tensors.elements), args, tensors,
                                        first_item);
}

cudaError_t ConvertTensors(cudaStream_t stream, Dtype dtype, const EqualTensors& from, int64_t count, float* to,
                           int64_t to_stride) {
  return LaunchStored<ConvertBody>(stream, dtype, count * TileCount(from.elements), from, to, to_stride);
}

}  // namespace shampoo::cuda
