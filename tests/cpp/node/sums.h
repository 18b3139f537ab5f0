// Reduces and all-reduces as their members call them.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "node/overlay.h"

namespace square::test {

// Floats that add exactly, in whatever order: whole numbers, small ones.
inline std::vector<float> whole_floats(std::mt19937_64& random, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
  return values;
}

// Floats whose sum depends on the order of additions.
inline std::vector<float> any_floats(std::mt19937_64& random, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(random() % 1'000'000) * (random() % 2 == 0 ? 1e-3F : 1e3F);
  }
  return values;
}

struct Sum {
  CollectiveId collective;
  OperationId operation{0};
  std::vector<std::uint32_t> nodes;        // by rank
  std::optional<std::uint32_t> root_rank;  // none: an all-reduce
  bool in_place = true;
  Reduction reduction{ElementType::kFloat32, ReduceOp::kSum};
  std::vector<std::vector<float>> inputs;   // by rank
  std::vector<std::vector<float>> outputs;  // by rank; with in_place the inputs too
  std::vector<float> expected;
  std::vector<std::optional<Status>> outcomes;
  std::vector<TimePoint> finished_at;
  Duration timeout = std::chrono::seconds(400);
  std::vector<GroupCall> calls;  // by rank, if the ranks say what they called

  Sum(CollectiveId id, std::vector<std::uint32_t> ranks, std::vector<std::vector<float>> values,
      std::optional<std::uint32_t> root = std::nullopt, bool overwrite = true)
      : collective(id),
        nodes(std::move(ranks)),
        root_rank(root),
        in_place(overwrite),
        inputs(std::move(values)) {
    expected.assign(inputs.front().size(), 0.0F);
    for (const auto& input : inputs) {
      for (std::size_t i = 0; i < input.size(); ++i) expected[i] += input[i];
    }
    outputs.resize(nodes.size());
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      outputs[rank] = in_place ? inputs[rank] : std::vector<float>(inputs[rank].size(), -1.0F);
    }
    outcomes.resize(nodes.size());
    finished_at.resize(nodes.size());
  }

  [[nodiscard]] bool has_result(std::size_t rank) const { return !root_rank || *root_rank == rank; }

  void post(Overlay& overlay, std::uint32_t rank) {
    MemberOperation call;
    call.collective = collective;
    call.operation = operation;
    call.rank = Rank(rank);
    call.input = std::as_bytes(std::span(in_place ? outputs[rank] : inputs[rank]));
    if (has_result(rank)) call.output = std::as_writable_bytes(std::span(outputs[rank]));
    call.reduction = reduction;
    call.group_size = static_cast<std::uint32_t>(nodes.size());
    call.is_root = root_rank == rank;
    if (!calls.empty()) call.call = calls[rank];
    call.timeout = timeout;
    call.done = [this, rank, &overlay](Status status) {
      outcomes[rank] = std::move(status);
      finished_at[rank] = overlay.simulation.clock().now();
    };
    overlay.node(nodes[rank]).post(std::move(call));
  }
  void post_all(Overlay& overlay) {
    for (std::uint32_t rank = 0; rank < nodes.size(); ++rank) post(overlay, rank);
  }
  [[nodiscard]] bool is_over() const {
    return std::ranges::all_of(outcomes, [](const auto& outcome) { return outcome.has_value(); });
  }
  [[nodiscard]] bool all_ok() const {
    return std::ranges::all_of(outcomes, [](const auto& outcome) { return outcome && outcome->is_ok(); });
  }
  // Every result is the same, bit for bit, and, where the values are whole, what it should be.
  [[nodiscard]] bool is_right(bool exact = true) const {
    if (!all_ok()) return false;
    const std::vector<float>* first = nullptr;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      if (!has_result(rank)) {
        if (in_place && outputs[rank] != inputs[rank]) return false;  // only read
        continue;
      }
      if (exact && outputs[rank] != expected) return false;
      if (first == nullptr) first = &outputs[rank];
      if (!std::ranges::equal(std::as_bytes(std::span(*first)), std::as_bytes(std::span(outputs[rank]))))
        return false;
    }
    return true;
  }
};

}  // namespace square::test
