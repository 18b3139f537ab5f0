// Strong identifiers: a NodeId is not a LinkId, and neither is an int.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace square {

// An unsigned number that belongs to `Tag`. Ordered, hashable, no arithmetic.
template <typename Tag, typename Representation = std::uint32_t>
class Id {
 public:
  using value_type = Representation;

  constexpr Id() = default;
  constexpr explicit Id(Representation value) : value_(value) {}

  [[nodiscard]] constexpr Representation value() const { return value_; }
  // For use as a position in a vector that is indexed by this id.
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }

  friend constexpr auto operator<=>(const Id&, const Id&) = default;

 private:
  Representation value_ = 0;
};

// Nodes and links of a topology are numbered from 0 without gaps.
using NodeId = Id<struct NodeTag>;
using LinkId = Id<struct LinkTag>;
// Collectives and sessions keep their number over all plans of a controller.
using CollectiveId = Id<struct CollectiveTag>;
using SessionId = Id<struct SessionTag>;
// Position of a stream within its session, in one plan.
using StreamIndex = Id<struct StreamTag, std::uint16_t>;
// Number of a plan; grows with each plan that a controller publishes.
using Epoch = Id<struct EpochTag>;
// Whose plan it is, in a few bytes: tag_of() a PlanOrigin.
using OriginTag = Id<struct OriginTagTag>;
// Number of a call on one collective, from 0, the same on every member.
using OperationId = Id<struct OperationTag, std::uint64_t>;
// Position of a member in its group.
using Rank = Id<struct RankTag>;

}  // namespace square

template <typename Tag, typename Representation>
struct std::hash<square::Id<Tag, Representation>> {
  std::size_t operator()(square::Id<Tag, Representation> id) const noexcept {
    return std::hash<Representation>{}(id.value());
  }
};
