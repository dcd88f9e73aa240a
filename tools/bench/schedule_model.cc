// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/schedule_model.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>

namespace bench {
namespace {

constexpr double kTile = 256.0 * 256.0;
constexpr int64_t kSplitRoot = 512;

// Work that one thread does in `seconds`, without a break. Afterwards, `tiles` tiles of `then` seconds each can start.
// Several threads may share these tiles.
struct Piece {
  double seconds = 0;
  int tiles = 0;
  double then = 0;
};
using Phase = std::vector<Piece>;

int Tiles(double outputs) { return std::max(1, static_cast<int>(outputs / kTile)); }

// Adds `count` equal tiles, which together take `seconds`.
void AddTiles(int count, double seconds, Phase* phase) {
  if (count > 0) phase->insert(phase->end(), static_cast<size_t>(count), Piece{seconds / count, 0, 0});
}

std::deque<Phase> PhasesOf(const BlockTask& block) {
  const double n = std::accumulate(block.shape.begin(), block.shape.end(), 1.0, std::multiplies<>());
  double dims = 0;
  double cubes = 0;
  for (const int64_t k : block.shape) {
    const auto d = static_cast<double>(k);
    dims += d;
    cubes += d * d * d;
  }
  Phase factors;
  Phase roots;
  std::deque<Phase> products;
  for (const int64_t k : block.shape) {
    const auto d = static_cast<double>(k);
    const double third = block.ordinary * d / (3 * dims);
    AddTiles(Tiles(d * (d + 1) / 2), third, &factors);
    AddTiles(Tiles(n), 2 * third, &products.emplace_back());
    const double root = block.roots * d * d * d / cubes;
    const int tiles = Tiles(d * d);
    roots.push_back(k >= kSplitRoot ? Piece{root / 2, tiles, root / 2 / tiles} : Piece{root, 0, 0});
  }
  // Threads take pieces from the back, so the longest piece comes last.
  std::sort(roots.begin(), roots.end(), [](const Piece& a, const Piece& b) { return a.seconds < b.seconds; });
  if (block.roots > 0) products.push_front(roots);
  products.push_front(factors);
  return products;
}

// The remaining work of a block.
struct Progress {
  std::deque<Phase> phases;  // phases that have not begun
  Phase waiting;             // pieces of the current phase that no thread has taken
  int running = 0;
  double left = 0;  // seconds of all unfinished pieces

  void NextPhase() {
    if (!waiting.empty() || running > 0 || phases.empty()) return;
    waiting = std::move(phases.front());
    phases.pop_front();
  }
};

// Simulates a step by the model that schedule_model.h describes. An event is the end of a piece on a thread.
class Engine {
 public:
  Engine(const std::vector<BlockTask>& blocks, int threads)
      : blocks_(blocks.size()), own_(static_cast<size_t>(threads), kNone), running_(own_.size()), idle_(own_.size()) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      blocks_[i].phases = PhasesOf(blocks[i]);
      blocks_[i].left = blocks[i].ordinary + blocks[i].roots;
    }
    std::iota(idle_.begin(), idle_.end(), 0);
  }

  double Run() {
    Assign();
    while (!events_.empty()) {
      const auto [time, thread, block] = events_.top();
      events_.pop();
      now_ = time;
      Finish(thread, block);
      Assign();
    }
    return now_;
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  // First, each idle thread continues with its own block (own_) if this block has waiting pieces. Then all threads that
  // are still idle look for work in other blocks.
  void Assign() {
    for (const bool own_only : {true, false}) {
      std::erase_if(idle_, [&](size_t thread) {
        const size_t block = Choose(thread, own_only);
        if (block == kNone) return false;
        Start(thread, block);
        return true;
      });
    }
  }

  size_t Choose(size_t thread, bool own_only) {
    const size_t own = own_[thread];
    if (own != kNone && !blocks_[own].waiting.empty()) return own;
    if (own_only) return kNone;
    if (next_ < blocks_.size()) {
      blocks_[next_].NextPhase();
      return own_[thread] = next_++;
    }
    size_t busiest = kNone;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (!blocks_[i].waiting.empty() && (busiest == kNone || blocks_[i].left > blocks_[busiest].left)) busiest = i;
    }
    return busiest;
  }

  void Start(size_t thread, size_t block) {
    Progress& progress = blocks_[block];
    running_[thread] = progress.waiting.back();
    progress.waiting.pop_back();
    ++progress.running;
    events_.emplace(now_ + running_[thread].seconds, thread, block);
  }

  void Finish(size_t thread, size_t block) {
    Progress& progress = blocks_[block];
    const Piece piece = running_[thread];
    --progress.running;
    progress.left -= piece.seconds;
    AddTiles(piece.tiles, piece.then * piece.tiles, &progress.waiting);
    progress.NextPhase();
    idle_.push_back(thread);
  }

  using Event = std::tuple<double, size_t, size_t>;  // time, thread, block
  std::vector<Progress> blocks_;
  std::vector<size_t> own_;  // for each thread, the block that was assigned to it last, or kNone
  std::vector<Piece> running_;
  std::vector<size_t> idle_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  size_t next_ = 0;
  double now_ = 0;
};

}  // namespace

double Makespan(std::vector<BlockTask> blocks, int threads) {
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const BlockTask& a, const BlockTask& b) { return a.ordinary + a.roots > b.ordinary + b.roots; });
  return Engine(blocks, threads).Run();
}

double TotalWork(const std::vector<BlockTask>& blocks) {
  double sum = 0;
  for (const BlockTask& block : blocks) sum += block.ordinary + block.roots;
  return sum;
}

}  // namespace bench
