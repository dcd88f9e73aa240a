// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/block_tile.h"
#include "core/backend/cuda/plugin/matrix_tile.h"
#include "core/backend/cuda/plugin/muon_kernels.h"
#include "core/rules/muon.h"

namespace shampoo::cuda {
namespace {

// Returns whether the step orthogonalizes a block.
SHAMPOO_DEVICE inline bool IsOrthogonalized(const Tables& tables, int32_t b) {
  return IsStepped(tables, b) && tables.blocks[b].orthogonalized != 0 &&
         tables.work[b].rule == DirectionRule::kPrecondition;
}

// Returns the exponent k of the divisor 2^k for numbers of at most this magnitude. 2^-k is finite.
SHAMPOO_DEVICE inline int FiniteScaleExponent(double largest) {
  const int exponent = ScaleExponent(largest);
  return exponent < -1022 ? -1022 : exponent;
}

// Computes the largest magnitude in a tile of H, and the sum of the squares of the elements. For the sum, each element
// is divided by 2^FiniteScaleExponent(largest), so that the sum neither overflows nor underflows.
template <typename Real>
struct TileMagnitudeBody {
  MuonArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(args.tables, args.batch, cta.index());
    if (!IsOrthogonalized(args.tables, part.tile.block)) return;
    const Real* const h = part.In(args.batch.first);
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

// Determines ns_exponent and ns_factor of a block from the magnitudes and sums of its tiles.
struct BlockMagnitudeBody {
  MuonArgs args;

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

// The type of the arithmetic with matrices whose elements have the type Stored.
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
  MuonArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(args.tables, args.batch, cta.index());
    const Real* const h = part.In(args.batch.first);
    if (part.group.settings.muon_math == MuonMath::kBf16) {
      // A tensor in `third` has room for two tensors of bfloat16. The iteration begins in the first of them.
      auto* const first = reinterpret_cast<__nv_bfloat16*>(static_cast<Real*>(args.third) + part.block.at);
      return Write(cta, part, h, first + part.begin);
    }
    void* const other = part.group.settings.dual_norm_scale ? args.third : args.batch.first;
    Write(cta, part, h, part.In(part.block.starts_in_second != 0 ? args.batch.second : other));
  }

 private:
  template <typename Stored>
  SHAMPOO_DEVICE void Write(const Cta& cta, const BlockTile<Real>& part, const Real* h, Stored* x) const {
    // The products cover whole shape groups, so a block that is not stepped gets zeros.
    if (!IsOrthogonalized(args.tables, part.tile.block)) {
      if (part.work.go == 0) cta.ForEach(part.size, [&](int64_t i) { Store(Real{0}, &x[i]); });
      return;
    }
    // Multiply by two powers of two, because a single one might overflow.
    const int half = part.work.ns_exponent / 2;
    const auto first = static_cast<Real>(ldexp(1.0, -half));
    const auto second = static_cast<Real>(ldexp(1.0, half - part.work.ns_exponent));
    const auto factor = static_cast<Real>(part.work.ns_factor);
    cta.ForEachLoaded(
        part.size, [&](int64_t i) { return h[i]; },
        [&](int64_t i, Real value) { Store(value * first * second * factor, &x[i]); });
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

// With ns_norm schatten4: computes ns_factor = 1 / (ns_divisor N) of each matrix X from A, where N is the Schatten-4
// norm of X. One CTA computes one matrix.
template <typename Stored>
struct GramNormBody {
  MuonArgs args;
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
  MuonArgs args;
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

struct WidenBody {
  EqualTensors from;
  float* to;
  int64_t to_stride;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const TensorTile tile(from.elements, cta.index());
    const auto* const x = static_cast<const __nv_bfloat16*>(from.data) + tile.tensor * from.stride + tile.begin;
    float* const wide = to + tile.tensor * to_stride + tile.begin;
    cta.ForEach(tile.size, [&](int64_t i) { wide[i] = __bfloat162float(x[i]); });
  }
};

SHAMPOO_DEVICE inline bool HasMomentOfDirection(const Tables& tables, int32_t b) {
  return IsOrthogonalized(tables, b) && tables.blocks[b].direction_moment.present();
}

template <typename Real>
struct OrthogonalNormBody {
  MuonArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(args.tables, args.batch, cta.index());
    if (!HasMomentOfDirection(args.tables, part.tile.block)) return;
    const Real* const d = part.In(args.batch.second);
    const double square = cta.SumLoaded(
        part.size, [&](int64_t i) { return d[i]; },
        [&](int64_t, Real value) { return static_cast<double>(value) * static_cast<double>(value); });
    cta.Once([&] { args.batch.sums[2 * cta.index() + 1] = square; });
  }
};

struct KeepNormBody {
  MuonArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = args.batch.blocks[cta.index()];
    if (!HasMomentOfDirection(args.tables, b)) return;
    const DeviceBlock& block = args.tables.blocks[b];
    const double square =
        cta.Sum(block.tiles, [&](int64_t i) { return args.batch.sums[2 * (block.first_tile + i) + 1]; });
    cta.Once([&] { args.tables.work[b].orthogonal_norm = sqrt(square); });
  }
};

// Returns whether the step divides a direction by its second moment. If the direction is not finite, the update will be
// skipped, and the second moment must stay finite.
SHAMPOO_DEVICE inline bool DividesDirection(const Tables& tables, int32_t b) {
  return HasMomentOfDirection(tables, b) && IsFinite(tables.work[b].orthogonal_norm);
}

template <typename Real>
struct MomentScalars {
  Real decay, weight, epsilon;

  SHAMPOO_DEVICE explicit MomentScalars(const GroupSettings& settings)
      : decay(static_cast<Real>(settings.beta2)),
        weight(static_cast<Real>(WeightFor(settings.beta2))),
        epsilon(static_cast<Real>(settings.epsilon)) {}
};

// Updates the second moments of rows, with one CTA for each row, or of columns, with one CTA for each group of columns.
// Writes the divisors of these rows or columns.
template <typename Real>
struct LineBody {
  MuonArgs args;
  int64_t lines;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = args.batch.blocks[cta.index() / lines];
    const DeviceBlock& block = args.tables.blocks[b];
    if (!DividesDirection(args.tables, b) || block.moment_of_direction == DirectionMoment::kElement) return;
    const Real* const d = static_cast<const Real*>(args.batch.second) + block.at;
    const int64_t line = cta.index() % lines;
    const int64_t rows = block.shape[0];
    const int64_t columns = block.shape[1];
    if (block.means_are_of_stored_rows != 0) {
      if (line >= rows) return;
      const double square = cta.SumLoaded(
          columns, [&](int64_t i) { return d[line * columns + i]; },
          [&](int64_t, Real value) { return static_cast<double>(value) * static_cast<double>(value); });
      return cta.Once([&] { Update(block, line, square, columns); });
    }
    const int64_t first = line * kColumnsOfLine;
    if (first >= columns) return;
    const int64_t count = columns - first < kColumnsOfLine ? columns - first : kColumnsOfLine;
    cta.ForEach(count, [&](int64_t i) {
      double square = 0;
      for (int64_t row = 0; row < rows; ++row) {
        const auto value = static_cast<double>(d[row * columns + first + i]);
        square += value * value;
      }
      Update(block, first + i, square, rows);
    });
  }

  SHAMPOO_DEVICE void Update(const DeviceBlock& block, int64_t line, double square, int64_t count) const {
    const MomentScalars<Real> scalars(args.tables.groups[block.scalars].settings);
    Real* const moment = reinterpret_cast<Real*>(args.tables.state_out + block.direction_moment.offset) + line;
    *moment =
        NextAverage(scalars.decay, *moment, scalars.weight, static_cast<Real>(square / static_cast<double>(count)));
    args.divisors[block.vector_at[0] + line] = static_cast<double>(SquareRootOf(*moment) + scalars.epsilon);
  }
};

template <typename Real, typename Rounding>
struct DivideDirectionBody {
  MuonArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(args.tables, args.batch, cta.index());
    if (!DividesDirection(args.tables, part.tile.block)) return;
    Real* const d = part.In(args.batch.second);
    const DeviceBlock& block = part.block;
    if (block.moment_of_direction == DirectionMoment::kElement) return DivideElements(cta, part, d);
    const double* const divisors = args.divisors + block.vector_at[0];
    const auto columns = static_cast<uint32_t>(block.shape[1]);
    cta.ForEach(part.size, [&](int64_t i) {
      const auto at = static_cast<uint32_t>(part.begin + i);  // a block has fewer than 2^31 elements
      const uint32_t line = block.means_are_of_stored_rows != 0 ? at / columns : at % columns;
      d[i] = DividedByMoment(d[i], static_cast<Real>(divisors[line]));
    });
  }

  SHAMPOO_DEVICE void DivideElements(const Cta& cta, const BlockTile<Real>& part, Real* d) const {
    const MomentScalars<Real> scalars(part.group.settings);
    const StateSlot& v = part.block.direction_moment;
    char* const moment = args.tables.state_out + v.offset;
    const Rounding rounding(args.tables, part.tile.block, RoundedState::kMuonMoment);
    cta.ForEach(part.size, [&](int64_t i) {
      const int64_t at = part.begin + i;
      const Real next = NextAverage(scalars.decay, ReadAs<Real>(moment, v.dtype, at), scalars.weight, d[i] * d[i]);
      rounding.Write(moment, v.dtype, at, at, next);
      d[i] = DividedByMoment(d[i], SquareRootOf(next) + scalars.epsilon);
    });
  }
};

template <template <typename> typename Body, typename... Args>
cudaError_t LaunchReal(cudaStream_t stream, Dtype computation, int64_t ctas, const Args&... args) {
  return computation == Dtype::kF64 ? Launch(stream, ctas, Body<double>{args...})
                                    : Launch(stream, ctas, Body<float>{args...});
}

// Launches a body over matrices of this dtype.
template <template <typename> typename Body, typename... Args>
cudaError_t LaunchStored(cudaStream_t stream, Dtype dtype, int64_t ctas, const Args&... args) {
  return dtype == Dtype::kBf16 ? Launch(stream, ctas, Body<__nv_bfloat16>{args...})
                               : LaunchReal<Body>(stream, dtype, ctas, args...);
}

}  // namespace

cudaError_t ScaleForIteration(cudaStream_t stream, const MuonArgs& args) {
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

cudaError_t CompleteSchatten(cudaStream_t stream, const MuonArgs& args, Dtype dtype, int64_t first_item,
                             const EqualMatrices& gram, const EqualTensors& tensors) {
  const cudaError_t error = LaunchStored<GramNormBody>(stream, dtype, gram.count, args, gram, first_item);
  if (error != cudaSuccess) return error;
  return LaunchStored<CompleteNormBody>(stream, dtype, gram.count * TileCount(tensors.elements), args, tensors,
                                        first_item);
}

cudaError_t WidenTensors(cudaStream_t stream, const EqualTensors& from, int64_t count, void* to, int64_t to_stride) {
  return Launch(stream, count * TileCount(from.elements), WidenBody{from, static_cast<float*>(to), to_stride});
}

cudaError_t DivideByMoments(cudaStream_t stream, const MuonArgs& args, int64_t lines) {
  cudaError_t error = LaunchReal<OrthogonalNormBody>(stream, args.computation, args.batch.tile_count, args);
  if (error == cudaSuccess) error = Launch(stream, args.batch.block_count, KeepNormBody{args});
  if (error == cudaSuccess) {
    error = LaunchReal<LineBody>(stream, args.computation, args.batch.block_count * lines, args, lines);
  }
  if (error == cudaSuccess) {
    error = LaunchRounding<DivideDirectionBody>(stream, args.batch.tile_count, args.tables, args.computation, args);
  }
  return error;
}

}  // namespace shampoo::cuda
