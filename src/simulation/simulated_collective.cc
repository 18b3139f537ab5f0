#include "simulation/simulated_collective.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace square::simulation {

SimulatedCollective::SimulatedCollective(const CollectiveSpec& spec, std::uint64_t seed)
    : spec_(spec),
      payload_(seed, spec.id.value(), spec.size_bytes),
      buffers_(spec.members.size(), std::vector<std::byte>(spec.size_bytes)),
      members_left_(spec.members.size()) {
  for (std::uint32_t rank = 0; rank < buffers_.size(); ++rank) {
    if (adds()) payload_.fill_term(buffers_[rank], rank);
    if (!adds() && is_root(rank)) payload_.fill(buffers_[rank]);
  }
}

void SimulatedCollective::begin(SimulatedNodes& nodes, Duration timeout) {
  timeout_ = timeout;
  begun_ = nodes.now();
  for (std::size_t rank = 0; rank < buffers_.size(); ++rank) call(nodes, rank);
}

void SimulatedCollective::note_done(const SimulatedNodes& nodes, const Status& outcome) {
  if (failure_.is_ok()) failure_ = outcome;
  --members_left_;
  ended_ = nodes.now();
}

bool SimulatedCollective::has_result(std::size_t rank) const {
  return spec_.op == CollectiveOp::kReduce ? is_root(rank) : true;
}

Status SimulatedCollective::check() const {
  SQUARE_RETURN_IF_ERROR(failure_);
  const auto ranks = static_cast<std::uint32_t>(buffers_.size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (!has_result(rank)) continue;
    const bool is_right =
        adds() ? payload_.is_sum(buffers_[rank], ranks) : payload_.is_filled(buffers_[rank]);
    if (!is_right)
      return data_loss(fmt::format("rank {} of collective {} has not the bytes that it should have", rank,
                                   spec_.id.value()));
  }
  return {};
}

void OneCallCollective::introduce(SimulatedNodes& nodes) { nodes.set_members(spec().id, spec().members); }

void OneCallCollective::call(SimulatedNodes& nodes, std::size_t rank) {
  MemberOperation operation;
  operation.collective = spec().id;
  operation.rank = Rank(static_cast<std::uint32_t>(rank));
  operation.is_root = spec().op != CollectiveOp::kAllReduce && is_root(rank);
  operation.input = buffer(rank);
  if (spec().op != CollectiveOp::kReduce || is_root(rank)) operation.output = buffer(rank);
  if (adds()) operation.reduction = sum_of(spec().size_bytes);
  operation.group_size = static_cast<std::uint32_t>(spec().members.size());
  operation.timeout = timeout();
  operation.done = [this, &nodes](const Status& outcome) { note_done(nodes, outcome); };
  nodes.node(spec().members[rank]).post(std::move(operation));
}

}  // namespace square::simulation
