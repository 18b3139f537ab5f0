// Python's memory as the spans that operations take.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "bindings.h"
#include "data.h"
#include "whole_number.h"

namespace square::python {

// Keep the memory until the operation is over.
using Buffers = std::vector<std::shared_ptr<py::buffer_info>>;

// Contiguous, in C order. Raises InvalidArgumentError for others, and for a read-only one where
// `writable` is asked.
std::shared_ptr<py::buffer_info> request(const Data& data, bool writable);
std::span<std::byte> bytes_of(const py::buffer_info& view);

// One buffer for every rank, or one for all ranks, in rank order.
using RankBuffers = std::variant<Data, std::vector<Data>>;
using Sizes = std::optional<std::vector<Size<"a size">>>;

// Its parts, one for every rank of `ranks`; a single buffer is cut evenly, or into `sizes` in bytes.
// Raises InvalidArgumentError where that does not come out. Appends what keeps them to `held`.
std::vector<std::span<std::byte>> cut(const RankBuffers& data, std::size_t ranks, const Sizes& sizes,
                                      bool writable, Buffers& held);
std::vector<std::span<const std::byte>> read_only(const std::vector<std::span<std::byte>>& parts);

}  // namespace square::python
