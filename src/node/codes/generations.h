// Sums that came to a destination, until it can solve for the blocks that did not come as they are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "node/codes/coded_payload.h"
#include "node/landing/landing.h"
#include "node/plan/installed_collective.h"
#include "square/buffer.h"

namespace square {

// Of one operation. Which blocks are in their place its owner knows. Not thread-safe: used on the node's
// strand.
class Generations {
 public:
  // A sum of blocks of a generation.
  struct Part {
    std::shared_ptr<const LocalStream> stream;
    CodedPayload payload;
    std::shared_ptr<void> guard;  // of its credit, or of whoever holds it
    CodedAs coded;                // as the source has done with the generation

    [[nodiscard]] const std::vector<double>& row() const { return coded.part->row; }
  };
  // Blocks `missing` are the products of `matrix` with the payloads of `parts` and the blocks `known`, in
  // this order.
  struct Solution {
    FieldKind field = FieldKind::kGf256;
    std::uint64_t number = 0;  // of the generation
    std::size_t first = 0;     // its first block
    std::vector<std::size_t> missing;
    std::vector<std::size_t> known;
    std::vector<Part> parts;
    std::vector<std::vector<double>> matrix;
  };
  // One code of one plan, and a generation of it.
  using CodeKey = std::tuple<Epoch, OriginTag, std::uint32_t>;
  using Solving = std::pair<CodeKey, std::uint64_t>;
  static Solving name_of(const Solution& solution) {
    return {key_of(*solution.parts.front().stream), solution.number};
  }
  // Where a block is: in its place; on its way there, so that a sum is not needed for it; in its place, but
  // solved as floats and so rounded; or missing.
  enum class Place { kHere, kComing, kRounded, kMissing };
  using PlaceOf = std::function<Place(std::size_t block)>;

  // `block_count`: of the operation; what a generation has beyond is zeros.
  explicit Generations(std::size_t block_count) : block_count_(block_count) {}

  // A sum of the generation with this number that begins at `first`. Precondition: its stream is one of the
  // node's sink.
  void add(std::size_t first, std::uint64_t number, Part part);
  // All that the stream has of generations up to this number has come, or is lost.
  void pass(const LocalStream& stream, std::uint64_t number);

  // One that can be solved by now; nothing if there is none. Sums that can be of no use any more are let go.
  // Call it again until there is nothing: after add(), pass(), and when a block has come into its place.
  // Every solution is given back by put_back(), or named in end() once it is written.
  std::optional<Solution> solve(const PlaceOf& place_of);
  void put_back(Solution solution);
  void end(const Solving& solving) { solving_.erase(solving); }
  // How far the source may think that the stream was looked at, of which `seen` came: what waits here, or is
  // being solved, may still come into its place.
  [[nodiscard]] std::uint64_t settled(const LocalStream& stream, std::uint64_t seen) const;
  void clear() { pending_.clear(); }

 private:
  struct Pending {
    std::size_t first = 0;
    std::vector<Part> parts;
  };
  static CodeKey key_of(const LocalStream& stream);
  // Behind its last block.
  [[nodiscard]] std::size_t end_of(const Pending& one) const;
  std::optional<Solution> solution_of(Pending& one, std::uint64_t number, const PlaceOf& place_of) const;
  [[nodiscard]] bool is_hopeless(std::uint64_t number, const Pending& one, const PlaceOf& place_of) const;

  std::size_t block_count_;
  std::map<Solving, Pending> pending_;
  std::set<Solving> solving_;
  std::map<StreamKey, std::uint64_t> passed_;
};

}  // namespace square
